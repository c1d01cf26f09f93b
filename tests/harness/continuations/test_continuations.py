"""Continuations: forks give the same result as runs from the start, and leave the run itself unchanged."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator

import pytest

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.continuations.rewind import Outcome, Rewind, outcome_of, repeated
from staticfire.harness.continuations.tree import Continuations
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.runs.simulated_runner import run_simulated

S = 1_000_000_000
pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def campaign() -> Campaign:
    given = {
        "coordinators": 1,
        "followers": (0,),
        "time_s": 4.0,
        "acks_min": 1,
        "faults": ("kill",),
    }
    return draw_campaign(3, given)


@pytest.fixture(scope="module")
def digest(campaign: Campaign) -> str:
    return run_simulated(campaign).digest


def outcomes(
    campaign: Campaign, rewinds: list[Rewind], fork: Callable[[], int] = os.fork
) -> tuple[dict[Rewind, Outcome], int]:
    with Continuations(campaign, 2, fork=fork) as continuations:
        found = dict(continuations.outcomes(rewinds, time.monotonic() + 600))
        return found, continuations.repeated


def test_without_a_change_it_is_the_run_itself_however_often_it_was_forked(
    campaign: Campaign, digest: str
) -> None:
    rewinds = [Rewind(S, 0), Rewind(S, 1), Rewind(2 * S, 0), Rewind(S, None), Rewind(2 * S, None)]
    found, by_repetition = outcomes(campaign, rewinds)
    assert by_repetition == 0
    assert found[Rewind(S, None)].digest == found[Rewind(2 * S, None)].digest == digest
    assert len({outcome.digest for outcome in found.values()}) == 4


def test_it_is_a_function_of_campaign_time_and_number(campaign: Campaign) -> None:
    rewind = Rewind(int(1.5 * S), 7)
    found, _ = outcomes(campaign, [rewind])
    assert found[rewind] == outcome_of(repeated(campaign, rewind))


def test_without_a_number_faults_to_come_alone_may_be_left_out(
    campaign: Campaign, digest: str
) -> None:
    [planned] = campaign.plan
    behind_ns = int((planned.at_s + 2) * S)  # the load begins within the first second
    rewinds = [
        Rewind(S // 100, None, keeps_plan=False),
        Rewind(S // 50, None, keeps_plan=False),
        Rewind(behind_ns, None, keeps_plan=False),
    ]
    found, _ = outcomes(campaign, rewinds)
    early, later, behind = (found[rewind].digest for rewind in rewinds)
    assert early == later != digest
    assert behind == digest


def test_a_stop_changes_nothing(campaign: Campaign, digest: str) -> None:
    seen: list[int] = []
    result = run_simulated(
        campaign, begun=lambda live: live.at(S, lambda live: seen.append(live.world.now_ns))
    )
    assert (seen, result.digest) == ([S], digest)


def failing_forks(good: int) -> Callable[[], int]:
    """Of each process, all forks but the first `good` fail for want of memory."""
    left = [good]

    def fork() -> int:
        left[0] -= 1
        if left[0] < 0:
            raise BlockingIOError("no process left")
        return os.fork()

    return fork


def children_that_die() -> Callable[[], int]:
    generation = [0]

    def fork() -> int:
        pid = os.fork()
        if not pid:
            generation[0] += 1
            if generation[0] > 1:
                os._exit(9)
        return pid

    return fork


@pytest.mark.parametrize("fork", [failing_forks(0), failing_forks(1), children_that_die()])
def test_without_processes_it_is_slower_and_not_wrong(
    campaign: Campaign, digest: str, fork: Callable[[], int]
) -> None:
    rewinds = [Rewind(S, None), Rewind(S, 0)]
    found, by_repetition = outcomes(campaign, rewinds, fork)
    assert by_repetition == 2
    assert found[Rewind(S, None)].digest == digest
    assert found[Rewind(S, 0)] == outcome_of(repeated(campaign, Rewind(S, 0)))


def test_no_process_is_left(campaign: Campaign) -> None:
    with Continuations(campaign, 2) as continuations:
        group = continuations.group
        assert group is not None
        under_way = continuations.outcomes([Rewind(S, 0), Rewind(S, 1), Rewind(S, 2)], far_off())
        assert isinstance(under_way, Iterator)
        next(under_way)
        os.killpg(group, 0)
    with pytest.raises(ProcessLookupError):
        os.killpg(group, 0)


def test_what_has_not_ended_in_time_is_given_up(campaign: Campaign) -> None:
    with Continuations(campaign, 2) as continuations:
        assert not list(continuations.outcomes([Rewind(S, 0)], time.monotonic()))


def far_off() -> float:
    return time.monotonic() + 600
