"""An option of all brokers changes while they run, and changes back."""

from __future__ import annotations

from collections.abc import Iterable
from random import Random

from staticfire.faults.model.capabilities import SERVERS_NEED, Controls, Evidence
from staticfire.faults.model.draws import pick
from staticfire.faults.model.fault import AdminFault, ClusterContext, FaultParams, PlannedFault
from staticfire.faults.model.params import OneOf

# Options that take effect at once, each with a value under which brokers keep the same promises.
OPTIONS = (
    "longPollingEnable=false",
    "maxTransferCountOnMessageInMemory=1",
    "maxTransferBytesOnMessageInMemory=512",
    "accessMessageInMemoryMaxRatio=0",
    "slaveReadEnable=true",
    "brokerFastFailureEnable=false",
    "notifyConsumerIdsChangedEnable=false",
    "registerNameServerPeriod=60000",
)


class OptionsChange(AdminFault):
    """RocketMQ: updateBrokerConfig. A broker that restarts meanwhile may have its former value again."""

    name = "options-change"
    summary = "an option of all brokers changes while they run, and changes back"
    needs = (SERVERS_NEED,)
    max_per_run = 2
    params = ({"option": OneOf("`name=value`", OPTIONS)},)
    simulated = (
        "an option of all brokers changes while they run (`updateBrokerConfig`), and changes "
        "back; some seeds add it to the kinds they draw"
    )
    on_machines = "the same; not available for a cluster at an address"
    proof = "number of brokers that report the new value"

    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        return FaultParams(targets=(), params={"option": pick(random, OPTIONS)})

    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        former = await controls.cluster.change_option(*option_of(planned))
        return {"bitten": bool(former), "former": former}

    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        name, _ = option_of(planned)
        back = await controls.cluster.change_option_back(name, fired["former"])
        return {**fired, "changed_back": back}


def changed_options(plan: Iterable[PlannedFault]) -> list[tuple[str, str]]:
    """Return the names and values of all options that a plan changes."""
    return [option_of(planned) for planned in plan if planned.kind == OptionsChange.name]


def option_of(planned: PlannedFault) -> tuple[str, str]:
    """Return the name and the value of the changed option."""
    name, _, value = planned.params["option"].partition("=")
    return name, value
