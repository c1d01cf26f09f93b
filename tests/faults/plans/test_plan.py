"""Fault plans: seeded, within what the cluster promises to survive, and plain data."""

from __future__ import annotations

from random import Random

import pytest

from staticfire.faults.errors import FaultError
from staticfire.faults.model.fault import ClusterContext, PlannedFault
from staticfire.faults.plans.catalogue import FAULTS, fault_named
from staticfire.faults.plans.plan import RESYNC_S, draw_plan, from_data, to_data, touched
from staticfire.harness.campaign.campaign import topology_of

TOPOLOGY = topology_of(2, (1, 1), 3, 2)
SITUATION = ClusterContext(topology=TOPOLOGY, topic="T", sync_flush=True, replication="sync")
ALL = tuple(FAULTS)


def plan_of(seed: int) -> tuple[PlannedFault, ...]:
    return draw_plan(Random(f"plan/{seed}"), ALL, 30, 60.0, SITUATION)


def test_a_seed_gives_one_plan() -> None:
    assert plan_of(1) == plan_of(1)
    assert plan_of(1) != plan_of(2)


@pytest.mark.parametrize("seed", range(30))
def test_no_two_faults_meet_on_a_node(seed: int) -> None:
    plan = plan_of(seed)
    for a in plan:
        for b in plan:
            if a is not b and touched(a) & touched(b):
                assert a.until_s <= b.at_s or b.until_s <= a.at_s


@pytest.mark.parametrize("seed", range(30))
def test_every_fault_ends_before_the_load_does(seed: int) -> None:
    assert all(planned.at_s >= 0 and planned.until_s <= 60.0 for planned in plan_of(seed))


def test_a_lost_disk_leaves_replicas_that_nothing_else_breaks() -> None:
    lost_plans = [
        (plan, lost)
        for plan in map(plan_of, range(60))
        for lost in plan
        if lost.kind == "disk-lost"
    ]
    assert lost_plans, "no plan of 60 had a lost disk: nothing was tested"
    for plan, lost in lost_plans:
        name = TOPOLOGY.replica(lost.targets[0]).replica_set
        replicas = {replica.node for replica in TOPOLOGY.replicas_of(name)}
        for other in plan:
            if other is not lost and fault_named(other.kind).destructive:
                whole_again = other.until_s + RESYNC_S <= lost.at_s
                assert whole_again or not replicas & touched(other)


def test_an_emptied_slave_catches_up_before_its_peers_lose_anything() -> None:
    pairs = [
        (emptied, other)
        for plan in map(plan_of, range(60))
        for emptied in plan
        if emptied.kind == "wiped-slave"
        for other in plan
        if other is not emptied and fault_named(other.kind).destructive
    ]
    assert pairs, "no plan of 60 had a wiped slave and another destructive fault"
    for emptied, other in pairs:
        name = TOPOLOGY.replica(emptied.targets[0]).replica_set
        if {replica.node for replica in TOPOLOGY.replicas_of(name)} & touched(other):
            assert (
                emptied.until_s + RESYNC_S <= other.at_s or other.until_s + RESYNC_S <= emptied.at_s
            )


def test_what_strikes_every_broker_is_placed_before_the_rest_of_the_plan() -> None:
    plans = [plan_of(seed) for seed in range(30)]
    with_both = [plan for plan in plans if {"rolling-restart", "cluster-power-cut"} <= kinds(plan)]
    assert len(with_both) > 10


def kinds(plan: tuple[PlannedFault, ...]) -> set[str]:
    return {planned.kind for planned in plan}


def test_disk_lost_needs_synchronous_replication() -> None:
    alone = ClusterContext(
        topology=topology_of(1, (0,), 1, 1), topic="T", sync_flush=True, replication="none"
    )
    assert draw_plan(Random("x"), ["disk-lost"], 5, 60.0, alone) == ()


def test_a_plan_survives_being_written_down() -> None:
    plan = plan_of(3)
    assert from_data(to_data(plan)) == plan


@pytest.mark.parametrize(
    "row",
    [
        {},
        {"kind": "kill"},
        {"kind": "no-such", "at_s": 1, "duration_s": 1, "targets": []},
        {"kind": "kill", "at_s": "soon", "duration_s": 1, "targets": []},
        {"kind": "kill", "at_s": 1, "duration_s": 1, "targets": 7},
    ],
)
def test_what_is_no_planned_fault_is_refused(row: dict[str, object]) -> None:
    with pytest.raises(FaultError):
        from_data([row])


def test_every_fault_says_what_it_is() -> None:
    for fault in FAULTS.values():
        assert fault.summary
        capabilities = {need.partition(".")[0] for need in fault.needs}
        assert capabilities <= {"process", "network", "disk", "clock", "client", "cluster"}
