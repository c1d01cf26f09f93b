"""SIGTERM of a broker, and a restart: it must lose nothing, not even offsets."""

from __future__ import annotations

from random import Random

from faults.capabilities import Controls, Evidence
from faults.fault import Fault, PlannedFault, Situation, Strike, pick


class GracefulStop(Fault):
    name = "graceful-stop"
    summary = "SIGTERM a broker, wait until it has stopped, start it again later"
    needs = ("process",)

    def draw(self, random: Random, situation: Situation) -> Strike | None:
        brokers = tuple(broker.node for broker in situation.shape.brokers)
        return Strike(targets=(pick(random, brokers),))

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        assert controls.process is not None
        return {"bitten": await controls.process.stop(planned.targets[0])}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        assert controls.process is not None
        await controls.process.start(planned.targets[0])
        return fired
