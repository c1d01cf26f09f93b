"""The bisection for the point of no return, with known shares."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

import pytest

from staticfire.harness.continuations.rewind import Outcome, Rewind
from staticfire.harness.explain.no_return import (
    AT_SIDES,
    BEFORE_MIN,
    HALFWAY,
    ODDS,
    TRIALS_MAX,
    Curve,
    Point,
    SequentialTest,
    find_no_return,
    wilson,
)

S = 1_000_000_000
END = 40 * S
FAILS, PASSES = Outcome(valid=False, violations={"lost": 1}), Outcome(valid=True)


def curve(
    steps: Sequence[tuple[int, float]], *, most: int = 10_000, jobs: int = 2
) -> tuple[Curve, list[Rewind]]:
    """A curve whose share is that of the last step before the rewind; after `most` continuations the time is over.

    Of ten continuations from one time exactly share * 10 fail, spread over their numbers.
    """
    asked: list[Rewind] = []

    def sample(rewinds: Sequence[Rewind]) -> Iterator[tuple[Rewind, Outcome]]:
        for rewind in rewinds:
            if len(asked) == most:
                return
            asked.append(rewind)
            share = [share for at_ns, share in steps if at_ns <= rewind.at_ns][-1]
            assert rewind.number is not None
            yield rewind, FAILS if (rewind.number * 7 % 10) < share * 10 else PASSES

    return Curve(sample, lambda outcome: outcome.valid is False, jobs), asked


@pytest.mark.parametrize("jump_ns", [S // 10, 5 * S, 17 * S + 123_456, 39 * S])
@pytest.mark.parametrize("moments", [[], [5 * S, 30 * S]])
def test_a_jump_is_found_to_a_thousandth_of_the_run(jump_ns: int, moments: list[int]) -> None:
    found = find_no_return(curve([(0, 0.0), (jump_ns, 1.0)])[0], END, moments)
    assert found.is_complete
    assert found.before_ns is not None
    assert found.before_ns < jump_ns <= found.after_ns
    assert found.after_ns - found.before_ns <= END // 1000
    trials = {point.at_ns: point.trials for point in found.points}
    assert trials[found.before_ns] == trials[found.after_ns] == AT_SIDES


def test_moments_that_stand_out_save_continuations() -> None:
    plain, asked_plain = curve([(0, 0.0), (5 * S, 1.0)])
    aimed, asked_aimed = curve([(0, 0.0), (5 * S, 1.0)])
    find_no_return(plain, END, [])
    find_no_return(aimed, END, [5 * S])
    assert len(asked_aimed) < len(asked_plain)


def test_two_that_agree_by_chance_are_found_out_at_the_sides() -> None:
    """Between 10 s and 20 s half of the continuations fail, the first two of them among these."""
    asked: list[Rewind] = []

    def sample(rewinds: Sequence[Rewind]) -> Iterator[tuple[Rewind, Outcome]]:
        for rewind in rewinds:
            asked.append(rewind)
            number = rewind.number or 0
            fails = rewind.at_ns >= 20 * S or (rewind.at_ns >= 10 * S and number < 4)
            yield rewind, FAILS if fails else PASSES

    found = find_no_return(Curve(sample, lambda outcome: outcome.valid is False, 2), END, [])
    assert found.before_ns is not None
    assert found.before_ns < 20 * S <= found.after_ns


def test_a_likely_time_is_tried_first_and_may_be_wrong() -> None:
    for likely_ns in (6 * S, 4 * S):
        found, asked = curve([(0, 0.0), (5 * S, 1.0)])
        jump = find_no_return(found, END, [5 * S, 30 * S], [likely_ns])
        assert asked[1].at_ns == likely_ns
        assert jump.before_ns is not None
        assert jump.before_ns < 5 * S <= jump.after_ns


def test_a_run_that_fails_anyhow_was_lost_from_the_start() -> None:
    found = find_no_return(curve([(0, 1.0)])[0], END, [5 * S])
    assert (found.before_ns, found.after_ns, found.is_complete) == (None, 0, True)
    assert {point.share for point in found.points} == {1.0}


def test_of_two_steps_the_one_counts_that_leads_past_the_middle() -> None:
    found = find_no_return(curve([(0, 0.0), (10 * S, 0.3), (20 * S, 1.0)])[0], END, [])
    assert found.before_ns is not None
    assert found.before_ns < 20 * S <= found.after_ns


def test_without_time_the_answer_is_as_near_as_it_came() -> None:
    found = find_no_return(curve([(0, 0.0), (S // 2, 1.0)], most=8)[0], END, [])
    assert not found.is_complete
    assert found.before_ns == 0
    assert S // 2 <= found.after_ns < END
    assert sum(point.trials for point in found.points) == 8


def test_a_continuation_that_could_not_be_run_is_no_trial() -> None:
    def sample(rewinds: Sequence[Rewind]) -> Iterator[tuple[Rewind, Outcome]]:
        for rewind in rewinds:
            yield rewind, Outcome(failed="RunError: no cluster") if rewind.number == 0 else PASSES

    found = find_no_return(Curve(sample, lambda outcome: outcome.valid is False, 2), END, [])
    assert found.failed > 0
    assert found.points[0].trials == AT_SIDES - 1


def test_where_the_start_never_fails_one_continuation_is_enough_for_a_step() -> None:
    found, asked = curve([(0, 0.0), (5 * S, 1.0)], jobs=1)
    jump = find_no_return(found, END, [5 * S], fills=False)
    assert (jump.before_ns, jump.after_ns) == (5 * S - 1_000_000, 5 * S + 1_000_000)
    assert len(asked) == 1 + 2 + 5  # from the start, before the jump and behind it


def test_the_curve_is_left_out_on_request() -> None:
    whole, asked_for_all = curve([(0, 0.0), (5 * S, 1.0)])
    alone, asked = curve([(0, 0.0), (5 * S, 1.0)])
    jump = find_no_return(alone, END, [], fills=False)
    assert jump.is_complete
    assert find_no_return(whole, END, []).after_ns == jump.after_ns
    assert asked == asked_for_all[: len(asked)]
    assert len(asked) < len(asked_for_all)


def test_more_processes_take_fewer_rounds() -> None:
    assert rounds_of(jobs=4) < 0.7 * rounds_of(jobs=1)


def rounds_of(jobs: int) -> int:
    """How often continuations are asked for until the jump at 17 s is found."""
    found, _ = curve([(0, 0.0), (17 * S, 1.0)], jobs=jobs)
    sample, rounds = found.sample, []

    def counted(rewinds: Sequence[Rewind]) -> Iterable[tuple[Rewind, Outcome]]:
        rounds.append(len(rewinds))
        return sample(rewinds)

    found.sample = counted
    assert find_no_return(found, END, [], fills=False).is_complete
    return len(rounds)


@pytest.mark.parametrize(
    ("before", "same", "trials", "more", "is_behind"),
    [
        (BEFORE_MIN, 0, 0, 1, False),
        (BEFORE_MIN, 1, 1, 0, True),
        (BEFORE_MIN, 0, 1, 0, False),
        (BEFORE_MIN, 4, TRIALS_MAX, 0, False),
        (HALFWAY, 1, 1, 2, True),  # two that pass: (0.05 / 0.5) ** 2 is less than 1 in 18
        (HALFWAY, 4, 4, 1, True),  # five that fail: (0.95 / 0.5) ** 5 is more than 18
        (HALFWAY, 0, 1, 1, False),
        (HALFWAY, 7, TRIALS_MAX, 0, True),
        (HALFWAY, 6, TRIALS_MAX, 0, False),
    ],
)
def test_the_sequential_test(
    before: float, same: int, trials: int, more: int, is_behind: bool
) -> None:
    test, point = SequentialTest(before, ODDS), Point(S, trials, same)
    assert test.needed(point) == more
    assert test.leans_behind(point) is is_behind


def test_the_band_is_that_of_wilson() -> None:
    # Newcombe (1998), table I: 81 of 263, and 0 of 20.
    assert wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=1e-4)
    assert wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=1e-4)
    assert wilson(0, 0) == (0.0, 1.0)
