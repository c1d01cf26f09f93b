"""Distributions over time: independent of the cut, with a bounded number of slices."""

from __future__ import annotations

from functools import reduce

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.model.time_series import SLICES_MAX, Measured

SECONDS = st.one_of(st.integers(0, 100), st.integers(0, 20 * SLICES_MAX), st.integers(0, 2**33))
ROWS = st.lists(
    st.tuples(SECONDS, st.integers(0, 600), st.integers(0, 10**12)), min_size=1, max_size=30
)


def measured(rows: list[tuple[int, int, int]]) -> Measured:
    return Measured.of(*(np.array(column, np.int64) for column in zip(*rows, strict=True)))


def cells(of: Measured) -> dict[tuple[int, int], int]:
    rows, columns = np.nonzero(of.counts)
    return {
        (row, column + of.low): int(of.counts[row, column])
        for row, column in zip(rows.tolist(), columns.tolist(), strict=True)
    }


@pytest.mark.slow
@settings(derandomize=True, deadline=None)
@given(ROWS, st.integers(1, 5))
def test_any_cut_gives_what_the_whole_gives(rows: list[tuple[int, int, int]], chunks: int) -> None:
    whole = measured(rows)
    parts = [part for chunk in range(chunks) if (part := rows[chunk::chunks])]

    merged = reduce(Measured.merge, map(measured, reversed(parts)))

    assert (merged.slice_s, cells(merged)) == (whole.slice_s, cells(whole))
    assert merged.longest.tolist() == whole.longest.tolist()


@pytest.mark.slow
@settings(derandomize=True, deadline=None)
@given(ROWS)
def test_every_row_is_counted_in_its_slice(rows: list[tuple[int, int, int]]) -> None:
    found = measured(rows)

    expected: dict[tuple[int, int], int] = {}
    longest: dict[int, int] = {}
    for second, bucket, value in rows:
        place = second // found.slice_s, bucket
        expected[place] = expected.get(place, 0) + 1
        longest[place[0]] = max(value, longest.get(place[0], 0))
    assert cells(found) == expected
    assert {at: int(found.longest[at]) for at in longest} == longest


@pytest.mark.parametrize(
    ("last_s", "slice_s"),
    [(0, 1), (SLICES_MAX - 1, 1), (SLICES_MAX, 2), (2 * SLICES_MAX, 4), (10**9, 2**19)],
)
def test_slices_are_as_short_as_their_number_allows(last_s: int, slice_s: int) -> None:
    found = measured([(last_s, 1, 1)])

    assert found.slice_s == slice_s
    assert len(found.counts) <= SLICES_MAX
