"""Durations in integer buckets, so that all engines count exactly the same.

Each doubling has sixteen buckets, from a microsecond to twelve days. So a percentile read from them is at most a
sixteenth above the true one. The last bucket has no upper end. A duration in nanoseconds belongs to the bucket of its
whole microseconds (integer division).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from staticfire.checkers.model.columns import Ints

NS_PER_US = 1000
DOUBLINGS = 40  # 2**40 us are twelve days
_FINE = 16
EDGES_US: list[int] = [  # the lower bound of each bucket, ascending
    *range(_FINE),
    *((_FINE + step) << shift for shift in range(DOUBLINGS - 4) for step in range(_FINE)),
]
BUCKETS = len(EDGES_US)
_MANTISSA = 52 - 4  # bits of a float that are dropped
# upper bits of the float 16.0, the lower bound of bucket 16, less 16
_OF_SIXTEEN = ((1023 + 4) << 4) - _FINE


def buckets_of(durations_ns: Ints) -> Ints:
    """Return the bucket of each duration, same shape; negative durations are in the first bucket."""
    whole_us = durations_ns // NS_PER_US
    # The exponent and the first four bits of the fraction. As a float, every integer up to 2**53 is exact.
    found = (whole_us.astype(np.float64).view(np.int64) >> _MANTISSA) - _OF_SIXTEEN
    np.minimum(found, BUCKETS - 1, out=found)
    np.copyto(found, np.maximum(whole_us, 0), where=whole_us < _FINE)
    return found


def percentile_us(buckets: Sequence[int], counts: Sequence[int], hundredths: int) -> int:
    """Return the last microsecond of the bucket that holds the nearest-rank percentile.

    For the last bucket, which has no upper end, return the last microsecond before it. There must be at least one
    count, otherwise the function raises StopIteration.

    Args:
        buckets: ascending.
        counts: the number of durations in each.
        hundredths: the percentile in hundredths of a percent: 9990 is 99.9 %.
    """
    rank = -(-sum(counts) * hundredths // 10_000)
    below = accumulate(counts)
    bucket = next(bucket for bucket, last in zip(buckets, below, strict=True) if last >= rank)
    return EDGES_US[min(bucket + 1, BUCKETS - 1)] - 1
