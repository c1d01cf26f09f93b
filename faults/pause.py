"""SIGSTOP of a broker: its connections stay open and nothing answers, the broker's fake death."""

from __future__ import annotations

from random import Random

from faults.capabilities import Controls, Evidence
from faults.fault import Fault, PlannedFault, Situation, Strike, pick


class Pause(Fault):
    name = "pause"
    summary = "SIGSTOP a broker: connections stay open, nothing is answered; then SIGCONT"
    needs = ("process",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        brokers = tuple(broker.node for broker in situation.shape.brokers)
        return Strike(targets=(pick(random, brokers),))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.process is not None
        return {"bitten": await controls.process.pause(planned.targets[0])}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.process is not None
        await controls.process.resume(planned.targets[0])
        return fired
