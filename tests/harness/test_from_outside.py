"""Extensions from outside: a fault, a checker and a workload of known ops, in one file and one line each."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from staticfire.checkers.verdicts.compose import ALL_CHECKERS, RunVerdict, check_run
from staticfire.faults.plans.catalogue import FAULTS, register
from staticfire.harness.campaign.campaign import CampaignError
from staticfire.harness.campaign.file import typed_options
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.pages.faults import plans_table
from staticfire.harness.runs.simulated_runner import run_simulated
from staticfire.harness.workloads.catalogue import WORKLOADS
from tests.support.outside_checker import SLOW_ACKS
from tests.support.outside_fault import Stutter
from tests.support.outside_workload import EQUAL

STUTTER = {
    "kind": "stutter",
    "at_s": 2.0,
    "duration_s": 5.0,
    "targets": ["broker-a-0"],
    "params": {"times": 3, "pause_s": 1.0},
}
GIVEN = {
    "workload": "equal",
    "time_s": 10.0,
    "followers": (1,),
    "replication": "sync",
    "flush": "sync",
    "coordinators": 2,
    "producers": 3,
    "consumers": 1,
    "think_ms": 60.0,
    "acks_min": 50,
    "broker_properties": (),
}


@pytest.fixture(autouse=True)
def _registered() -> Iterator[None]:
    register(Stutter())
    WORKLOADS[EQUAL.name] = EQUAL
    yield
    del FAULTS[Stutter.name], WORKLOADS[EQUAL.name]


@cache
def verdict_of(*, stutters: bool) -> RunVerdict:
    rows = [STUTTER] if stutters else []
    campaign = draw_campaign(7, {**GIVEN, **typed_options({"plan": rows}, "the test")})
    result = run_simulated(campaign)
    assert [record.bitten for record in result.faults] == [True] * len(rows)
    assert {op.value["size"] for op in result.ops if op.f == "send" and op.type == "invoke"} == {64}
    assert result.verdict.valid is True, result.verdict
    checkers = (*ALL_CHECKERS, SLOW_ACKS.as_checker())
    return check_run(result.ops, result.observations, result.facts, checkers)


@pytest.mark.slow
def test_the_checker_finds_what_the_fault_did_to_the_workload() -> None:
    verdict = verdict_of(stutters=True)
    assert verdict.violations().keys() == {"slow_ack"}
    assert all("took" in finding.detail for finding in verdict.findings())


@pytest.mark.slow
def test_without_the_fault_it_finds_nothing() -> None:
    assert verdict_of(stutters=False).valid is True


def test_a_plan_is_checked_against_what_the_fault_declares() -> None:
    wrong = {**STUTTER, "params": {"times": 11, "pause_s": 1.0}}
    with pytest.raises(CampaignError, match=r"times of fault 0 .* a whole number from 1 to 10"):
        draw_campaign(7, {**GIVEN, **typed_options({"plan": [wrong]}, "the test")})


def test_the_page_of_faults_would_have_a_row_for_it() -> None:
    assert "| `stutter` | a replica | `times`: how often" in plans_table(FAULTS.values())
