"""Finds the first deliveries of messages."""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import of_delivery
from staticfire.checkers.op_kinds.values import ConsumeManyReport

Machine = tuple[str, str, int]  # topic, broker, queue


def first_deliveries(ops: Sequence[Op]) -> dict[str, int]:
    """Return the time of each message's first delivery, by key, in nanoseconds."""
    found: dict[str, int] = {}
    for op in ops:
        if op.f == "consume" and op.type == "ok":
            for message in op.value["messages"]:
                found.setdefault(message[0], op.time_ns)
    return found


class NewDeliveries:
    """Counts each message once, however often it is delivered, by queue offset and in little memory."""

    def __init__(self) -> None:
        self._taken: dict[Machine, bytearray] = {}

    def count(self, op: Op[ConsumeManyReport]) -> int:
        """Count and mark the messages of a `consume_many` that no member had before."""
        queue = op.value["topic"], op.value["broker"], op.value["queue"]
        taken = self._taken.setdefault(queue, bytearray())
        new = 0
        for row in op.value["ranges"]:
            message_range = of_delivery(row)
            first, behind = (
                message_range.queue_offset,
                message_range.queue_offset + message_range.length,
            )
            taken.extend(bytes(max(0, behind - len(taken))))
            new += taken.count(0, first, behind)
            taken[first:behind] = b"\1" * message_range.length
        return new
