"""Data classes read from a file: values have the annotated types, or are refused by name."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

import pytest

from staticfire.checkers.model.typed_fields import check_types


@dataclass(frozen=True, slots=True, kw_only=True)
class Inner:
    at_s: float = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Outer:
    count: int = 1
    word: Literal["one", "two"] | None = None
    names: tuple[str, ...] = ("a",)
    by_name: Mapping[str, tuple[Inner, ...]]
    anything: Any = None


GOOD = Outer(by_name={"x": (Inner(),)})


@pytest.mark.parametrize(
    "changes",
    [
        {},
        {"word": "two"},
        {"by_name": {"x": (Inner(at_s=2),)}},
        {"anything": b"one"},
        {"anything": [None]},
    ],
    ids=str,
)
def test_right_types_pass(changes: dict[str, Any]) -> None:
    check_types(replace(GOOD, **changes), Outer, "it")


@pytest.mark.parametrize(
    ("changes", "name"),
    [
        ({"count": True}, "count"),
        ({"count": 2**63}, "count"),
        ({"count": "1"}, "count"),
        ({"word": "three"}, "word"),
        ({"names": ["a"]}, "names"),
        ({"names": ("a", 1)}, "names"),
        ({"by_name": {"x": (1,)}}, "by_name"),
        ({"by_name": {1: ()}}, "by_name"),
        ({"by_name": {"x": (Inner(at_s="soon"),)}}, "at_s"),  # type: ignore[arg-type]
    ],
    ids=str,
)
def test_a_wrong_type_is_named(changes: dict[str, Any], name: str) -> None:
    with pytest.raises(TypeError, match=f"^{name} is or holds "):
        check_types(replace(GOOD, **changes), Outer, "it")


def test_a_long_value_is_cut() -> None:
    with pytest.raises(TypeError) as error:
        check_types("x" * 1000, int, "it")
    assert len(str(error.value)) < 150
