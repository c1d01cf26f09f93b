"""An operator sends the groups of the topic back to the beginning while they consume."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import LoadTopic


class OffsetsReset(Fault):
    """RocketMQ: resetOffsetByTime. All consumed messages must come again."""

    name = "offsets-reset"
    affects = ("offsets",)
    summary = (
        "an operator sends the groups back to the beginning of their queues while they consume"
    )
    needs = ("cluster",)
    max_per_run = 2
    in_swarms: ClassVar[bool] = False  # an operator does not reset offsets by chance
    duration_s = (1.0, 2.0)
    roles = ()
    params = ({"topic": LoadTopic("what is consumed again")},)
    simulated = (
        "an operator lets the groups begin again (`resetOffsetByTime`) while they consume; "
        "only `rebalance` has it by itself"
    )
    proof = "masters that answered that they notified members"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(), params={"topic": context.topic})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        resets = await controls.cluster.reset_offsets(planned.params["topic"])
        return {"bitten": bool(resets), "resets": resets}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired
