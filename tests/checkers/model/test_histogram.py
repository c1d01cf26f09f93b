"""Histogram buckets: each duration has one, and percentiles are at most a sixteenth too high."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.model.histogram import BUCKETS, EDGES_US, buckets_of, percentile_us

DURATIONS = st.lists(st.integers(0, 10**15), min_size=1, max_size=30)


def test_buckets_begin_where_the_last_one_ends() -> None:
    edges_us = np.array(EDGES_US)
    assert (np.diff(edges_us) > 0).all()
    assert buckets_of(edges_us * 1000).tolist() == list(range(BUCKETS))
    assert buckets_of(edges_us[1:] * 1000 - 1).tolist() == list(range(BUCKETS - 1))
    assert buckets_of(np.array([-5])).tolist() == [0]


@given(DURATIONS, st.sampled_from([0, 1, 5000, 9900, 10_000]))
def test_a_percentile_is_hardly_above_the_nearest_rank(durations: list[int], share: int) -> None:
    buckets, counts = np.unique(buckets_of(np.array(durations)), return_counts=True)

    found = percentile_us(buckets.tolist(), counts.tolist(), share)

    rank = max(-(-len(durations) * share // 10_000), 1)
    true_us = sorted(durations)[rank - 1] // 1000
    assert true_us <= found <= true_us + true_us // 16
