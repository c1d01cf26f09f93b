"""Rates and times of puts and gets (RocketMQ, StoreStatsService)."""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from system_under_test.broker.administration.statistics import BrokerStatistics

SAMPLING_INTERVAL_S = 1.0
SAMPLES_MAX = 601  # ten minutes
RATE_SPANS_S = (10, 60, 600)

# Upper bounds in ms, inclusive, and how RocketMQ names what lies below them.
TIME_BOUNDS_MS = (0, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
TIME_NAMES = (
    "[<=0ms]",
    "[0~10ms]",
    "[10~50ms]",
    "[50~100ms]",
    "[100~200ms]",
    "[200~500ms]",
    "[500ms~1s]",
    "[1~2s]",
    "[2~3s]",
    "[3~4s]",
    "[4~5s]",
    "[5~10s]",
    "[10s~]",
)
LATENCY_BOUNDS_MS: tuple[int, ...] = (*range(100), *range(100, 1000, 10), *range(1000, 10_001, 100))


class RateSample(NamedTuple):
    at_ns: int
    put: int
    found: int
    missed: int
    transferred: int


class PutTimes:
    """How long puts took."""

    __slots__ = ("_latencies", "_ranges", "longest_ms")

    def __init__(self) -> None:
        self.longest_ms = 0
        self._ranges = [0] * len(TIME_NAMES)
        self._latencies = [0] * (len(LATENCY_BOUNDS_MS) + 1)

    def took(self, elapsed_ms: int) -> None:
        """Count one put."""
        self.longest_ms = max(self.longest_ms, elapsed_ms)
        self._ranges[bisect_left(TIME_BOUNDS_MS, elapsed_ms)] += 1
        self._latencies[bisect_left(LATENCY_BOUNDS_MS, elapsed_ms)] += 1

    def text(self) -> str:
        """As RocketMQ prints it: `[<=0ms]:5 [0~10ms]:0 ...`."""
        pairs = zip(TIME_NAMES, self._ranges, strict=True)
        return "".join(f"{name}:{count} " for name, count in pairs)

    def quantile_ms(self, share: float) -> int:
        """The time that this share of the puts did not exceed; 0 without puts."""
        wanted = share * sum(self._latencies)
        seen = 0
        for number, bound_ms in enumerate(LATENCY_BOUNDS_MS):
            seen += self._latencies[number]
            if seen and seen >= wanted:
                return bound_ms
        return self.longest_ms


class StoreRates:
    """Ten minutes of samples, one a second."""

    def __init__(self, statistics: BrokerStatistics) -> None:
        self._statistics = statistics
        self._samples: deque[RateSample] = deque(maxlen=SAMPLES_MAX)
        self.put_times = PutTimes()

    def sample(self, now_ns: int) -> None:
        """To be called every SAMPLING_INTERVAL_S."""
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
        """The five rates of code 28: a second over 10 s, 60 s and 600 s."""
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
        """Growth a second from the sample `span_s` ago, or the oldest one, to the newest; RocketMQ starts at 0.0."""
        if len(self._samples) < 2:
            return 0.0
        last = self._samples[-1]
        first = self._samples[max(0, len(self._samples) - 1 - span_s)]
        return (of(last) - of(first)) * 1e9 / (last.at_ns - first.at_ns)
