"""A broker's process is killed, stopped or frozen, and later runs again."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.fault import (
    ClusterContext,
    Fault,
    FaultParams,
    PlannedFault,
    a_replica,
)


class ProcessFault(Fault):
    """A fault that ends when its process starts again. The target is a broker, unless a subclass draws another node."""

    needs: ClassVar[tuple[str, ...]] = ("process.server",)
    roles: ClassVar[tuple[str, ...]] = ("server",)

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=a_replica(random, context))

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.process.start(planned.targets[0])
        return fired


class Kill(ProcessFault):
    name = "kill"
    affects = ("stops", "forgets")
    summary = "SIGKILL a broker, and start it again later; written data survives in the page cache"
    destroys = "process"
    simulated = "the process stops at once; the page cache survives"
    on_machines = "SIGKILL"
    proof = "the process was running"

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return {"bitten": await controls.process.kill(planned.targets[0])}


class GracefulStop(ProcessFault):
    name = "graceful-stop"
    affects = ("stops",)
    summary = "SIGTERM a broker, wait until it has stopped, and start it again later"
    simulated = "the process shuts down gracefully"
    on_machines = "SIGTERM"
    proof = "the process exited by itself"

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return {"bitten": await controls.process.stop(planned.targets[0])}


class Pause(ProcessFault):
    """Fake death of a broker's process: connections stay open, without answers. `black_holes.py` has that of a host."""

    name = "pause"
    affects = ("stalls",)
    summary = "SIGSTOP a broker: its connections stay open, but it answers nothing; then SIGCONT"
    needs: ClassVar[tuple[str, ...]] = ("process.server", "cluster")
    simulated = "the process stops running; its kernel keeps working"
    on_machines = "SIGSTOP"
    proof = "no answer for 3 s while TCP stays open"

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        paused = await controls.process.pause(planned.targets[0])
        silent = not await controls.cluster.answers(planned.targets[0])
        return {"bitten": paused and silent, "silent": silent}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        await controls.process.resume(planned.targets[0])
        return fired
