"""A side topic and its group are deleted and created again."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import OWN_NEED, Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault


class TopicAnew(Fault):
    """Brokers must deliver no message of the former topic, and every message of the new topic and of all others."""

    name = "topic-anew"
    affects = ("admin",)
    summary = "a topic outside the load and its group are deleted and created again"
    needs = ("cluster", OWN_NEED)
    max_per_run = 2
    in_swarms: ClassVar[bool] = False
    beside_share: ClassVar[float] = 0.15
    roles = ()
    simulated = (
        "an administrator uses a topic and a group outside the load, deletes the topic on all "
        "masters and then at the name servers, deletes the group, creates both again and continues; "
        "some seeds add it to the kinds they draw"
    )
    on_machines = "the same, only on our own brokers"
    proof = "number of masters that did so and had messages of the former topic"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=())

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return await controls.cluster.make_topic_anew(planned.fault_id)

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.cluster.go_on_beside(planned.fault_id)
        return fired
