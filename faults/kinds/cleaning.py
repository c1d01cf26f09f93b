"""An administrator makes brokers clean up while they are in use."""

from __future__ import annotations

from random import Random

from staticfire.faults.model.capabilities import SERVERS_NEED, Controls, Evidence
from staticfire.faults.model.fault import AdminFault, ClusterContext, FaultParams, PlannedFault


class Cleaning(AdminFault):
    """RocketMQ: cleanUnusedTopic and cleanExpiredCQ. They must keep every topic in use, system topics included."""

    name = "cleaning"
    summary = (
        "an administrator makes all brokers delete queues of deleted topics and expired queue files"
    )
    needs = (SERVERS_NEED,)
    max_per_run = 3
    simulated = (
        "an administrator makes all brokers clean unused topics and expired queue files "
        "(`cleanUnusedTopic`, `cleanExpiredCQ`), twice; some seeds add it to the kinds they draw"
    )
    on_machines = "the same; not available for a cluster at an address"
    proof = "number of brokers that accepted"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=())

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return {"cleaned": await controls.cluster.clean_up()}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        cleaned = fired["cleaned"] + await controls.cluster.clean_up()
        return {"bitten": cleaned > 0, "cleaned": cleaned}
