"""Latency, packet loss and limited bandwidth of a server's outgoing traffic."""

from __future__ import annotations

from abc import abstractmethod
from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence, NetworkControl
from staticfire.faults.model.draws import between, pick
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import Number, Whole

DELAY_MS = (20.0, 400.0)
LOSS_PERCENT = (1.0, 20.0)
BITS_PER_S = (150_000, 1_000_000)
MS_PER_S = 1000


class BadNetwork(Fault):
    """Degrades the outgoing traffic of one broker or name server. It bit if its counter increased meanwhile."""

    affects = ("network",)
    roles = ("server",)
    counter: ClassVar[str]  # key in NetworkControl.traffic_counters
    param: ClassVar[str]
    duration_s = (3.0, 12.0)

    @abstractmethod
    def draw_param(self, random: Random) -> float:
        """Draw the strength of the fault, in the unit of `param`."""

    @abstractmethod
    async def shape(self, network: NetworkControl, node: str, value: float) -> None:
        """Set the strength; 0 ends the fault."""

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        target = pick(random, context.topology.servers)
        return FaultParams(targets=(target,), params={self.param: self.draw_param(random)})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        before = await self._counted(controls, planned)
        await self.shape(controls.network, planned.targets[0], planned.params[self.param])
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await self.shape(controls.network, planned.targets[0], 0)
        seen = await self._counted(controls, planned) - fired["before"]
        return {"bitten": seen > 0, self.counter: seen}

    async def _counted(self, controls: Controls, planned: PlannedFault) -> int:
        return (await controls.network.traffic_counters(planned.targets[0]))[self.counter]


class NetworkLatency(BadNetwork):
    name = "network-latency"
    summary = "everything that a broker or name server sends arrives late"
    needs = ("network.delay",)
    counter = "delayed"
    param = "delay_ms"
    params = ({"delay_ms": Number("added delay", 0.1, 60_000)},)
    simulated = "every segment that the host sends arrives later"
    on_machines = (
        "netem; in `processes`, or if the kernel has no netem, the proxy (which then also makes "
        "the partitions)"
    )
    proof = "number of packets delayed"

    def draw_param(self, random: Random) -> float:
        return round(between(random, *DELAY_MS), 1)

    async def shape(self, network: NetworkControl, node: str, value: float) -> None:
        await network.delay(node, value)

    def delay_s(self, planned: PlannedFault) -> float:
        return float(planned.params.get(self.param, 0.0)) / MS_PER_S


class PacketLoss(BadNetwork):
    name = "packet-loss"
    summary = "a share of a broker's or name server's packets is lost, and TCP must retransmit them"
    needs = ("network.lose",)
    counter = "lost"
    param = "percent"
    params = ({"percent": Number("percentage of segments lost", 0.01, 100)},)
    simulated = "some segments that the host sends are lost; TCP retransmits them"
    on_machines = "netem"
    proof = "number of packets lost"

    def draw_param(self, random: Random) -> float:
        return round(between(random, *LOSS_PERCENT), 1)

    async def shape(self, network: NetworkControl, node: str, value: float) -> None:
        await network.lose(node, value)


class Bandwidth(BadNetwork):
    name = "bandwidth"
    summary = "a master's outgoing bandwidth is limited, for clients and slaves together"
    needs = ("network.limit",)
    counter = "limited"
    param = "bits_per_s"
    params = ({"bits_per_s": Whole("bandwidth of the host", 8000, 10**12)},)
    simulated = (
        "all packets that the host sends share one long queue, which empties when the limit ends"
    )
    on_machines = (
        "tbf, which drops packets that would wait more than 0.4 s; in `processes`, the proxy limits "
        "each link separately"
    )
    proof = "number of packets queued"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        """Draw a master: other nodes send too little to be affected."""
        master = pick(random, context.topology.leaders)
        return FaultParams(targets=(master.node,), params={self.param: self.draw_param(random)})

    def draw_param(self, random: Random) -> float:
        low, high = BITS_PER_S
        return int(low * (high / low) ** random.random())

    async def shape(self, network: NetworkControl, node: str, value: float) -> None:
        await network.limit(node, int(value))
