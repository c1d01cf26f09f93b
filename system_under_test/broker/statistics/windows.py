"""Samples a counter, and summarizes its last minute, hour and day (RocketMQ, StatsItem)."""

from __future__ import annotations

from collections import deque
from typing import NamedTuple

from staticfire.system_under_test.protocol.bodies_clients import BrokerStats, StatsSummary

MINUTE_PERIOD_MS = 10_000  # RocketMQ, StatsItem.samplingInSeconds: 7 samples are a minute
HOUR_PERIOD_MS = 600_000  # samplingInMinutes
DAY_PERIOD_MS = 3_600_000  # samplingInHour
MINUTE_SAMPLES, HOUR_SAMPLES, DAY_SAMPLES = 7, 7, 25


class Sample(NamedTuple):
    """The value of a counter at one time, and the number of calls so far."""

    at_ms: int
    value: int
    times: int


class Window:
    """The last samples of one counter, at least `period_ms` apart."""

    __slots__ = ("_period_ms", "_samples")

    def __init__(self, period_ms: int, count_max: int) -> None:
        self._period_ms = period_ms
        self._samples: deque[Sample] = deque(maxlen=count_max)

    def take(self, now_ms: int, value: int, times: int) -> None:
        """Keep a sample, if it is time for one. A new counter counts as 0 one period ago."""
        if not self._samples:
            self._samples.append(Sample(now_ms - self._period_ms, 0, 0))
        if now_ms - self._samples[-1].at_ms >= self._period_ms:
            self._samples.append(Sample(now_ms, value, times))

    def summary(self) -> StatsSummary:
        """Growth, growth per second and growth per call from the oldest to the newest sample."""
        if len(self._samples) < 2:
            return StatsSummary()
        first, last = self._samples[0], self._samples[-1]
        grown, calls = last.value - first.value, last.times - first.times
        return StatsSummary(
            sum=grown,
            tps=grown * 1000 / (last.at_ms - first.at_ms),
            avgpt=grown / calls if calls > 0 else 0.0,
        )


class Windows:
    """The three windows of one counter."""

    __slots__ = ("day", "hour", "minute")

    def __init__(self) -> None:
        self.minute = Window(MINUTE_PERIOD_MS, MINUTE_SAMPLES)
        self.hour = Window(HOUR_PERIOD_MS, HOUR_SAMPLES)
        self.day = Window(DAY_PERIOD_MS, DAY_SAMPLES)

    def take(self, now_ms: int, value: int, times: int) -> None:
        self.minute.take(now_ms, value, times)
        self.hour.take(now_ms, value, times)
        self.day.take(now_ms, value, times)

    def summary(self) -> BrokerStats:
        return BrokerStats(
            stats_minute=self.minute.summary(),
            stats_hour=self.hour.summary(),
            stats_day=self.day.summary(),
        )
