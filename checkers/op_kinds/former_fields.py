"""Former names of fields in the values of recorded ops."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY

# Kind of op -> former name of a field -> its name. Histories before version 2 of the columns have the former names.
FORMER_FIELDS: Mapping[str, Mapping[str, str]] = {
    CONSUME_MANY: {"stretches": "ranges"},
    SEND_MANY: {"stretches": "ranges"},
    "send": {"told": "end_sent"},
}


def with_current_fields(f: str, value: dict[str, Any]) -> dict[str, Any]:
    """Return the value of an op `f` with the current names of its fields. A field that has both names keeps both."""
    former = FORMER_FIELDS.get(f)
    if former is None or former.keys().isdisjoint(value):
        return value
    return {
        former[name] if former.get(name, name) not in value else name: field
        for name, field in value.items()
    }
