"""The number of queues of the topic changes under load."""

from __future__ import annotations

from collections.abc import Sequence
from random import Random

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import LoadTopic, Whole


class TopicChange(Fault):
    name = "topic-change"
    affects = ("queues",)
    summary = "the topic gets more queues while it is in use (queues are never removed)"
    needs = ("cluster",)
    max_per_run = 2
    roles = ()
    params = (
        {
            "topic": LoadTopic("topic to change"),
            "queues": Whole("new number of queues on each broker", 1, 64),
        },
    )
    simulated = "the topic gets more queues"
    proof = "number of masters that accepted"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        count = 5 + int(random.random() * 4)
        return FaultParams(targets=(), params={"topic": context.topic, "queues": count})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        params = planned.params
        answers = await controls.cluster.set_queue_count(params["topic"], params["queues"])
        return _evidence(answers.confirmed, answers.unheard)

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        """Repeat the request to masters that did not answer: each may have created the queues after the time-out."""
        unheard = fired["masters_unheard"]
        if not unheard:
            return fired
        params = planned.params
        answers = await controls.cluster.set_queue_count(params["topic"], params["queues"], unheard)
        return _evidence((*fired["confirmed"], *answers.confirmed), answers.unheard)


def _evidence(confirmed: Sequence[Evidence], unheard: Sequence[str]) -> Evidence:
    return {
        "bitten": bool(confirmed),
        "masters_changed": len(confirmed),
        "masters_unheard": list(unheard),
        "confirmed": list(confirmed),
    }
