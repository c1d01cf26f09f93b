"""Measures the rates at which a consumer pulls and consumes (RocketMQ: ConsumerStatsManager)."""

from __future__ import annotations

from collections import deque

from staticfire.system_under_test.protocol.bodies_clients import ConsumeStatus

SLOT_S = 10.0
MINUTE_SLOTS = 6
HOUR_SLOTS = 360


class Slot:
    """Counts of ten seconds."""

    __slots__ = ("batches", "consume_ms", "failed", "number", "ok", "pull_ms", "pulled", "pulls")

    def __init__(self, number: int) -> None:
        self.number = number
        self.pulls = self.pulled = self.batches = self.ok = self.failed = 0
        self.pull_ms = self.consume_ms = 0.0


class ConsumeFigures:
    """Rates of the last minute, and failures of the last hour. Times are seconds of the loop's clock."""

    def __init__(self) -> None:
        self._slots: deque[Slot] = deque(maxlen=HOUR_SLOTS)

    def pulled(self, now_s: float, messages: int, took_s: float) -> None:
        """Count a pull that found messages."""
        slot = self._slot(now_s)
        slot.pulls += 1
        slot.pulled += messages
        slot.pull_ms += took_s * 1000

    def consumed(self, now_s: float, messages: int, took_s: float, *, succeeded: bool) -> None:
        """Count a call of the listener that has returned."""
        slot = self._slot(now_s)
        slot.batches += 1
        slot.consume_ms += took_s * 1000
        if succeeded:
            slot.ok += messages
        else:
            slot.failed += messages

    def status(self, now_s: float) -> ConsumeStatus:
        number = int(now_s / SLOT_S)
        hour = [slot for slot in self._slots if slot.number > number - HOUR_SLOTS]
        minute = [slot for slot in hour if slot.number > number - MINUTE_SLOTS]
        minute_s = MINUTE_SLOTS * SLOT_S
        return ConsumeStatus(
            pull_rt=sum(s.pull_ms for s in minute) / max(1, sum(s.pulls for s in minute)),
            pull_tps=sum(s.pulled for s in minute) / minute_s,
            consume_rt=sum(s.consume_ms for s in minute) / max(1, sum(s.batches for s in minute)),
            consume_ok_tps=sum(s.ok for s in minute) / minute_s,
            consume_failed_tps=sum(s.failed for s in minute) / minute_s,
            consume_failed_msgs=sum(s.failed for s in hour),
        )

    def _slot(self, now_s: float) -> Slot:
        number = int(now_s / SLOT_S)
        if not self._slots or self._slots[-1].number != number:
            self._slots.append(Slot(number))
        return self._slots[-1]
