"""A wrong wall clock: the clock of a node steps, and steps back at the heal."""

from __future__ import annotations

from random import Random

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import between, pick
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import Whole


class ClockSkew(Fault):
    name = "clock-skew"
    affects = ("clock",)
    summary = "the wall clock of a node steps by up to an hour, and steps back at the heal"
    needs = ("process", "clock.step")
    roles = ("node",)
    params = ({"step_ms": Whole("size of the step", -(10**10), 10**10)},)
    simulated = "the wall clock of the host steps"
    on_machines = "libfaketime"
    proof = "how far the clock moved"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        step_s = between(random, 1.0, 3600.0) * (1 if random.random() < 0.5 else -1)
        node = pick(random, context.topology.servers + context.topology.clients)
        return FaultParams(targets=(node,), params={"step_ms": int(step_s * 1000)})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        alive = controls.process.is_alive(planned.targets[0])
        moved_ms = await controls.clock.step(planned.targets[0], planned.params["step_ms"])
        return {"bitten": alive and moved_ms != 0}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.clock.reset(planned.targets[0])
        return fired
