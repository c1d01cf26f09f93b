"""Counts the bytes that passed through a link, and those that were held back or lost."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(slots=True)
class FlowCounters:
    """Running totals of one direction, in bytes. Bytes that several kinds of fault affect count for each kind."""

    passed: int = 0
    delayed: int = 0  # waited because of a delay, or still wait
    limited: int = 0  # waited because of a limit
    frozen: int = 0  # waited for the end of a freeze, or still wait
    dropped: int = 0  # discarded

    def add(self, other: FlowCounters) -> None:
        self.passed += other.passed
        self.delayed += other.delayed
        self.limited += other.limited
        self.frozen += other.frozen
        self.dropped += other.dropped
