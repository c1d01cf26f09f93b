"""A broker's disk that fills up, fails, slows down or is lost for good."""

from __future__ import annotations

import asyncio
from random import Random

from faults.capabilities import Controls, Evidence
from faults.fault import Fault, PlannedFault, Situation, Strike, a_broker, between

ALONE_S_MAX = 2.0  # how long a master whose disk is about to be lost may be cut off from its slaves


def counted(controls: Controls, planned: PlannedFault, counter: str) -> int:
    assert controls.disk is not None
    return controls.disk.counters(planned.targets[0])[counter]


class DiskFull(Fault):
    name = "disk-full"
    summary = "a broker's disk has no space left (ENOSPC, short writes), then space comes back"
    needs = ("disk",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        free_bytes = int(between(random, 0, 30_000))
        return Strike(targets=a_broker(random, situation), params={"free_bytes": free_bytes})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.disk is not None
        before = counted(controls, planned, "enospc")
        await controls.disk.fill(planned.targets[0], planned.params["free_bytes"])
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.disk is not None
        await controls.disk.free(planned.targets[0])
        seen = counted(controls, planned, "enospc") - fired["before"]
        return {"bitten": seen > 0, "enospc": seen}


class FailingDisk(Fault):
    name = "failing-disk"
    summary = "writes or fsyncs of a broker fail with EIO; a failed fsync drops the dirty pages"
    needs = ("process", "disk")
    destructive = True

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        on_fsync = random.random() < 0.7
        params = {"writes": 0 if on_fsync else 1, "fsyncs": 1 if on_fsync else 0}
        return Strike(targets=a_broker(random, situation), params=params)

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.disk is not None
        before = counted(controls, planned, "eio")
        await controls.disk.fail(planned.targets[0], **planned.params)
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.disk is not None
        await controls.disk.mend(planned.targets[0])
        seen = counted(controls, planned, "eio") - fired["before"]
        return {"bitten": seen > 0, "eio": seen}


class SlowDisk(Fault):
    name = "slow-disk"
    summary = "every disk operation of a broker takes many times as long"
    needs = ("disk",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        factor = round(between(random, 20.0, 400.0), 1)
        return Strike(targets=a_broker(random, situation), params={"factor": factor})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.disk is not None
        before = counted(controls, planned, "operations")
        await controls.disk.slow(planned.targets[0], planned.params["factor"])
        return {"before": before}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.disk is not None
        await controls.disk.slow(planned.targets[0], 1.0)
        slowed = counted(controls, planned, "operations") - fired["before"]
        return {"bitten": slowed > 0, "slowed_operations": slowed}


class DiskLost(Fault):
    """The slave's link often breaks first: what the master acknowledges alone from then on is lost with it."""

    name = "disk-lost"
    summary = "a master's disk and machine are gone for good; its slave must have everything"
    needs = ("process", "network", "disk")
    destructive = True
    max_per_run = 1

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        if situation.replication != "sync":
            return None
        shape = situation.shape
        masters = tuple(b for b in shape.masters if len(shape.replicas(b.broker_name)) > 1)
        if not masters:
            return None
        master = masters[int(random.random() * len(masters))]
        slaves = [r.node for r in shape.replicas(master.broker_name) if not r.is_master]
        alone_s = round(between(random, 0.0, ALONE_S_MAX), 3) if random.random() < 0.7 else 0.0
        return Strike(targets=(master.node,), params={"alone_s": alone_s, "slaves": slaves})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.disk is not None
        before = counted(controls, planned, "power_cuts")
        if planned.params["alone_s"] > 0:
            await self._destroy_cut_off(controls, planned)
        else:
            await controls.disk.destroy(planned.targets[0])
        return {"bitten": counted(controls, planned, "power_cuts") > before, "for_good": True}

    async def _destroy_cut_off(self, controls: Controls, planned: PlannedFault) -> None:
        """For a while before the end nothing that the master sends reaches its slaves."""
        assert controls.disk is not None
        assert controls.network is not None
        pairs = [(planned.targets[0], slave) for slave in planned.params["slaves"]]
        for source, target in pairs:
            await controls.network.drop(source=source, target=target)
        await asyncio.sleep(planned.params["alone_s"])
        await controls.disk.destroy(planned.targets[0])
        for source, target in pairs:
            await controls.network.restore(source=source, target=target)

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired  # for good
