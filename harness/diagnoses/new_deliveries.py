"""Finds the messages of a delivery that no member had before, by queue offset, in little memory."""

from __future__ import annotations

from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import of_delivery
from staticfire.checkers.op_kinds.values import ConsumeManyReport

Machine = tuple[str, str, int]  # topic, broker, queue


class NewDeliveries:
    """Counts each message once, however often it is delivered."""

    def __init__(self) -> None:
        self._taken: dict[Machine, bytearray] = {}

    def count(self, op: Op[ConsumeManyReport]) -> int:
        """How many messages of a `consume_many` no member had before; marks them."""
        place = op.value["topic"], op.value["broker"], op.value["queue"]
        taken = self._taken.setdefault(place, bytearray())
        new = 0
        for row in op.value["stretches"]:
            stretch = of_delivery(row)
            first, behind = stretch.queue_offset, stretch.queue_offset + stretch.length
            taken.extend(bytes(max(0, behind - len(taken))))
            new += taken.count(0, first, behind)
            taken[first:behind] = b"\1" * stretch.length
        return new
