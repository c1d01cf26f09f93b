"""An account loses its right to send while clients use it, and gets it back."""

from __future__ import annotations

from random import Random
from typing import ClassVar

from staticfire.faults.model.capabilities import SERVERS_NEED, Controls, Evidence
from staticfire.faults.model.fault import ClusterContext, Fault, FaultParams, PlannedFault


class RightsChange(Fault):
    """RocketMQ: updateAclConfig. Once all masters have confirmed a change, it applies to all later sends."""

    name = "rights-change"
    affects = ("rights",)
    summary = "an account loses its right to send on every master, and gets it back"
    needs = (SERVERS_NEED,)
    max_per_run = 1
    in_swarms: ClassVar[bool] = False
    duration_s = (8.0, 20.0)
    roles = ()
    needs_accounts = True
    simulated = (
        "a guest account loses its right to send on every master (`updateAclConfig`), and gets it back; "
        "every campaign with access control and no quiet end adds it to the kinds drawn"
    )
    on_machines = "the same; not available for a cluster at an address"
    proof = "number of masters that confirmed the change"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=()) if context.acl else None

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        accepted, unanswered = await controls.cluster.withdraw_right()
        return {"bitten": bool(accepted), "withdrawn": accepted, "unanswered": unanswered}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        return {**fired, "given_back": await controls.cluster.give_right_back()}
