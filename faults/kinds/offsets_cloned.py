"""Clones the offsets of a side topic's group to another group; both groups continue."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault


class OffsetsCloned(Fault):
    """RocketMQ: cloneGroupOffset. The new group begins at the source's offsets, which do not change."""

    name = "offsets-cloned"
    affects = ("admin",)
    summary = (
        "the offsets of a group outside the load are cloned to another group, and both continue"
    )
    needs = ("cluster",)
    max_per_run = 2
    in_swarms: ClassVar[bool] = False
    beside_share: ClassVar[float] = 0.15
    roles = ()
    simulated = (
        "the offsets of a group outside the load are cloned to another group "
        "(`cloneGroupOffset`), and both continue; some seeds add it to the kinds they draw"
    )
    proof = "number of queues that the source group had consumed"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=())

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return await controls.cluster.clone_offsets(planned.fault_id)

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.cluster.go_on_beside(planned.fault_id)
        return fired
