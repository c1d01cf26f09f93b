"""An operator resets the offsets of the topic's groups while they consume."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import LoadTopic, Number

_TOPIC = LoadTopic("topic to consume again")


class OffsetsReset(Fault):
    """RocketMQ: resetOffsetByTime. All consumed messages from the new offsets on must be delivered again."""

    name = "offsets-reset"
    affects = ("offsets",)
    summary = (
        "an operator sends the groups back to the beginning of their queues, or to the time of a message, while they "
        "consume"
    )
    needs = ("cluster",)
    max_per_run = 2
    in_swarms: ClassVar[bool] = False  # operators do not reset offsets at random
    duration_s = (1.0, 2.0)
    roles = ()
    params = (
        {"topic": _TOPIC},
        {
            "topic": _TOPIC,
            "share": Number(
                "message whose time the groups go back to, as a share of the first queue", 0, 1
            ),
        },
    )
    simulated = (
        "an operator resets the groups to the beginning or to a time (`resetOffsetByTime`) while they consume; "
        "only the workload `rebalance` draws it"
    )
    proof = "number of masters that reported notifying members"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        share = random.choice(({}, {"share": round(random.random(), 2)}))
        return FaultParams(targets=(), params={"topic": context.topic, **share})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        params = planned.params
        resets = await controls.cluster.reset_offsets(params["topic"], params.get("share", 0.0))
        return {"bitten": bool(resets), "resets": resets}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired
