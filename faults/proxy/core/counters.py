"""Counts what passed through a link and what did not."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FlowCounters:
    """Bytes of one direction, running totals. Bytes that several kinds of faults touch count for each."""

    passed: int = 0
    delayed: int = 0  # had to wait because of a delay, or still do
    limited: int = 0  # had to wait because of a limit
    frozen: int = 0  # had to wait for the end of a freeze, or still do
    dropped: int = 0  # will never arrive

    def add(self, other: FlowCounters) -> None:
        self.passed += other.passed
        self.delayed += other.delayed
        self.limited += other.limited
        self.frozen += other.frozen
        self.dropped += other.dropped
