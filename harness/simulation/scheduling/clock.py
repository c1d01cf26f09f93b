"""Clocks of a simulated host: a wall clock, which faults may step, and a monotonic clock, which they cannot."""

from __future__ import annotations

from staticfire.harness.simulation.scheduling.scheduler import Scheduler

EPOCH_MS = 1_700_000_000_000  # wall time at the start of every run (14 November 2023, UTC)


class HostClock:
    """Implements the system's `Clock`. Both continue while the process is paused or the host has no power."""

    __slots__ = ("_scheduler", "offset_ms")

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler
        self.offset_ms = 0

    def wall_ms(self) -> int:
        scheduler = self._scheduler
        return EPOCH_MS + self.offset_ms + (scheduler.now_ns + scheduler.debt_ns) // 1_000_000

    def monotonic_ns(self) -> int:
        scheduler = self._scheduler
        return scheduler.now_ns + scheduler.debt_ns

    def step(self, milliseconds: int) -> None:
        """Move the wall clock, forwards or (negative) backwards."""
        self.offset_ms += milliseconds
