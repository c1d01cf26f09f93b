"""The number of retry queues of consumer groups changes while they are in use."""

from __future__ import annotations

from random import Random

from staticfire.faults.model.capabilities import SERVERS_NEED, Controls, Evidence
from staticfire.faults.model.draws import between
from staticfire.faults.model.fault import AdminFault, ClusterContext, FaultParams, PlannedFault
from staticfire.faults.model.params import Whole

FORMER = 1  # default of groups that brokers create automatically


class GroupChange(AdminFault):
    """RocketMQ: updateSubGroup with `-q`. An existing retry topic keeps its number of queues."""

    name = "group-change"
    summary = (
        "the groups of the load get another number of retry queues, and later the former number"
    )
    needs = (SERVERS_NEED,)
    params = ({"retry_queues": Whole("new number of retry queues of each group", 1, 16)},)
    simulated = (
        "an administrator changes the number of retry queues of the load's groups "
        "(`updateSubGroup`), and restores it at the end; some seeds add it to the kinds they draw"
    )
    on_machines = "the same; not available for a cluster at an address"
    proof = "number of masters that accepted"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(), params={"retry_queues": int(between(random, 2, 9))})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        accepted = await controls.cluster.set_retry_queues(planned.params["retry_queues"])
        return {"bitten": accepted > 0, "masters_changed": accepted}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return {**fired, "changed_back": await controls.cluster.set_retry_queues(FORMER)}
