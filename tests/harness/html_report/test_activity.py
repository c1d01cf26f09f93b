"""Activity in each slice of a run, counted from a history with known results."""

from __future__ import annotations

import numpy as np
import pytest

from staticfire.harness.html_report.activity import (
    NEVER_NS,
    SLICES_MAX,
    Activity,
    first_given_ns,
    measured_series,
    slices_until,
)
from staticfire.harness.html_report.history_rows import MemoryRows
from tests.support.history_language import facts, history


def activity_of(*lines: str, end_s: float = 5.0) -> Activity:
    rows = MemoryRows(history(*lines), is_torn=False)
    activity = Activity(rows.names, facts(), slices_until(end_s))
    for events in rows.queues():
        activity.add(events)
    return activity


def test_sends_are_counted_by_slice_and_by_how_they_ended() -> None:
    activity = activity_of("0 ok send a t=0.5", "0 ok send b t=2.5", "0 fail send c t=2.6")
    assert activity.sends["acknowledged"].tolist() == [1, 0, 1, 0, 0, 0]
    assert activity.sends["refused"].tolist() == [0, 0, 1, 0, 0, 0]


def test_unseen_messages_rise_with_acknowledgements_and_fall_with_deliveries() -> None:
    activity = activity_of(
        "0 ok send a t=0.5", "0 ok send b t=0.6", "1 ok consume a t=2.5", "0 ok send c t=3.5"
    )
    [unseen] = activity.unseen.values()
    assert unseen.over_time() == [2, 2, 1, 2, 2, 2]
    assert list(unseen.left.values()) == [2]


def test_a_second_delivery_changes_nothing() -> None:
    activity = activity_of("0 ok send a t=0.5", "1 ok consume a t=1.5", "1 ok consume a~1 t=3.5")
    [unseen] = activity.unseen.values()
    assert unseen.over_time() == [1, 0, 0, 0, 0, 0]


def test_a_group_that_was_given_nothing_has_all_messages_unseen() -> None:
    activity = activity_of("0 ok send a t=0.5")
    assert activity.unseen["g"].over_time() == [1, 1, 1, 1, 1, 1]
    assert activity.main_groups() == ["g"]


def test_the_first_delivery_counts() -> None:
    rows = MemoryRows(
        history("0 ok send a", "0 ok send b", "1 ok consume a t=3", "1 ok consume a~1 t=4"),
        is_torn=False,
    )
    [events] = rows.queues()
    first = first_given_ns(events.sends, events.deliveries)
    given = np.sort(events.deliveries["invoke_ns"])
    assert first.tolist() == [given[0], NEVER_NS]


@pytest.mark.parametrize("end_s", [0.0, 1.0, 599.5, 600.0, 86_400.0, 9e8])
def test_slices_are_bounded_and_reach_the_end(end_s: float) -> None:
    slices = slices_until(end_s)
    assert 1 <= slices.count <= SLICES_MAX
    assert slices.count * slices.length_s > end_s
    assert slices.of(np.array([0, int(end_s * 1e9)])).max() < slices.count


def test_a_series_has_no_data_where_nothing_was_measured() -> None:
    rows = [
        {"what": "send", "second": second, "count": 1, "p50": 5, "p99": 9, "max": 9}
        for second in (0, 3)
    ]
    [series] = measured_series(rows, slices_until(4.0))
    assert list(series.p50) == [5, -1, -1, 5, -1]


def test_a_longer_slice_has_the_worst_of_its_seconds() -> None:
    rows = [
        {"what": "send", "second": 0, "count": 9, "p50": 5, "p99": 9, "max": 10},
        {"what": "send", "second": 1, "count": 1, "p50": 7, "p99": 70, "max": 71},
    ]
    [series] = measured_series(rows, slices_until(1000.0))
    assert (series.p50[0], series.p99[0], series.longest[0]) == (5, 70, 71)


def test_a_row_that_is_none_is_refused() -> None:
    with pytest.raises((KeyError, TypeError, ValueError)):
        measured_series([{"what": "send"}], slices_until(1.0))
