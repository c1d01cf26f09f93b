"""Pauses between the ops of a process."""

from __future__ import annotations

from random import Random


class ThinkTimes:
    """Pauses between ops, uniform between half and one and a half of a mean in milliseconds."""

    def __init__(self, random: Random, mean_ms: float) -> None:
        self._random = random
        self._mean_s = mean_ms / 1000.0

    def next_s(self) -> float:
        return self._mean_s * (0.5 + self._random.random())
