"""A slave's disk is replaced by an empty one, so the slave must copy everything again."""

from __future__ import annotations

from random import Random

from staticfire.faults.kinds.process_faults import ProcessFault
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import pick
from staticfire.faults.model.fault import ClusterContext, FaultParams, PlannedFault


class WipedSlave(ProcessFault):
    name = "wiped-slave"
    affects = ("stops", "forgets", "empties")
    summary = "kill a slave, wipe its disk, and start it again: it must catch up from nothing"
    needs = ("process", "disk.wipe")
    duration_s = (0.5, 6.0)
    roles = ("follower",)
    destroys = "disk"
    simulated = "kill, empty the disk, start"
    on_machines = "kill, remove all files, start"
    proof = "number of bytes wiped"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        slaves = tuple(b.node for b in context.topology.replicas if not b.is_leader)
        return FaultParams(targets=(pick(random, slaves),)) if slaves else None

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        [node] = planned.targets
        killed = await controls.process.kill(node)
        wiped = await controls.disk.wipe(node)
        return {"bitten": killed and wiped > 0, "wiped_bytes": wiped}
