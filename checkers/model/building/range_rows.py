"""Expands condensed ops into rows: one row for each message of a range, and many ranges in one step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Final

import numpy as np

from staticfire.checkers.model.building.column_arrays import NOTHING_SPECIAL, SHARED, in_order
from staticfire.checkers.model.building.column_values import integer, text
from staticfire.checkers.model.columns import UNKNOWN, Ints, MessageEvents
from staticfire.checkers.model.history import INT64_MAX, Op
from staticfire.checkers.model.message_contents import NO_PROPERTIES
from staticfire.checkers.model.message_ids import NUMBER_MASK, OTHER, MessageIds
from staticfire.checkers.model.message_ranges import MessageRange, nth_key, of_delivery, of_send
from staticfire.checkers.op_kinds.message_fields import MANY_MAX

_PLACED = (
    "message",
    "queue_offset",
    "position",
    "tries",
    "body_ok",
    "count",
    "stride",
    "size",
)
_SENT = {**NOTHING_SPECIAL, "properties": NO_PROPERTIES}
WIDTH: Final = len(SHARED) + len(_PLACED)
# the values that the messages of an op share, in the order of column_arrays.SHARED
Shared = tuple[int, ...]


class RangeEvents:
    """Collects the message ranges of condensed ops; `take` makes events of them."""

    __slots__ = ("_deliveries", "_messages", "_sends", "events")

    def __init__(self, messages: MessageIds) -> None:
        self._messages = messages
        self._sends: list[tuple[int, ...]] = []
        self._deliveries: list[tuple[int, ...]] = []
        self.events = 0  # the number of collected events

    def add_send(self, op: Op, shared: Shared) -> int:
        """Take a `send_many`, and return its number of messages. Raises one of BAD_VALUE, HistoryError."""
        value = op.value
        count, attempts = _count(value["count"]), integer(value.get("attempts", 0))
        first, size = text(value["key"]), value.get("size", UNKNOWN)
        if "ranges" not in value:  # their positions are not known
            message_ranges: Iterator[MessageRange] = iter(
                [MessageRange(first, UNKNOWN, UNKNOWN, True, attempts, count, 0)]
            )
        else:
            reported = map(of_send, value["ranges"])
            message_ranges = (message_range._replace(tries=attempts) for message_range in reported)
        covered = 0
        for message_range in message_ranges:
            if message_range.key != nth_key(first, covered):
                raise ValueError(
                    f"a range begins with {message_range.key!r}; expected the next key"
                )
            self._sends.append((*shared, *self._row(message_range), integer(size)))
            covered += message_range.length
        if covered != count:
            raise ValueError(f"its ranges hold {covered} messages; expected {count}")
        self.events += count
        return count

    def add_delivery(self, op: Op, shared: Shared) -> int:
        """Take a `consume_many`, and return its number of messages. Raises one of BAD_VALUE, HistoryError."""
        total = 0
        for row in op.value["ranges"]:
            message_range = of_delivery(row)
            self._deliveries.append((*shared, *self._row(message_range), UNKNOWN))
            total += message_range.length
        self.events += _count(total)
        return total

    def _row(self, message_range: MessageRange) -> tuple[int, ...]:
        """Return the columns of _PLACED without the size. Raises ValueError for impossible messages."""
        count = _count(message_range.length)
        message = UNKNOWN if message_range.key is None else self._messages[text(message_range.key)]
        offset, physical = (
            integer(message_range.queue_offset),
            integer(message_range.physical_offset),
        )
        stride = integer(message_range.stride)
        if count > 1:
            if (
                message == UNKNOWN
                or message & OTHER
                or (message & NUMBER_MASK) + count > NUMBER_MASK
            ):
                raise ValueError(
                    f"key {message_range.key!r} begins a range; expected the form p<process>-<n>"
                )
            if offset + count > INT64_MAX or abs(physical) + count * abs(stride) > INT64_MAX:
                raise ValueError("the offsets of a range do not fit 64 bits")
        if type(message_range.body_ok) is not bool:
            raise ValueError(f"body_ok is {message_range.body_ok!r}; expected bool")
        tries = integer(message_range.tries)
        return message, offset, physical, tries, int(message_range.body_ok), count, stride

    def take(self) -> tuple[MessageEvents, MessageEvents]:
        """Return the sends and the deliveries since the last call, each sorted by queue and op."""
        taken = _expanded(self._sends, _SENT), _expanded(self._deliveries, NOTHING_SPECIAL)
        self._sends, self._deliveries, self.events = [], [], 0
        return taken


def _count(value: object) -> int:
    count = integer(value)
    if not 1 <= count <= MANY_MAX:
        raise ValueError(f"{count} messages in one op; allowed are 1 to {MANY_MAX}")
    return count


def _expanded(rows: Sequence[tuple[int, ...]], same: Mapping[str, int]) -> MessageEvents:
    table = np.array(rows, np.int64).reshape(len(rows), WIDTH)
    counts = table[:, len(SHARED) + _PLACED.index("count")]
    all_rows = np.repeat(table, counts, axis=0).T.copy()
    columns: dict[str, Ints] = dict(zip((*SHARED, *_PLACED), all_rows, strict=True))
    starts = np.cumsum(counts) - counts
    step = np.arange(len(all_rows[0])) - np.repeat(starts, counts)
    count, stride = columns.pop("count"), columns.pop("stride")
    known = count > 1
    columns["message"] += step
    columns["queue_offset"] += np.where(known & (columns["queue_offset"] != UNKNOWN), step, 0)
    columns["position"] += step * stride
    body_ok = columns.pop("body_ok").astype(np.bool_)
    return in_order(columns, same, body_ok)
