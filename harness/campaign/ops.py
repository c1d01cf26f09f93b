"""The workload of a campaign as data: every op of every producer, with its time.

A campaign without it draws ops and pauses from the seed. With it, the workload does not depend on the seed, so that
`shrink` can remove single ops.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypedDict

from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.accounts import GUEST, REFUSED
from staticfire.harness.clients.line_requests import PRODUCER, checker
from staticfire.harness.clients.lines import LineError
from staticfire.harness.truncated_repr import truncated_repr

OPS_MAX = 1_000_000
NS_PER_S = 1_000_000_000
_FIELDS: Mapping[str, tuple[tuple[type, ...], str]] = {
    "node": ((str,), "text"),
    "at_s": ((int, float), "a number"),
    "f": ((str,), "text"),
    "value": ((dict,), "a table"),
}
_check_request = checker("producer", PRODUCER, (GUEST, *REFUSED.values()))


class BatchValue(TypedDict):
    """The value of `send_batch`, with the fields that the harness adds to each message."""

    topic: str
    messages: list[SendValue]


# An op of a workload: its kind, and its value (SendValue, BatchValue, SendManyValue).
GeneratedOp = tuple[str, Mapping[str, Any]]


class OpError(ValueError):
    """An op of a campaign is not valid. The text names the field, its value and what is allowed."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedOp:
    """One op.

    Attributes:
        node: the producer that carries it out.
        at_s: seconds from the start of the load; the op waits for the producer's previous op.
        f: the kind of request.
        value: its fields, as in docs/client-protocol.md, and those that say how the op is judged.
    """

    node: str
    at_s: float
    f: str
    value: Mapping[str, Any]

    @property
    def at_ns(self) -> int:
        return round(self.at_s * NS_PER_S)

    @property
    def keys(self) -> tuple[str, ...]:
        """Return the keys of the op's messages; for a range of messages, the first key."""
        messages = self.value["messages"] if self.f == "send_batch" else [self.value]
        return tuple(message["key"] for message in messages)


def ops_to_data(ops: Iterable[PlannedOp]) -> list[dict[str, object]]:
    """Return the ops as plain tables for TOML."""
    return [{"node": op.node, "at_s": op.at_s, "f": op.f, "value": op.value} for op in ops]


def read_ops(rows: object) -> tuple[PlannedOp, ...]:
    """Read ops from the tables of a file. Raises OpError."""
    if not isinstance(rows, list):
        raise OpError(f"ops are {truncated_repr(rows)}; allowed: a list of tables")
    if len(rows) > OPS_MAX:
        raise OpError(f"there are {len(rows)} ops; allowed: up to {OPS_MAX}")
    for number, row in enumerate(rows):
        _check_row(row, f"op {number}")
    return tuple(
        PlannedOp(node=row["node"], at_s=float(row["at_s"]), f=row["f"], value=row["value"])
        for row in rows
    )


def _check_row(row: object, entry: str) -> None:
    if not isinstance(row, dict):
        raise OpError(f"{entry} is {truncated_repr(row)}; allowed: a table")
    if unknown := [name for name in row if name not in _FIELDS]:
        there = ", ".join(_FIELDS)
        raise OpError(
            f"{entry} has an unknown entry {truncated_repr(unknown[0])}; there are: {there}"
        )
    for name, (types, words) in _FIELDS.items():
        if name not in row:
            raise OpError(f"{entry} lacks {name}; it needs {', '.join(_FIELDS)}")
        if not isinstance(row[name], types) or isinstance(row[name], bool):
            raise OpError(f"{name} of {entry} is {truncated_repr(row[name])}; allowed: {words}")


def check_ops(ops: Sequence[PlannedOp], producers: Sequence[str], load_s: float) -> None:
    """Raise OpError for the first op that no producer of the campaign can carry out."""
    keys: set[str] = set()
    for number, op in enumerate(ops):
        entry = f"op {number}"
        if op.node not in producers:
            allowed = ", ".join(producers)
            raise OpError(f"node of {entry} is {truncated_repr(op.node)}; allowed: {allowed}")
        if not 0 <= op.at_s <= load_s:
            allowed = f"0 to {load_s:g} seconds, the time of the load"
            raise OpError(f"at_s of {entry} is {op.at_s:g}; allowed: {allowed}")
        if "f" in op.value:
            raise OpError(f"value of {entry} has an entry f; allowed: fields of the request {op.f}")
        try:
            _check_request({"f": op.f, **op.value})
        except LineError as error:
            raise OpError(f"value of {entry}: {error}") from error
        for key in op.keys:
            if key in keys:
                raise OpError(f"key of {entry} is {truncated_repr(key)}; allowed: each key once")
            keys.add(key)
