"""Durations in integer buckets, so that every engine that counts them agrees to the bit.

Sixteen buckets for each doubling, from a microsecond to days: a percentile read from them is at most a sixteenth above
the true one. A duration in nanoseconds belongs to the bucket of its whole microseconds (integer division).
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from staticfire.checkers.model.columns import Ints

NS_PER_US = 1000
DOUBLINGS = 40  # 2**40 us are twelve days
_FINE = 16
EDGES_US: list[int] = [  # where each bucket begins, ascending
    *range(_FINE),
    *((_FINE + step) << shift for shift in range(DOUBLINGS - 4) for step in range(_FINE)),
]
BUCKETS = len(EDGES_US)
_MANTISSA = 52 - 4  # bits of a float that are left behind
_OF_SIXTEEN = ((1023 + 4) << 4) - _FINE  # bits of 16.0, which begins the bucket of that number


def buckets_of(durations_ns: Ints) -> Ints:
    """The bucket of each duration, same shape; negative ones are in the first."""
    whole_us = durations_ns // NS_PER_US
    # The exponent and the first four bits behind the point: as a float, every integer up to 2**53 is exact.
    found = (whole_us.astype(np.float64).view(np.int64) >> _MANTISSA) - _OF_SIXTEEN
    np.minimum(found, BUCKETS - 1, out=found)
    np.copyto(found, np.maximum(whole_us, 0), where=whole_us < _FINE)
    return found


def percentile_us(buckets: Sequence[int], counts: Sequence[int], hundredths: int) -> int:
    """The last microsecond of the bucket that holds the nearest-rank percentile; at least one count is needed.

    Args:
        buckets: ascending.
        counts: how many durations each of them holds.
        hundredths: of a percent, so that 99.9 is 9990.
    """
    rank = -(-sum(counts) * hundredths // 10_000)
    below = accumulate(counts)
    bucket = next(bucket for bucket, last in zip(buckets, below, strict=True) if last >= rank)
    return EDGES_US[min(bucket + 1, BUCKETS - 1)] - 1
