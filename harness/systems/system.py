"""The interface of a system under test: everything that the harness needs from one.

RocketMQ (`staticfire.harness.rocketmq`) is the first system. Simulation, faults, nemesis, recorder, generators,
columns, checkers and reports do not depend on which system a campaign names.
"""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Mapping, Sequence
from random import Random
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:  # `staticfire run --help` starts sooner without these imports
    from staticfire.checkers.guarantees.facts import RunFacts
    from staticfire.checkers.model.history import Op
    from staticfire.faults.model.capabilities import ClusterControl, ProcessControl
    from staticfire.harness.accounts import GuestRights
    from staticfire.harness.campaign.campaign import Campaign
    from staticfire.harness.environments.environment import Environment
    from staticfire.harness.environments.real.machine_provider import MachineProvider
    from staticfire.harness.environments.simulated.environment import SimulationEnvironment
    from staticfire.harness.machines.machine import Machine
    from staticfire.harness.machines.options import MachineOptions
    from staticfire.harness.recording.nemesis import FaultRecord
    from staticfire.harness.recording.stored_logs import StoredLogs
    from staticfire.harness.systems.server_memory import ServerMemory
    from staticfire.harness.targets.target import SimulatedTarget, Target
    from staticfire.harness.workloads.workload import Workload

# Draws the value of one option from that option's stream. It may read the options that were drawn before.
Draw = Callable[[Random, Mapping[str, object]], object]
# Options that every campaign needs, so a system must fix or draw them.
NEEDED_OPTIONS = ("coordinators", "followers", "flush", "replication", "log_file_bytes")
Phase = Callable[[str, Coroutine[object, object, None]], Coroutine[object, object, None]]


class Operations(Protocol):
    """The work of a system in one run, besides load and faults. It uses clients that no fault touches."""

    def cluster_control(self, processes: ProcessControl) -> ClusterControl | None:
        """Return the control through which faults use the system's administration; None if it has none."""
        ...

    @property
    def guest_rights(self) -> GuestRights | None:
        """Return the rights of a second account, which faults change; None if the load has only one account."""
        ...

    async def set_up(self) -> None:
        """Start the servers and the harness's own clients; return once every partition takes messages.

        Raises RunError if the cluster does not come up.
        """
        ...

    async def watch(self) -> None:
        """Observe the cluster until cancelled: from the end of the set-up to the end of the drain."""
        ...

    async def probe(self) -> None:
        """After the last heal: record for each part of the cluster whether it takes messages again (op `probe`)."""
        ...

    async def drain(self) -> None:
        """Wait, within a bound, until every group has consumed all messages.

        Records how far behind each group is (op `drain`).
        """
        ...

    async def inspect(self, phase: Phase) -> None:
        """Record observations of the cluster and its files after the drain. `phase` takes the progress of a step."""
        ...

    def facts(self, faults: Sequence[FaultRecord]) -> RunFacts:
        """Return the facts of this run for the checkers."""
        ...


class System(Protocol):
    """A message queue that campaigns can test.

    Attributes:
        name: as campaigns and `--system` give it.
        workloads: its workloads by name; the first one is the default.
        faults: the kinds of fault that can strike it.
        targets: its variants by name, the default first, each with the environments in which it runs.
        options: values of campaign options that the system fixes instead of drawing them; the user's values win.
        draws: draws the campaign options that are the system's own, by option, in this order.
        stored_logs: reads the logs in the files of its servers. With None, reports show no logs, and no fault strikes
            at an append or changes a stored message.
        memory: reads the memory of a simulated server for `staticfire look`, which otherwise shows files only.
    """

    @property
    def name(self) -> str: ...

    @property
    def workloads(self) -> Mapping[str, Workload]: ...

    @property
    def faults(self) -> Sequence[str]: ...

    @property
    def targets(self) -> Mapping[str, Sequence[str]]: ...

    @property
    def options(self) -> Mapping[str, object]: ...

    @property
    def draws(self) -> Mapping[str, Draw]: ...

    @property
    def stored_logs(self) -> StoredLogs | None: ...

    @property
    def memory(self) -> ServerMemory | None: ...

    def check(self, campaign: Campaign) -> None:
        """Raise CampaignError for the first option that the system does not allow."""
        ...

    def check_machines(self, campaign: Campaign, options: MachineOptions) -> None:
        """Check that the machines have what the system needs, before the harness makes anything on them.

        Raises:
            CampaignError: nodes cannot run with the options that the campaign gives them.
            MachineOptionError: an option about machines is missing or wrong.
            EnvironmentFailed: a machine cannot run the system, or cannot be checked.
        """
        ...

    def simulated(self, campaign: Campaign, addresses: Mapping[str, str]) -> SimulatedTarget:
        """Return the target whose servers and clients are coroutines; `addresses` are the IP addresses of all nodes."""
        ...

    def real(
        self,
        campaign: Campaign,
        provider: MachineProvider,
        machines: Mapping[str, Machine],
        options: MachineOptions,
    ) -> Target:
        """Return the target that starts servers and clients on machines that are up."""
        ...

    def observe_simulated(self, environment: SimulationEnvironment) -> None:
        """Attach the observers that only a simulation can have, such as one that reads every disk at once."""
        ...

    def operations(self, environment: Environment, refusing_s: int | None) -> Operations:
        """Return the operations of one run.

        Args:
            environment: where the nodes are.
            refusing_s: after the last fault, the harness waits at most this long, in seconds, for a part that refuses
                requests; None: every wait lasts until its bound.
        """
        ...

    def facts(
        self, campaign: Campaign, faults: Sequence[FaultRecord], ops: Sequence[Op]
    ) -> RunFacts:
        """Return the facts of a recorded run, from its campaign, faults and history."""
        ...
