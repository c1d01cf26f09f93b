"""Simulated campaigns near the plan of a run of real machines."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.harness.shrink.near import VARIANTS, lacking, near, simulated

RUNS = Path(__file__).parents[2] / "data/apache-runs"
FAILED = RunFolder(RUNS / "failed-fsync")


@pytest.fixture(scope="module")
def recorded() -> Campaign:
    return FAILED.read_campaign()


def test_a_run_of_apache_becomes_one_of_our_own_in_faithful_mode(recorded: Campaign) -> None:
    found = simulated(recorded, FAILED.read_faults())
    assert (recorded.target, recorded.environment) == ("apache", "namespaces")
    assert (found.target, found.environment, found.mode) == ("own", "simulation", "faithful")
    assert (found.seed, found.followers, found.workload) == (
        1,
        recorded.followers,
        recorded.workload,
    )
    assert "target" in lacking(recorded)


def test_faults_come_at_the_times_at_which_they_were_fired(recorded: Campaign) -> None:
    [first, second] = recorded.plan[:2]
    start_ns = 5_000_000_000
    late = [
        FaultRecord(planned=first, fired_ns=start_ns + int(first.at_s * 1e9)),
        FaultRecord(planned=second, fired_ns=start_ns + int(second.at_s * 1e9) + 1_500_000_000),
    ]
    plan = simulated(recorded, late).plan
    assert plan[0].at_s == first.at_s
    assert plan[1].at_s == pytest.approx(second.at_s + 1.5)


def test_the_load_lasts_until_a_fault_that_fired_late_is_healed(recorded: Campaign) -> None:
    [first, second] = recorded.plan[:2]
    late_s = recorded.load_s + 2.0
    records = [
        FaultRecord(planned=first, fired_ns=int(first.at_s * 1e9)),
        FaultRecord(planned=second, fired_ns=int(late_s * 1e9)),
    ]
    found = simulated(recorded, records)
    assert found.plan[1].at_s == late_s
    assert found.load_s > found.plan[1].until_s


def test_a_fault_that_fired_before_the_begin_of_the_load_comes_with_it(recorded: Campaign) -> None:
    plan = tuple(
        replace(one, at_s=at_s) for one, at_s in zip(recorded.plan, (0.0, 0.01), strict=False)
    )
    records = [
        FaultRecord(planned=plan[0], fired_ns=2_000_000_000),
        FaultRecord(planned=plan[1], fired_ns=1_990_000_000),
    ]
    assert [one.at_s for one in simulated(replace(recorded, plan=plan), records).plan] == [0.0, 0.0]


def test_the_brokers_of_an_external_cluster_become_our_own(recorded: Campaign) -> None:
    brokers = ("broker-a:0", "broker-a:1", "other:0")
    external = replace(
        recorded, environment="address", target="address", brokers=brokers, plan=(), token="t1"
    )
    found = simulated(replace(external, replication="async"), [])
    assert (found.followers, found.brokers, found.token) == ((1, 0), (), "")


def test_variants_take_turns_and_seeds_follow(recorded: Campaign) -> None:
    base = simulated(recorded, FAILED.read_faults())
    tries = list(islice(near(base), 2 * len(VARIANTS)))
    assert [variant for variant, _ in tries] == [*VARIANTS, *VARIANTS]
    assert [one.seed for _, one in tries] == [1] * len(VARIANTS) + [2] * len(VARIANTS)
    assert tries[0][1] == base
    again = list(islice(near(base), 2 * len(VARIANTS)))
    assert again == tries
    for _, one in tries:
        assert [fault.kind for fault in one.plan] == [fault.kind for fault in base.plan]
        assert all(0 <= fault.until_s <= one.load_s for fault in one.plan)


def test_what_the_simulation_cannot_have_is_refused(recorded: Campaign) -> None:
    with pytest.raises(CampaignError, match="replication"):
        simulated(replace(recorded, replication="sideways"), [])
