"""Faults of name servers: a frozen one, one that loses its routes, and nodes with different lists of name servers."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from random import Random

from staticfire.faults.kinds.process_faults import Pause, ProcessFault
from staticfire.faults.kinds.rolling_restart import ago_ns
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import pick
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import NodeOf


class NameServerFreeze(Pause):
    name = "name-server-freeze"
    summary = "a name server accepts connections and requests, but never answers"
    duration_s = (5.0, 20.0)
    roles = ("coordinator",)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(pick(random, context.topology.coordinators),))


class NameServerAmnesia(ProcessFault):
    name = "name-server-amnesia"
    affects = ("stops", "forgets")
    summary = "a name server restarts without any routes"
    needs = ("process.server", "cluster")
    duration_s = (0.5, 3.0)
    roles = ("coordinator",)
    destroys = "process"
    simulated = "kill and start"
    proof = "the name server had routes"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(pick(random, context.topology.coordinators),))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        known = await controls.cluster.routes_known(planned.targets[0])
        killed = await controls.process.kill(planned.targets[0])
        return {"bitten": killed and known > 0, "routes_forgotten": known}


class SplitNameServers(Fault):
    name = "split-name-servers"
    affects = ("routes", "stops")
    summary = "a broker and a client know only one name server each, and not the same one"
    needs = ("cluster.set_bootstrap",)
    duration_s = (5.0, 15.0)
    max_per_run = 1
    roles = ("replica", "client")
    params = (
        {
            "broker_sees": NodeOf("name server of the restarted broker", "coordinator"),
            "client_sees": NodeOf("name server of the restarted client", "coordinator"),
        },
    )
    strikes = "again"
    simulated = (
        "a broker and a client restart with one name server each, not the same one; at the heal they "
        "restart with all name servers"
    )
    proof = "both restarted"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        topology = context.topology
        if len(topology.coordinators) < 2:
            return None
        broker = pick(random, tuple(broker.node for broker in topology.replicas))
        return FaultParams(
            targets=(broker, pick(random, topology.clients)),
            params={
                "broker_sees": topology.coordinators[0],
                "client_sees": topology.coordinators[-1],
            },
        )

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        start_s = asyncio.get_running_loop().time()
        params = planned.params
        seen = [[params["broker_sees"]], [params["client_sees"]]]
        restarts, is_split = await _restart_with(controls, planned.targets, seen)
        split = [
            {"node": node, "began_ago_ns": ago_ns(start_s), "affects": ["routes"]}
            for node in planned.targets
        ]
        return {"bitten": is_split, "struck": [*restarts, *split]}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        restarts, _ = await _restart_with(controls, planned.targets, [[], []])
        return {**fired, "struck_at_heal": restarts}


async def _restart_with(
    controls: Controls, nodes: Sequence[str], name_servers: Sequence[Sequence[str]]
) -> tuple[list[dict[str, object]], bool]:
    """Restart nodes, each with name servers of its own; an empty list means all.

    Return the time at which each node was down, relative to the end of the last restart, in ns, and whether all had
    been running.
    """
    loop = asyncio.get_running_loop()
    times: list[tuple[str, float, float]] = []
    stopped = True
    for node, seen in zip(nodes, name_servers, strict=True):
        begun_s = loop.time()
        stopped &= await controls.cluster.set_bootstrap(node, seen)
        times.append((node, begun_s, loop.time()))
    restarts = [
        {
            "node": node,
            "began_ago_ns": ago_ns(begun_s),
            "ended_ago_ns": ago_ns(ended_s),
            "affects": ["stops"],
        }
        for node, begun_s, ended_s in times
    ]
    return restarts, stopped
