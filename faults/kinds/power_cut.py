"""Power loss: of one node, of a node inside a disk operation, or of the whole cluster at once."""

from __future__ import annotations

import asyncio
from random import Random

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import between
from staticfire.faults.model.fault import (
    ClusterContext,
    Fault,
    FaultParams,
    PlannedFault,
    a_replica,
)
from staticfire.faults.model.params import TIME_S_MAX, Number, Whole

OPERATIONS_AHEAD_MAX = 200  # the furthest disk operation inside which a cut may strike
SYNCS_AHEAD_MAX = 60  # the furthest fsync inside which a cut may strike


async def lost_since(controls: Controls, planned: PlannedFault, before: dict[str, int]) -> Evidence:
    lost = 0
    cuts = 0
    for node in planned.targets:
        counters = await controls.disk.counters(node)
        lost += counters["lost_bytes"] - before[f"{node} lost_bytes"]
        cuts += counters["power_cuts"] - before[f"{node} power_cuts"]
    return {"bitten": cuts > 0, "lost_bytes": lost, "power_cuts": cuts}


async def counters_now(controls: Controls, planned: PlannedFault) -> dict[str, int]:
    now: dict[str, int] = {}
    for node in planned.targets:
        counters = await controls.disk.counters(node)
        now[f"{node} lost_bytes"] = counters["lost_bytes"]
        now[f"{node} power_cuts"] = counters["power_cuts"]
    return now


def draw_stall(random: Random) -> dict[str, object]:
    """Draw whether the disks stall before the power cut, and for how long; the cut then falls inside an fsync."""
    factor, over_s = between(random, 50.0, 400.0), between(random, 0.1, 0.5)
    if random.random() < 0.5:
        return {}
    return {"slow_factor": round(factor, 1), "slow_s": round(over_s, 3)}


class PowerCut(Fault):
    """A host that reboots: it falls silent at once (no RST, no FIN), loses unsynced bytes, and comes back.

    In half of the cases its disk stalls first, if the environment can slow disks down.
    """

    name = "power-cut"
    affects = ("stops", "forgets", "rolls_back")
    summary = (
        "cut the power of a broker's machine, which boots again; unsynced writes are lost, "
        "torn or reordered"
    )
    needs = ("disk.power_cut",)
    roles = ("server",)
    many = True
    params = (
        {},
        {
            "slow_factor": Number(
                "slowdown of the disk before the cut, so that it falls inside an fsync", 1, 10**6
            ),
            "slow_s": Number("how long the disk is slow", 0, TIME_S_MAX),
        },
    )
    destroys = "power"
    simulated = (
        "the host falls silent; unsynced writes are lost, torn or reordered; the host boots again"
    )
    on_machines = "black hole, shut down the file system, kill; then mount and start again"
    proof = "number of bytes lost, counted after the boot"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=a_replica(random, context), params=draw_stall(random))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        before = await counters_now(controls, planned)
        if self._stalls(controls, planned):
            factor = planned.params["slow_factor"]
            await asyncio.gather(*(controls.disk.slow(node, factor) for node in planned.targets))
            await asyncio.sleep(planned.params["slow_s"])
        await controls.disk.power_cut(planned.targets)
        return dict(before)

    @staticmethod
    def _stalls(controls: Controls, planned: PlannedFault) -> bool:
        return "slow_factor" in planned.params and controls.has("disk.slow")

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        for node in planned.targets:
            if self._stalls(controls, planned):
                await controls.disk.heal(node)
            await controls.disk.power_on(node)
        return await lost_since(controls, planned, fired)


class PowerCutInOperation(Fault):
    """Cuts the power inside a disk operation; in half of the cases inside an fsync.

    Fsyncs are few compared with other operations, but a cut inside one can cost whole records.
    """

    name = "power-cut-in-operation"
    affects = ("stops", "forgets", "rolls_back")
    summary = "cut the power of a broker's machine in the middle of a disk operation"
    needs = ("disk.power_cut_at",)
    roles = ("server",)
    params = (
        {"sync": Whole("number of the fsync, counted from now", 1, 10**9)},
        {"operation": Whole("number of the disk operation, counted from now", 1, 10**9)},
    )
    destroys = "power"
    strikes = "later"
    simulated = "`power-cut` inside a chosen disk operation or fsync"
    on_machines = "not available"
    proof = "the cut happened"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        targets = a_replica(random, context)
        in_sync = random.random() < 0.5
        ahead_max = SYNCS_AHEAD_MAX if in_sync else OPERATIONS_AHEAD_MAX
        number = 1 + int(random.random() * ahead_max)
        return FaultParams(targets=targets, params={"sync" if in_sync else "operation": number})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        before = await counters_now(controls, planned)
        node, params = planned.targets[0], planned.params
        if "sync" in params:
            await controls.disk.power_cut_at_sync(node, params["sync"])
        else:
            await controls.disk.power_cut_at(node, params["operation"])
        return dict(before)

    async def struck_ns(self, controls: Controls, planned: PlannedFault) -> int | None:
        return await controls.disk.power_failed_ns(planned.targets[0])

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        evidence = await lost_since(controls, planned, fired)
        await controls.disk.cancel_power_cut(planned.targets[0])
        await controls.disk.power_on(planned.targets[0])
        return evidence


class ClusterPowerCut(PowerCut):
    name = "cluster-power-cut"
    summary = "cut the power of every broker and name server in one instant"
    strikes_all = True
    max_per_run = 2
    duration_s = (1.0, 4.0)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=context.topology.servers, params=draw_stall(random))
