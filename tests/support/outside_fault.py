"""A fault from outside of the project: the process of a broker stands still again and again."""

from __future__ import annotations

import asyncio
from random import Random

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import (
    ClusterContext,
    Fault,
    FaultParams,
    PlannedFault,
    a_replica,
)
from staticfire.faults.model.params import Number, Whole


class Stutter(Fault):
    name = "stutter"
    summary = "SIGSTOP and SIGCONT a broker several times"
    simulated = "the process stands still several times"
    on_machines = "SIGSTOP, SIGCONT"
    proof = "it was running each time"
    needs = ("process.server",)
    roles = ("replica",)
    params = ({"times": Whole("how often", 1, 10), "pause_s": Number("each time", 0.1, 5.0)},)
    affects = ("stalls",)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        params = {"times": 3, "pause_s": 1.0}
        return FaultParams(targets=a_replica(random, context), params=params)

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        [node] = planned.targets
        paused = 0
        for _ in range(planned.params["times"]):
            paused += await controls.process.pause(node)
            await asyncio.sleep(planned.params["pause_s"])
            await controls.process.resume(node)
            await asyncio.sleep(0.2)
        return {"bitten": paused == planned.params["times"], "paused": paused}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired
