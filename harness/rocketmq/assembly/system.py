"""RocketMQ as a system: our own brokers and name servers, Apache's distribution, or an external cluster."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op
from staticfire.faults.plans.catalogue import FAULTS
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.environments.environment import Environment
from staticfire.harness.environments.real.machine_provider import MachineProvider
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.recording.stored_logs import StoredLogs
from staticfire.harness.rocketmq import limits
from staticfire.harness.rocketmq.assembly import target_choice
from staticfire.harness.rocketmq.assembly.operations import RocketMQOperations
from staticfire.harness.rocketmq.draws import DRAWS
from staticfire.harness.rocketmq.facts import run_facts
from staticfire.harness.rocketmq.observers.ack_observer import AckObserver
from staticfire.harness.rocketmq.observers.route_changes import RouteChanges
from staticfire.harness.rocketmq.observers.server_memory import RocketMQMemory
from staticfire.harness.rocketmq.observers.stored_log import CommitLogs
from staticfire.harness.systems.server_memory import ServerMemory
from staticfire.harness.systems.system import Draw, Operations
from staticfire.harness.targets.own_simulated import OwnSimulated
from staticfire.harness.targets.target import SimulatedTarget, Target
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.harness.workloads.workload import Workload


class RocketMQ:
    """Implements `staticfire.harness.systems.system.System`."""

    name = "rocketmq"
    workloads: Mapping[str, Workload] = WORKLOADS
    targets: Mapping[str, Sequence[str]] = limits.PLACES
    options: Mapping[str, object] = MappingProxyType({})
    draws: Mapping[str, Draw] = DRAWS
    stored_logs: StoredLogs | None = CommitLogs()
    memory: ServerMemory | None = RocketMQMemory()

    @property
    def faults(self) -> Sequence[str]:
        return tuple(FAULTS)

    def check(self, campaign: Campaign) -> None:
        limits.check_rocketmq(campaign)

    def check_machines(self, campaign: Campaign, options: MachineOptions) -> None:
        target_choice.check_machines(campaign, options)

    def simulated(self, campaign: Campaign, addresses: Mapping[str, str]) -> SimulatedTarget:
        return OwnSimulated(campaign, addresses)

    def real(
        self,
        campaign: Campaign,
        provider: MachineProvider,
        machines: Mapping[str, Machine],
        options: MachineOptions,
    ) -> Target:
        return target_choice.make_target(campaign, provider, machines, options)

    def observe_simulated(self, environment: SimulationEnvironment) -> None:
        environment.recorder.on_stored_send = AckObserver(environment).acknowledged
        environment.on_server_start = RouteChanges(environment).server_started

    def operations(self, environment: Environment, refusing_s: int | None) -> Operations:
        return RocketMQOperations(environment, refusing_s)

    def facts(
        self, campaign: Campaign, faults: Sequence[FaultRecord], ops: Sequence[Op]
    ) -> RunFacts:
        return run_facts(campaign, faults, ops)


ROCKETMQ = RocketMQ()
