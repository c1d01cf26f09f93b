"""Values of ops recorded by earlier versions: read under the current names of their fields."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.op_kinds.catalogue import OP_KINDS
from staticfire.checkers.op_kinds.former_fields import FORMER_FIELDS, with_current_fields

ROOT = Path(__file__).parents[3]


@pytest.mark.parametrize("f", FORMER_FIELDS)
def test_each_former_field_has_given_way_to_a_declared_one(f: str) -> None:
    """Of a kind that is recorded as another, such as a transaction as a send, the fields count as well."""
    kinds = [kind for kind in OP_KINDS.values() if kind.recorded_name == f]
    declared = {name for kind in kinds for of in (kind.result, kind.report) for name in of or {}}
    assert set(FORMER_FIELDS[f].values()) <= declared
    assert declared.isdisjoint(FORMER_FIELDS[f])


@pytest.mark.parametrize(
    ("f", "value", "now"),
    [
        ("send", {"key": "p1-0", "told": False}, {"key": "p1-0", "end_sent": False}),
        ("send_many", {"stretches": [], "count": 0}, {"ranges": [], "count": 0}),
        ("consume_many", {"stretches": []}, {"ranges": []}),
        ("consume", {"stretches": []}, {"stretches": []}),
        ("send", {"told": True, "end_sent": False}, {"told": True, "end_sent": False}),
    ],
)
def test_a_former_field_is_read_under_its_name(
    f: str, value: dict[str, Any], now: dict[str, Any]
) -> None:
    assert with_current_fields(f, value) == now


def test_a_value_without_former_fields_is_not_copied() -> None:
    value = {"key": "p1-0"}
    assert with_current_fields("send", value) is value
