"""Durations in integer buckets, so that every engine that counts them agrees to the bit.

Each doubling has sixteen buckets, from a microsecond to days. So a percentile read from them is at most a sixteenth
above the true one. A duration in nanoseconds belongs to the bucket of its whole microseconds (integer division).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from staticfire.checkers.model.columns import Ints

NS_PER_US = 1000
DOUBLINGS = 40  # 2**40 us are twelve days
_FINE = 16
EDGES_US: list[int] = [  # the begin of each bucket, ascending
    *range(_FINE),
    *((_FINE + step) << shift for shift in range(DOUBLINGS - 4) for step in range(_FINE)),
]
BUCKETS = len(EDGES_US)
_MANTISSA = 52 - 4  # bits of a float that are dropped
_OF_SIXTEEN = ((1023 + 4) << 4) - _FINE  # bits of 16.0, which begins the bucket of that number


def buckets_of(durations_ns: Ints) -> Ints:
    """Return the bucket of each duration, same shape; negative durations are in the first."""
    whole_us = durations_ns // NS_PER_US
    # The exponent and the first four bits of the fraction. As a float, every integer up to 2**53 is exact.
    found = (whole_us.astype(np.float64).view(np.int64) >> _MANTISSA) - _OF_SIXTEEN
    np.minimum(found, BUCKETS - 1, out=found)
    np.copyto(found, np.maximum(whole_us, 0), where=whole_us < _FINE)
    return found


def percentile_us(buckets: Sequence[int], counts: Sequence[int], hundredths: int) -> int:
    """Return the last microsecond of the bucket with the nearest-rank percentile; there must be at least one count.

    Args:
        buckets: ascending.
        counts: the number of durations in each.
        hundredths: of a percent, so that 99.9 is 9990.
    """
    rank = -(-sum(counts) * hundredths // 10_000)
    below = accumulate(counts)
    bucket = next(bucket for bucket, last in zip(buckets, below, strict=True) if last >= rank)
    return EDGES_US[min(bucket + 1, BUCKETS - 1)] - 1
