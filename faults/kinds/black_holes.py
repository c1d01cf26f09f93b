"""Fake death: a host disappears without RST or FIN, while its peers keep their connections to it."""

from __future__ import annotations

from random import Random

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import pick
from staticfire.faults.model.fault import (
    ClusterContext,
    Fault,
    FaultParams,
    PlannedFault,
    a_replica,
)


class BlackHole(Fault):
    """Drops everything that the host sends or receives: no RST, no FIN, and no SYN-ACK either."""

    needs = ("network.black_hole", "cluster")
    affects = ("stalls", "swallows")
    simulated = "all links of the host drop everything"
    on_machines = "nftables drops all traffic in and out"
    proof = "no answer for 3 s, and packets dropped"

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        [node] = planned.targets
        before = await controls.network.swallowed(node)
        await controls.network.black_hole(node)
        silent = not await controls.cluster.answers(node)
        return {"swallowed_before": before, "silent": silent}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        [node] = planned.targets
        swallowed = await controls.network.swallowed(node) - fired["swallowed_before"]
        await controls.network.end_black_hole(node)
        silent = fired["silent"]
        return {"bitten": silent and swallowed > 0, "silent": silent, "swallowed": swallowed}


class BrokerBlackHole(BlackHole):
    name = "broker-black-hole"
    summary = (
        "a broker's host disappears without RST: packets in and out vanish; later it returns "
        "unchanged"
    )
    duration_s = (4.0, 15.0)
    roles = ("replica",)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=a_replica(random, context))


class NameServerBlackHole(BlackHole):
    name = "name-server-black-hole"
    summary = "a name server's host disappears without RST, and returns with its old routes"
    duration_s = (5.0, 20.0)
    roles = ("coordinator",)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(pick(random, context.topology.coordinators),))
