"""Changes of side topics, which lie outside the load: one is created again, or its offsets are cloned."""

from __future__ import annotations

from random import Random

from staticfire.faults.model.capabilities import OWN_NEED, Controls, Evidence
from staticfire.faults.model.fault import AdminFault, ClusterContext, FaultParams, PlannedFault


class _SideTopicFault(AdminFault):
    max_per_run = 2

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=())

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.cluster.go_on_beside(planned.fault_id)
        return fired


class TopicAnew(_SideTopicFault):
    """A side topic and its group are deleted and created again.

    Brokers must deliver no message of the former topic, and every message of the new topic and of all others.
    """

    name = "topic-anew"
    summary = "a topic outside the load and its group are deleted and created again"
    needs = ("cluster", OWN_NEED)
    simulated = (
        "an administrator uses a topic and a group outside the load, deletes the topic on all "
        "masters and then at the name servers, deletes the group, creates both again and continues; "
        "some seeds add it to the kinds they draw"
    )
    on_machines = "the same, only on our own brokers"
    proof = "number of masters that did so and had messages of the former topic"

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return await controls.cluster.make_topic_anew(planned.fault_id)


class OffsetsCloned(_SideTopicFault):
    """Clones the offsets of a side topic's group to another group. RocketMQ: cloneGroupOffset.

    The new group begins at the source's offsets, which do not change; both groups continue.
    """

    name = "offsets-cloned"
    summary = (
        "the offsets of a group outside the load are cloned to another group, and both continue"
    )
    needs = ("cluster",)
    simulated = (
        "the offsets of a group outside the load are cloned to another group "
        "(`cloneGroupOffset`), and both continue; some seeds add it to the kinds they draw"
    )
    proof = "number of queues that the source group had consumed"

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return await controls.cluster.clone_offsets(planned.fault_id)
