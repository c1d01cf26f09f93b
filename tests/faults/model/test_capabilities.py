"""The capabilities that faults declare are those they use, and a missing one has a reason."""

from __future__ import annotations

from collections import defaultdict
from random import Random
from typing import Any

import pytest

from staticfire.faults.errors import CapabilityMissing
from staticfire.faults.model.capabilities import (
    OWN_NEED,
    SERVERS_NEED,
    Controls,
    QueueCountAnswers,
)
from staticfire.faults.model.fault import ClusterContext, Fault, PlannedFault
from staticfire.faults.plans.catalogue import FAULTS, fault_named
from staticfire.harness.campaign.campaign import topology_of
from staticfire.harness.recording.nemesis import Nemesis
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.simulation.hosts.world import World

CAPABILITIES = ("process", "network", "disk", "clock", "client", "cluster")
SITUATION = ClusterContext(
    topology=topology_of(2, (1, 1), 2, 2),
    topic="T",
    sync_flush=True,
    replication="sync",
    acl=True,
)
NEEDS_OF_NODES = {"process.server", "process.client", "network.between_servers"}
SYNCHRONOUS = ("is_alive",)


class Obliging:
    """Stands for any capability: does nothing, counts nothing, and notes its name and what it was asked."""

    def __init__(self, name: str, asked: set[str]) -> None:
        self._name = name
        self._asked = asked

    def __getattr__(self, method: str) -> Any:
        self._asked.update((self._name, f"{self._name}.{method}"))
        nothing: Any = defaultdict(int) if method.endswith("counters") else 0
        if method == "withdraw_right":
            nothing = ([], 0)
        if method == "set_queue_count":
            nothing = QueueCountAnswers(confirmed=(), unheard=())

        async def later(*_: Any, **__: Any) -> Any:
            return nothing

        return (lambda *_, **__: nothing) if method in SYNCHRONOUS else later


def asked_by(fault: Fault, seed: int) -> set[str]:
    """The capabilities that one use of the fault touches."""
    strike = fault.draw(Random(f"capabilities/{seed}"), SITUATION)
    assert strike is not None
    planned = PlannedFault(
        fault_id=1,
        kind=fault.name,
        at_s=0.0,
        duration_s=0.0,
        targets=strike.targets,
        params=strike.params,
    )
    asked: set[str] = set()
    given: dict[str, Any] = {name: Obliging(name, asked) for name in CAPABILITIES}
    controls = Controls(**given)

    async def main() -> None:
        await fault.heal(controls, planned, await fault.fire(controls, planned))

    World(1).run(main)
    return asked


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_asks_for_what_it_declares(name: str) -> None:
    fault = fault_named(name)
    asked = set().union(*(asked_by(fault, seed) for seed in range(8)))
    assert {need.partition(".")[0] for need in asked} == {
        need.partition(".")[0] for need in fault.needs
    }
    assert {need for need in fault.needs if "." in need} - {
        *NEEDS_OF_NODES,
        OWN_NEED,
        SERVERS_NEED,
    } <= asked


def test_a_plan_is_refused_before_the_run_where_a_capability_is_missing() -> None:
    clock_skew = PlannedFault(
        fault_id=1, kind="clock-skew", at_s=1.0, duration_s=1.0, targets=("ns-1",)
    )
    process: Any = object()
    with pytest.raises(CapabilityMissing, match="no clock control"):
        Nemesis([clock_skew], Controls(process=process), Recorder(lambda: 0), lambda: 0)


def test_what_an_environment_lacks_is_reported_with_its_reason() -> None:
    disk: Any = object()
    lacks = {
        "disk.power_cut_at": "only the simulation can cut inside an operation",
        "network": "no root",
    }
    controls = Controls(disk=disk, lacks=lacks)
    controls.require(["disk", "disk.power_cut"])
    with pytest.raises(CapabilityMissing, match="only the simulation"):
        controls.require(["disk.power_cut_at"])
    with pytest.raises(CapabilityMissing, match="no root"):
        controls.require(["network.drop"])
