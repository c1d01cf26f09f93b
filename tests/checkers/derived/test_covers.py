"""Unions of spans, and small subsets of spans with the same union."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.derived.covers import covering, merged_spans

SPANS = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 9)))


@given(spans=SPANS, apart=st.integers(1, 5))
def test_few_make_up_the_same_stretches(spans: list[tuple[int, int]], apart: int) -> None:
    starts = np.array([start for start, _ in spans], np.int64)
    ends = np.array([start + length for start, length in spans], np.int64)
    reached: list[list[int]] = []
    for start, end in sorted(zip(starts.tolist(), ends.tolist(), strict=True)):
        if reached and start < reached[-1][1] + apart:
            reached[-1][1] = max(reached[-1][1], end)
        else:
            reached.append([start, end])

    assert [list(span) for span in merged_spans(starts, ends, apart)] == reached
    chosen = np.concatenate([np.zeros(0, np.int64), *covering(starts, ends, apart)])
    assert merged_spans(starts[chosen], ends[chosen], apart) == merged_spans(starts, ends, apart)


def test_what_lies_within_others_is_left_out() -> None:
    starts, ends = np.arange(0, 100), np.arange(0, 100) + 10
    [chosen] = covering(starts, ends, 1)
    assert chosen.tolist() == [0, 10, 20, 30, 40, 50, 60, 70, 80, 90, 99]
