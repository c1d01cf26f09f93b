"""A broker's disk that fills up, fails, slows down or is lost for good."""

from __future__ import annotations

import asyncio
from abc import abstractmethod
from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, DiskControl, Evidence
from staticfire.faults.model.draws import between, pick
from staticfire.faults.model.fault import (
    ClusterContext,
    Fault,
    FaultParams,
    PlannedFault,
    a_replica,
)
from staticfire.faults.model.params import TIME_S_MAX, Nodes, Number, Whole

_FREE = Whole("free space that is left", 0, 2**40)
FILL_S_MAX = 2.5  # duration of a slow fill
STALLS_FROM = 340.0  # a drawn factor above this becomes a stall
STALLED = 1e6  # factor with which an fsync outlasts the fault
ALONE_S_MAX = 2.0  # time that a master is cut off from its slaves before its disk is lost


async def counted(controls: Controls, planned: PlannedFault, counter: str) -> int:
    return (await controls.disk.counters(planned.targets[0]))[counter]


class DiskFault(Fault):
    """A fault of a disk that `DiskControl.heal` ends. It bit if its counter increased meanwhile."""

    counter: ClassVar[str]  # key in DiskControl.counters

    @abstractmethod
    async def damage(self, disk: DiskControl, planned: PlannedFault) -> None:
        """Break the disk of the target."""

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        before = await counted(controls, planned, self.counter)
        await self.damage(controls.disk, planned)
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.disk.heal(planned.targets[0])
        seen = await counted(controls, planned, self.counter) - fired["before"]
        return {"bitten": seen > 0, self.counter: seen}


class DiskFull(DiskFault):
    name = "disk-full"
    affects = ("disk", "writes_fail")
    summary = (
        "a broker's disk fills up, suddenly or slowly (ENOSPC, short writes), then space comes back"
    )
    needs = ("disk.fill",)
    counter = "enospc"
    duration_s = (
        8.0,
        12.0,
    )  # brokers write offsets every 5 s, so each full disk meets a write
    roles = ("server",)
    params = (
        {
            "free_bytes": _FREE,
            "over_s": Number("how long the disk takes to fill; 0: at once", 0, TIME_S_MAX),
        },
        {"free_bytes": _FREE},
    )
    simulated = "other programs' data takes the space: ENOSPC, short writes"
    on_machines = "ballast on the node's own file system"
    proof = "number of ENOSPC errors"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        free_bytes = 0 if random.random() < 0.7 else int(between(random, 0, 30_000))
        over_s = 0.0 if random.random() < 0.5 else round(between(random, 0.5, FILL_S_MAX), 3)
        return FaultParams(
            targets=a_replica(random, context),
            params={"free_bytes": free_bytes, "over_s": over_s},
        )

    async def damage(self, disk: DiskControl, planned: PlannedFault) -> None:
        params = planned.params
        await disk.fill(planned.targets[0], params["free_bytes"], params.get("over_s", 0.0))


class FailingDisk(DiskFault):
    name = "failing-disk"
    affects = ("disk", "writes_fail", "rolls_back")
    summary = "writes or fsyncs of a broker fail with EIO; a failed fsync drops the dirty pages"
    needs = ("disk.fail",)
    counter = "eio"
    roles = ("server",)
    params = (
        {
            "writes": Whole("number of writes that fail next", 0, 10**6),
            "fsyncs": Whole("number of fsyncs that fail next", 0, 10**6),
        },
    )
    destroys = "write_error"
    strikes = "later"
    simulated = (
        "the next writes or fsyncs fail with EIO (an fsync in flight fails at its end), and dirty "
        "pages are dropped"
    )
    on_machines = "the loop device ends after the metadata"
    proof = "number of EIO errors"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        on_fsync = random.random() < 0.7
        params = {"writes": 0 if on_fsync else 1, "fsyncs": 1 if on_fsync else 0}
        return FaultParams(targets=a_replica(random, context), params=params)

    async def damage(self, disk: DiskControl, planned: PlannedFault) -> None:
        await disk.fail(planned.targets[0], **planned.params)


class SlowDisk(DiskFault):
    name = "slow-disk"
    affects = ("disk",)
    summary = (
        "writes and fsyncs of a broker take many times as long, or wait until the disk continues"
    )
    needs = ("disk.slow",)
    counter = "slow_ns"
    roles = ("server",)
    params = ({"factor": Number("factor by which calls take longer; 1e6 stalls them", 1, 10**6)},)
    simulated = (
        "calls that must reach the disk take many times as long, and so does the rest of an fsync in "
        "flight; one in six faults stalls them until the heal; the fault ends when the last delayed call "
        "has ended"
    )
    on_machines = "cgroup throttle; one write per second instead of a stall"
    proof = "the added time"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        factor = round(between(random, 20.0, 400.0), 1)
        if factor > STALLS_FROM:
            factor = STALLED
        return FaultParams(targets=a_replica(random, context), params={"factor": factor})

    async def damage(self, disk: DiskControl, planned: PlannedFault) -> None:
        await disk.slow(planned.targets[0], planned.params["factor"])


class DiskLost(Fault):
    """Destroys a master's disk for good.

    In most cases the links to the slaves break first: messages that the master then acknowledges alone are lost with
    its disk.
    """

    name = "disk-lost"
    affects = ("stops", "forgets", "empties", "writes_fail")
    summary = "a master's disk and machine are gone for good; its slave must have everything"
    needs = ("network.drop", "disk.destroy")
    permanent = True
    max_per_run = 1
    roles = ("leader",)
    params = (
        {
            "alone_s": Number("how long the node is cut off from its slaves first", 0, TIME_S_MAX),
            "slaves": Nodes("the slaves of the node"),
        },
    )
    destroys = "disk"
    simulated = "every call fails with EIO permanently; often the links to the slaves break first"
    on_machines = "shut down the file system, kill"
    proof = "the node had power"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        if context.replication != "sync":
            return None
        topology = context.topology
        masters = tuple(b for b in topology.leaders if len(topology.replicas_of(b.replica_set)) > 1)
        if not masters:
            return None
        master = pick(random, masters)
        slaves = [r.node for r in topology.replicas_of(master.replica_set) if not r.is_leader]
        alone_s = round(between(random, 0.0, ALONE_S_MAX), 3) if random.random() < 0.7 else 0.0
        return FaultParams(targets=(master.node,), params={"alone_s": alone_s, "slaves": slaves})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        before = await counted(controls, planned, "power_cuts")
        if planned.params["alone_s"] > 0:
            await self._destroy_cut_off(controls, planned)
        else:
            await controls.disk.destroy(planned.targets[0])
        return {"bitten": await counted(controls, planned, "power_cuts") > before, "for_good": True}

    async def _destroy_cut_off(self, controls: Controls, planned: PlannedFault) -> None:
        """Destroy the disk after a time in which no data from the master reached its slaves."""
        pairs = [(planned.targets[0], slave) for slave in planned.params["slaves"]]
        for source, target in pairs:
            await controls.network.drop(source=source, target=target)
        await asyncio.sleep(planned.params["alone_s"])
        await controls.disk.destroy(planned.targets[0])
        for source, target in pairs:
            await controls.network.restore(source=source, target=target)

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired  # for good
