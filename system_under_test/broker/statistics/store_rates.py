"""Measures rates of puts and gets, and the time of gets (RocketMQ, StoreStatsService)."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from staticfire.system_under_test.broker.statistics.put_times import PutTimes
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics

SAMPLING_INTERVAL_S = 1.0
SAMPLES_MAX = 601  # ten minutes
RATE_SPANS_S = (10, 60, 600)


class RateSample(NamedTuple):
    at_ns: int
    put: int
    found: int
    missed: int
    transferred: int


class StoreRates:
    """Ten minutes of samples, one a second."""

    def __init__(self, statistics: BrokerStatistics) -> None:
        self._statistics = statistics
        self._samples: deque[RateSample] = deque(maxlen=SAMPLES_MAX)
        self.put_times = PutTimes()
        self.longest_get_ns = 0

    def get_took(self, elapsed_ns: int) -> None:
        """Record the time of an answered pull."""
        if elapsed_ns > self.longest_get_ns:
            self.longest_get_ns = elapsed_ns

    def sample(self, now_ns: int) -> None:
        """Take a sample; call every SAMPLING_INTERVAL_S."""
        counted = self._statistics
        self._samples.append(
            RateSample(
                now_ns,
                counted.put_messages,
                counted.get_hits,
                counted.get_misses,
                counted.got_messages,
            )
        )

    def texts(self) -> dict[str, str]:
        """The five rates of code 28, each per second over 10 s, 60 s and 600 s."""
        return {
            "putTps": self._text(lambda sample: sample.put),
            "getFoundTps": self._text(lambda sample: sample.found),
            "getMissTps": self._text(lambda sample: sample.missed),
            "getTotalTps": self._text(lambda sample: sample.found + sample.missed),
            "getTransferedTps": self._text(lambda sample: sample.transferred),
        }

    def _text(self, of: Callable[[RateSample], int]) -> str:
        return " ".join(str(self._rate(of, span_s)) for span_s in RATE_SPANS_S)

    def _rate(self, of: Callable[[RateSample], int], span_s: int) -> float:
        """Growth per second from the sample `span_s` ago, or the oldest one, to the newest; RocketMQ starts at 0.0."""
        if len(self._samples) < 2:
            return 0.0
        last = self._samples[-1]
        first = self._samples[max(0, len(self._samples) - 1 - span_s)]
        return (of(last) - of(first)) * 1e9 / (last.at_ns - first.at_ns)
