"""What the crash test of the store takes for a right answer."""

from __future__ import annotations

import pytest

from staticfire.harness.store_crash.answers import nearest


@pytest.mark.parametrize(
    ("time_ms", "places"),
    [
        (5, {0}),  # before all
        (10, {0}),
        (14, {0}),
        (15, {0}),  # as near to both
        (16, {1}),
        (20, {1}),  # the first of two
        (99, {3}),  # after all
    ],
)
def test_times_in_order_have_one_nearest_place(time_ms: int, places: set[int]) -> None:
    assert nearest([10, 20, 20, 40], time_ms) == places


def test_after_the_clock_was_set_back_each_way_across_the_time_counts() -> None:
    assert nearest([10, 40, 20, 20], 30) == {1, 3}
    assert nearest([10, 40, 20, 50], 40) == {1, 3}
