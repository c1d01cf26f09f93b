"""Clients that crash, leave their group, change their filter, consume slowly or fail."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from random import Random
from typing import ClassVar

from staticfire.faults.kinds.process_faults import GracefulStop, Kill
from staticfire.faults.model.capabilities import ClientControl, Controls, Evidence
from staticfire.faults.model.draws import between, pick
from staticfire.faults.model.fault import (
    ClusterContext,
    Fault,
    FaultParams,
    PlannedFault,
    a_replica,
)
from staticfire.faults.model.params import TIME_S_MAX, Number


class ClientCrash(Kill):
    name = "client-crash"
    summary = "SIGKILL a producer or consumer, and start a new one later"
    needs = ("process.client",)
    roles = ("client",)
    simulated = "`kill` of a client"
    on_machines = "SIGKILL"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(pick(random, context.topology.clients),))


class MemberLeaves(GracefulStop):
    name = "member-leaves"
    summary = "a consumer leaves its group gracefully, and comes back later"
    needs = ("process.client",)
    roles = ("consumer",)
    simulated = "a consumer stops gracefully: it commits its offsets and leaves its group"
    on_machines = "SIGTERM"
    proof = "the process exited by itself"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(pick(random, context.topology.consumers),))


class GroupAndBrokerCrash(Kill):
    """Kills a broker and all consumers at once, as a failing rack does: no process keeps the group's position."""

    name = "group-and-broker-crash"
    summary = "SIGKILL a broker and all consumers in one instant, and start all of them again later"
    needs = ("process.server", "process.client")
    in_swarms = False
    roles = ("replica", "consumer")
    many = True
    simulated = (
        "`kill` of a broker and all consumers at once; one seed in ten draws it instead of "
        "another kind"
    )
    on_machines = "SIGKILL"
    proof = "each had a running process"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(*a_replica(random, context), *context.topology.consumers))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        killed = await asyncio.gather(*map(controls.process.kill, planned.targets))
        return {"bitten": all(killed), "killed": sum(killed)}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await asyncio.gather(*map(controls.process.start, planned.targets))
        return fired


class FilterChange(Fault):
    """Restarts the members one after the other with another subscription, as the rollout of a new version does."""

    name = "filter-change"
    affects = ("stops",)
    summary = "the members of filtered groups restart with another expression"
    needs = ("cluster",)
    in_swarms = False
    share = 0.5
    max_per_run = 1
    roles = ("consumer",)
    many = True
    strikes = "in_turn"
    simulated = (
        "the members of filtered groups restart, one after the other, with another "
        "expression; only the workload `filtered` draws it, in half of the runs"
    )
    proof = "a member was running"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=context.topology.consumers)

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        changed = [await controls.cluster.change_filter(node) for node in planned.targets]
        return {"bitten": any(changed), "restarted": sum(changed)}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired


class ListenerFault(Fault):
    """A listener misbehaves for a while. The fault bit if the listener counted affected batches meanwhile."""

    affects = ("listener",)
    needs = ("client",)
    roles = ("consumer",)
    counter: ClassVar[str]  # key in ClientControl.listener_counters
    strength: ClassVar[str]  # name of the parameter with the strength; 0: no effect
    simulated = "the listener waits or fails"
    proof = "number of deliveries affected"

    @abstractmethod
    async def set_strength(self, client: ClientControl, node: str, strength: float) -> None:
        """Set how strongly the node's listener misbehaves from now on."""

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        node = planned.targets[0]
        before = (await controls.client.listener_counters(node))[self.counter]
        await self.set_strength(controls.client, node, planned.params[self.strength])
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        node = planned.targets[0]
        await self.set_strength(controls.client, node, 0.0)
        seen = (await controls.client.listener_counters(node))[self.counter] - fired["before"]
        return {"bitten": seen > 0, f"{self.counter}_batches": seen}


class SlowConsumer(ListenerFault):
    name = "slow-consumer"
    summary = "the listener of a consumer is slow for every batch"
    counter = "delayed"
    strength = "delay_s"
    params = ({"delay_s": Number("delay of each batch", 0, TIME_S_MAX)},)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        delay_s = round(between(random, 0.2, 2.0), 3)
        return FaultParams(
            targets=(pick(random, context.topology.consumers),), params={"delay_s": delay_s}
        )

    async def set_strength(self, client: ClientControl, node: str, strength: float) -> None:
        await client.slow_listener(node, strength)


class FailingListener(ListenerFault):
    name = "failing-listener"
    summary = "the listener of a consumer fails for a share of the batches; they must come again"
    counter = "failed"
    strength = "share"
    params = ({"share": Number("share of batches that fail", 0, 1)},)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        share = round(between(random, 0.1, 0.6), 2)
        return FaultParams(
            targets=(pick(random, context.topology.consumers),), params={"share": share}
        )

    async def set_strength(self, client: ClientControl, node: str, strength: float) -> None:
        await client.failing_listener(node, strength)
