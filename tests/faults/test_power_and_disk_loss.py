"""The effects of power cuts inside an operation and of lost disks on nodes, their order and their times."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from staticfire.faults.model.fault import ClusterContext, FaultParams, PlannedFault
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.campaign.campaign import topology_of
from staticfire.harness.simulation.hosts.world import World
from tests.faults.recording_controls import recording_controls

SITUATION = ClusterContext(
    topology=topology_of(1, (2, 1), 1, 1), topic="T", sync_flush=True, replication="sync"
)
Calls = list[tuple[float, str, tuple[Any, ...]]]


def strikes(kind: str) -> list[FaultParams]:
    drawn = (fault_named(kind).draw(Random(f"strike/{seed}"), SITUATION) for seed in range(100))
    return [strike for strike in drawn if strike is not None]


def carried_out(kind: str, strike: FaultParams, lacks: dict[str, str] | None = None) -> Calls:
    """The calls of fire and heal, by virtual seconds."""
    calls: Calls = []
    fault, controls = fault_named(kind), recording_controls(calls, lacks)
    planned = PlannedFault(
        fault_id=0,
        kind=kind,
        at_s=0,
        duration_s=1,
        targets=strike.targets,
        params=strike.params,
    )

    async def main() -> None:
        fired = await fault.fire(controls, planned)
        await fault.heal(controls, planned, fired)

    World(1).run(main)
    return calls


def test_a_lost_disk_often_goes_after_the_link_to_its_slaves() -> None:
    drawn = strikes("disk-lost")
    alone = [strike for strike in drawn if strike.params["alone_s"] > 0]
    assert 50 <= len(alone) < len(drawn) == 100
    for strike in drawn:
        [master] = strike.targets
        replicas = SITUATION.topology.replicas_of(SITUATION.topology.replica(master).replica_set)
        assert [master, *strike.params["slaves"]] == [replica.node for replica in replicas]


def test_the_link_is_cut_before_the_disk_is_lost_and_restored_after() -> None:
    strike = FaultParams(targets=("m",), params={"alone_s": 1.25, "slaves": ["s", "t"]})
    assert carried_out("disk-lost", strike) == [
        (0.0, "drop", ("m", "s")),
        (0.0, "drop", ("m", "t")),
        (1.25, "destroy", ("m",)),
        (1.25, "restore", ("m", "s")),
        (1.25, "restore", ("m", "t")),
    ]


def test_a_disk_may_be_lost_out_of_the_blue() -> None:
    strike = FaultParams(targets=("m",), params={"alone_s": 0.0, "slaves": ["s"]})
    assert carried_out("disk-lost", strike) == [(0.0, "destroy", ("m",))]


def test_a_cut_strikes_any_operation_or_an_fsync() -> None:
    places = [tuple(strike.params) for strike in strikes("power-cut-in-operation")]
    assert set(places) == {("operation",), ("sync",)}


@pytest.mark.parametrize(
    ("params", "asked"), [({"operation": 7}, "power_cut_at"), ({"sync": 7}, "power_cut_at_sync")]
)
def test_a_cut_that_did_not_strike_is_cancelled(params: dict[str, int], asked: str) -> None:
    calls = carried_out("power-cut-in-operation", FaultParams(targets=("b",), params=params))
    assert calls == [
        (0.0, asked, ("b", 7)),
        (0.0, "cancel_power_cut", ("b",)),
        (0.0, "power_on", ("b",)),
    ]


@pytest.mark.parametrize("kind", ["power-cut", "cluster-power-cut"])
def test_a_disk_often_stalls_before_the_power_goes(kind: str) -> None:
    drawn = strikes(kind)
    stalling = [strike for strike in drawn if strike.params]
    assert 30 < len(stalling) < 70
    for strike in stalling:
        assert 50 <= strike.params["slow_factor"] <= 400
        assert 0.1 <= strike.params["slow_s"] <= 0.5


def test_the_power_goes_while_the_disk_stalls_and_the_disk_is_mended_before_it_returns() -> None:
    strike = FaultParams(targets=("b",), params={"slow_factor": 50.0, "slow_s": 0.25})
    assert carried_out("power-cut", strike) == [
        (0.0, "slow", ("b", 50.0)),
        (0.25, "power_cut", (("b",),)),
        (0.25, "heal", ("b",)),
        (0.25, "power_on", ("b",)),
    ]


def test_where_disks_cannot_be_slow_only_the_power_goes() -> None:
    strike = FaultParams(targets=("b",), params={"slow_factor": 50.0, "slow_s": 0.25})
    calls = carried_out("power-cut", strike, lacks={"disk.slow": "no cgroup"})
    assert [name for _, name, _ in calls] == ["power_cut", "power_on"]
