"""A disk whose content decays: one bit of a message changes long after it was stored."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import between, pick
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault
from staticfire.faults.model.params import Number


class BitRot(Fault):
    """Flips a bit in the body of one record, which has a checksum. The other fields of a record in RocketMQ have none.

    Only masters with a slave are targets: no node may serve the damaged record, and the slave's copy repairs it.
    """

    name = "bit-rot"
    affects = ("rots",)
    summary = (
        "a bit of a stored message changes on a master's disk; the slave's copy must repair it"
    )
    needs = ("disk.rot",)
    max_per_run = 3
    in_swarms: ClassVar[bool] = False
    beside_share: ClassVar[float] = 0.3  # it breaks nothing by itself
    beside_count: ClassVar[int] = 3
    duration_s = (0.5, 1.0)
    roles = ("leader",)
    params = ({"share": Number("how far into the log", 0, 1)},)
    destroys = "record"
    simulated = (
        "one bit changes in the body of a durable record, beneath the page cache of a master with a slave; "
        "three in ten seeds add it to the kinds they draw, up to three times per run"
    )
    on_machines = (
        "the same: another process changes the file that the node has open; also in `processes`"
    )
    proof = "a reader found a wrong checksum"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        topology = context.topology
        masters = tuple(
            b.node for b in topology.leaders if len(topology.replicas_of(b.replica_set)) > 1
        )
        if not masters or context.replication != "sync":
            return None
        share = round(between(random, 0.0, 0.7), 3)
        return FaultParams(targets=(pick(random, masters),), params={"share": share})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        return await controls.disk.rot(planned.targets[0], planned.params["share"])

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return fired
