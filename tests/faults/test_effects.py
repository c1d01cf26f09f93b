"""Effects and damage of faults are in the words of the checkers; links are those between which packets vanish."""

from __future__ import annotations

from random import Random
from typing import get_args

from staticfire.checkers.guarantees.fault_effects import (
    ALL_EFFECTS,
    default_effects,
)
from staticfire.checkers.guarantees.promises import Damage
from staticfire.faults.model.declaration import EFFECTS
from staticfire.faults.model.fault import ClusterContext, Destroys, PlannedFault
from staticfire.faults.model.topology import Replica, Topology
from staticfire.faults.plans.catalogue import FAULTS, fault_named


def test_the_effects_of_faults_are_those_that_the_checkers_know() -> None:
    assert EFFECTS.keys() == ALL_EFFECTS
    assert {effect for fault in FAULTS.values() for effect in fault.affects} <= ALL_EFFECTS
    assert {damage.name.lower() for damage in Damage} == set(get_args(Destroys))


def test_an_unknown_kind_may_have_any_effect() -> None:
    assert set(default_effects("meteorite")) == ALL_EFFECTS


def test_a_partition_names_its_links_and_other_faults_none() -> None:
    nodes = tuple(Replica(node=f"b{n}", replica_set=f"b{n}", number=0) for n in range(2))
    topology = Topology(coordinators=("n",), replicas=nodes, producers=("p",), consumers=("c",))
    context = ClusterContext(topology=topology, topic="t", sync_flush=True, replication="none")
    for name, some in (("partition-one", True), ("kill", False)):
        fault = fault_named(name)
        strike = fault.draw(Random(1), context)
        assert strike is not None
        planned = PlannedFault(
            fault_id=0,
            kind=name,
            at_s=1,
            duration_s=1,
            targets=strike.targets,
            params=strike.params,
        )
        links = fault.links(planned)
        assert bool(links) is some
        assert all(strike.targets[0] in link for link in links)
