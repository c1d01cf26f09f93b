"""Partitions between machines, by grudge: halves, one, one way, bridge, ring."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from random import Random
from typing import ClassVar

from staticfire.faults.model import grudges
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import shuffled
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import NodePairs


class Partition(Fault):
    """Drops packets between pairs of nodes. The pairs are in the plan, which users can read and `shrink` can reduce."""

    needs: ClassVar[tuple[str, ...]] = ("network.drop",)
    affects = ("cuts",)
    duration_s = (2.0, 12.0)
    roles = ("replica",)
    params = ({"drop": NodePairs("pairs (from, to) between which nothing passes")},)
    simulated = "links drop segments, each direction separately"
    on_machines = "nftables; in `processes`, the proxy"
    proof = "number of packets dropped"

    @abstractmethod
    def grudge(self, nodes: Sequence[str]) -> list[grudges.Pair]:
        """Return the (source, target) pairs whose packets are dropped; `nodes` begins with the broker to isolate."""

    def links(self, planned: PlannedFault) -> tuple[tuple[str, str], ...]:
        return tuple((source, target) for source, target in planned.params["drop"])

    def candidates(self, context: ClusterContext) -> tuple[str, ...]:
        return context.topology.servers + context.topology.clients

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        brokers = shuffled(random, [broker.node for broker in context.topology.replicas])
        others = [n for n in shuffled(random, self.candidates(context)) if n != brokers[0]]
        pairs = self.grudge([brokers[0], *others])
        if not pairs:
            return None
        return FaultParams(targets=(brokers[0],), params={"drop": [list(pair) for pair in pairs]})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        before = await self._dropped(controls, planned)
        for source, target in planned.params["drop"]:
            await controls.network.drop(source=source, target=target)
        return {"dropped_before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        for source, target in planned.params["drop"]:
            await controls.network.restore(source=source, target=target)
        dropped = await self._dropped(controls, planned) - fired["dropped_before"]
        return {"bitten": dropped > 0, "dropped_packets": dropped}

    async def _dropped(self, controls: Controls, planned: PlannedFault) -> int:
        total = 0
        for source, target in planned.params["drop"]:
            total += await controls.network.dropped(source=source, target=target)
        return total


class PartitionHalves(Partition):
    name = "partition-halves"
    summary = "split all nodes into two halves that cannot communicate"

    def grudge(self, nodes: Sequence[str]) -> list[grudges.Pair]:
        return grudges.halves(nodes)


class PartitionOne(Partition):
    name = "partition-one"
    summary = "cut one broker off from all other nodes"

    def grudge(self, nodes: Sequence[str]) -> list[grudges.Pair]:
        return grudges.one(nodes[0], nodes)


class PartitionOneWay(Partition):
    name = "partition-one-way"
    summary = "one broker reaches all other nodes but receives nothing from them"

    def grudge(self, nodes: Sequence[str]) -> list[grudges.Pair]:
        return grudges.one_way(nodes[0], nodes)


class PartitionBridge(Partition):
    name = "partition-bridge"
    summary = "split the nodes into two halves that only one node can reach"

    def grudge(self, nodes: Sequence[str]) -> list[grudges.Pair]:
        return grudges.bridge(nodes)


class PartitionRing(Partition):
    name = "partition-ring"
    summary = "every server can communicate only with its two neighbours"
    needs = ("network.drop", "network.between_servers")

    def candidates(self, context: ClusterContext) -> tuple[str, ...]:
        return context.topology.servers

    def grudge(self, nodes: Sequence[str]) -> list[grudges.Pair]:
        return grudges.ring(nodes)
