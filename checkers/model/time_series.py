"""Counts by time slice and bucket, in bounded memory. They merge to the same result in any order.

A slice is a second. In a history of more than SLICES_MAX seconds it is a power of two of seconds: slices are merged in
pairs until they fit. The length of a slice depends only on the latest second, not on how the history was partitioned.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from staticfire.checkers.model.columns import Ints

SLICES_MAX = 2048


@dataclass(frozen=True, slots=True, kw_only=True)
class Measured:
    """Counts of shape (slices, buckets from `low` on), and the longest value of each slice, shape (slices,), or 0."""

    shift: int  # a slice is 1 << shift seconds
    low: int
    counts: Ints
    longest: Ints

    @classmethod
    def of(cls, second: Ints, bucket: Ints, value: Ints | None = None) -> Measured:
        """Count rows. There must be at least one. All columns have shape (rows,).

        Args:
            second: of each row.
            bucket: of each row.
            value: `longest` is the maximum of these in each slice; without them it is 0.
        """
        shift = (int(second.max()) // SLICES_MAX).bit_length()
        at = np.maximum(second >> shift, 0)
        slices, low = int(at.max()) + 1, int(bucket.min())
        width = int(bucket.max()) + 1 - low
        counts = np.bincount(at * width + (bucket - low), minlength=slices * width)
        longest = np.zeros(slices, np.int64)
        if value is not None:
            np.maximum.at(longest, at, value)
        return cls(shift=shift, low=low, counts=counts.reshape(slices, width), longest=longest)

    def merge(self, other: Measured) -> Measured:
        """Add the counts of both. Associative and commutative."""
        shift = max(self.shift, other.shift)
        parts = [of if of.shift == shift else of._coarse(shift) for of in (self, other)]
        low = min(part.low for part in parts)
        slices = max(len(part.counts) for part in parts)
        width = max(part.low - low + part.counts.shape[1] for part in parts)
        counts, longest = np.zeros((slices, width), np.int64), np.zeros(slices, np.int64)
        for part in parts:
            rows, columns = part.counts.shape
            counts[:rows, part.low - low : part.low - low + columns] += part.counts
            np.maximum(longest[:rows], part.longest, out=longest[:rows])
        return Measured(shift=shift, low=low, counts=counts, longest=longest)

    def _coarse(self, shift: int) -> Measured:
        """Return the same counts in slices of 1 << `shift` seconds, which must not be shorter."""
        starts = np.arange(0, len(self.counts), min(1 << (shift - self.shift), len(self.counts)))
        return Measured(
            shift=shift,
            low=self.low,
            counts=np.add.reduceat(self.counts, starts, axis=0),
            longest=np.maximum.reduceat(self.longest, starts),
        )

    @property
    def slice_s(self) -> int:
        return 1 << self.shift
