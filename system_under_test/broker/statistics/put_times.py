"""Measures puts, from the append to the answer (RocketMQ, StoreStatsService.setPutMessageEntireTimeMax)."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from itertools import accumulate, chain, repeat
from math import ceil

ROUND_S = 60.0  # RocketMQ, StoreStatsService.printTPSInterval: reports cover the last whole round
NS_PER_MS = 1_000_000

# Ends of the ranges in ms, and RocketMQ's names for them. A time equal to an end belongs to the next range.
RANGE_ENDS_MS = (1, 10, 50, 100, 200, 500, 1000, 2000, 3000, 4000, 5000, 10_000)
RANGE_NAMES = (
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
# (step in ms, number) of the buckets for quantiles; each holds times up to and including its end.
BUCKET_STEPS_MS = ((1, 20), (2, 15), (5, 10), (10, 10), (50, 6), (100, 5), (1000, 9))
BUCKET_ENDS_MS = tuple(
    accumulate(chain.from_iterable(repeat(step, times) for step, times in BUCKET_STEPS_MS))
)


class PutTimes:
    """Counts puts by the milliseconds that they took. A batch is one put.

    `took` is called for every put, so it counts and does nothing else.
    """

    __slots__ = ("_counts", "_last", "_longest_ms")

    def __init__(self) -> None:
        self._counts: dict[int, int] = {}  # puts of this round, by whole milliseconds
        self._last: dict[int, int] | None = None  # those of the round before
        self._longest_ms = 0

    def took(self, elapsed_ns: int, puts: int = 1) -> None:
        """Count puts that took that long."""
        elapsed_ms = elapsed_ns // NS_PER_MS
        counts = self._counts
        counts[elapsed_ms] = counts.get(elapsed_ms, 0) + puts

    def begin_round(self) -> None:
        """Begin the next round; call every ROUND_S."""
        self._longest_ms = self.longest_ms
        self._last, self._counts = self._counts, {}

    @property
    def longest_ms(self) -> int:
        """The longest put of all rounds, in ms."""
        return max(self._longest_ms, max(self._counts, default=0))

    @property
    def _logged(self) -> dict[int, int]:
        """Counts of the last whole round; during the first one, the counts so far (RocketMQ: none)."""
        return self._counts if self._last is None else self._last

    def text(self) -> str:
        """The counts by range as RocketMQ prints them: `[<=0ms]:5 [0~10ms]:0 ...`."""
        ranges = [0] * len(RANGE_NAMES)
        for elapsed_ms, puts in self._logged.items():
            ranges[bisect_right(RANGE_ENDS_MS, elapsed_ms)] += puts
        pairs = zip(RANGE_NAMES, ranges, strict=True)
        return "".join(f"{name}:{puts} " for name, puts in pairs)

    def quantile_ms(self, share: float) -> float:
        """The time that this share of the puts did not exceed, interpolated inside its bucket; 0 without puts.

        For puts beyond the last bucket it returns the longest time (RocketMQ: a huge constant).
        """
        buckets = [0] * (len(BUCKET_ENDS_MS) + 1)
        for elapsed_ms, puts in self._logged.items():
            buckets[bisect_left(BUCKET_ENDS_MS, elapsed_ms)] += puts
        wanted = ceil(sum(buckets) * share)
        start_ms = 0
        for end_ms, puts in zip(BUCKET_ENDS_MS, buckets, strict=False):
            if wanted <= puts:
                return start_ms + (end_ms - start_ms) * wanted / puts if puts else float(start_ms)
            wanted -= puts
            start_ms = end_ms
        return float(max(self._logged))
