"""Notices when the wall clock steps, by the monotonic clock."""

from __future__ import annotations

from staticfire.system_under_test.runtime.env import Clock

TOLERANCE_MS = 50  # a smaller difference is rounding, or slewing
NS_PER_MS = 1_000_000


class ClockSteps:
    """Measures how far the wall clock has jumped between two looks."""

    __slots__ = ("_ahead_ms", "_clock")

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._ahead_ms = self._difference_ms()

    def _difference_ms(self) -> int:
        return self._clock.wall_ms() - self._clock.monotonic_ns() // NS_PER_MS

    def take_step_ms(self) -> int:
        """Milliseconds by which the clock was set forward (or back, below 0) since the last call; mostly 0."""
        step_ms = self._difference_ms() - self._ahead_ms
        if abs(step_ms) <= TOLERANCE_MS:
            return 0
        self._ahead_ms += step_ms
        return step_ms
