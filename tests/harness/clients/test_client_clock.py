"""Client stamps as times of the run: the uncertainty of the client's clock is their width."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.model.history import Stamp
from staticfire.harness.clients.client_clock import DRIFT_PPM, ClientClock

MS = 1_000_000


def clock(late_ns: int = 0) -> ClientClock:
    return ClientClock(lambda: 0, lambda: late_ns)


def test_the_best_exchange_counts() -> None:
    measured = clock()
    measured.exchanged(0, 500, 40)
    measured.exchanged(100, 600, 104)  # the offset is -498 +- 2
    measured.exchanged(200, 740, 280)

    assert measured.stamp(610, read_ns=400) == Stamp(112, 2)


def test_clocks_drift() -> None:
    measured = clock()
    measured.exchanged(0, 0, 0)
    later = 10_000 * MS

    assert measured.stamp(later, read_ns=2 * later) == Stamp(later, later * DRIFT_PPM // 1_000_000)


def test_nothing_happens_after_it_was_read() -> None:
    measured = clock()
    measured.exchanged(0, 100, 100)

    assert measured.stamp(190, read_ns=150) == Stamp(120, 30)  # 90 to 150, not to 190


def test_a_stamp_of_the_future_is_another_clock() -> None:
    """A client that was started anew, or lies."""
    measured = clock(late_ns=31 * MS)
    measured.exchanged(0, 0, 0)

    assert measured.stamp(900 * MS, read_ns=100 * MS) == Stamp(84_500_000, 15_500_000)
    assert measured.stamp(100 * MS, read_ns=100 * MS) == Stamp(84_500_000, 15_500_000)


@pytest.mark.parametrize(
    ("stamps_ms", "reported_ms"),
    [
        ([100], []),
        ([1_000], []),  # within a second: a clock that was slewed, or a machine that stood still
        ([5_000], [4_897]),
        ([3_600_000, 3_600_000], [3_598_100]),  # once is enough
    ],
)
def test_a_stamp_of_the_far_future_is_reported(
    stamps_ms: list[int], reported_ms: list[int]
) -> None:
    found: list[int] = []
    measured = ClientClock(lambda: 0, lambda: 0, found.append)
    for at_ms in stamps_ms:
        measured.exchanged(0, 0, 0)
        measured.stamp(at_ms * MS, read_ns=100 * MS)

    assert [ahead_ns // MS for ahead_ns in found] == reported_ms


def test_without_a_stamp_it_happened_while_the_harness_was_late() -> None:
    assert clock(late_ns=0).stamp(None, read_ns=100) is None
    assert clock(late_ns=30).stamp(None, read_ns=100) == Stamp(85, 15)
    assert clock(late_ns=30).stamp(700, read_ns=100) == Stamp(85, 15)  # before any exchange
    assert clock(late_ns=300).stamp(None, read_ns=100) == Stamp(50, 50)  # runs begin at 0


@pytest.mark.slow
@given(
    offset=st.integers(-(10**12), 10**12).map(lambda of: of + 10**12),
    trips=st.lists(st.tuples(st.integers(0, 10**6), st.integers(0, 10**6)), min_size=1, max_size=9),
    happened=st.integers(0, 10**10),
    waited=st.integers(0, 10**9),
)
def test_the_true_time_is_always_within(
    offset: int, trips: list[tuple[int, int]], happened: int, waited: int
) -> None:
    """Whatever way of a round trip took how long, for clocks that do not drift."""
    measured = clock()
    now = 0
    for there, back in trips:
        measured.exchanged(now, now + there + offset, now + there + back)
        now += there + back + 10**6
    stamp = measured.stamp(happened + offset, read_ns=happened + waited)

    assert stamp is not None
    assert stamp.at_ns - stamp.within_ns <= happened <= stamp.at_ns + stamp.within_ns
    assert stamp.at_ns + stamp.within_ns <= happened + waited
