"""The log server of `node.py` as a system of the harness, sound (`TOYLOG`) and with its bug (`FORGETFUL`)."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, cast

from staticfire.checkers.guarantees.facts import Flush, MinimumEvidence, Replication, RunFacts
from staticfire.checkers.model.history import Op
from staticfire.faults.model.capabilities import ClusterControl, ProcessControl
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.campaign.require import require
from staticfire.harness.clients.configuration import Configuration
from staticfire.harness.clients.consumer import ListenerControl
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.clients.port import ClientPort
from staticfire.harness.environments.environment import Environment
from staticfire.harness.environments.real.machine_provider import MachineProvider
from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.observers.probe import PROBE_PROCESS, Prober
from staticfire.harness.recording.nemesis import FaultRecord
from staticfire.harness.results.fault_facts import clock_uncertainty, exits_of, fault_facts
from staticfire.harness.simulation.scheduling.clock import EPOCH_MS
from staticfire.harness.systems.errors import RunError
from staticfire.harness.systems.system import Draw, Operations, Phase
from staticfire.harness.targets.target import Main, SimulatedTarget, Target
from staticfire.harness.workloads.queue import QUEUE
from staticfire.harness.workloads.workload import Workload
from tests.support.toylog import node

SET_UP_S = 30.0
PROBE_S = DRAIN_S = 60.0
POLL_S = 0.25
FOLDER = "/toylog"  # of the server in the simulation


class ToyTarget:
    """Implements `Target` and `SimulatedTarget`.

    Args:
        campaign: which nodes there are.
        addresses: the IP address of every node.
        forgetful: whether the server has its bug.
        machines: where the nodes are; none in the simulation.
        provider: has the interpreter and the code of real machines.
    """

    def __init__(
        self,
        campaign: Campaign,
        addresses: Mapping[str, str],
        *,
        forgetful: bool,
        machines: Mapping[str, Machine] = MappingProxyType({}),
        provider: MachineProvider | None = None,
    ) -> None:
        self._campaign = campaign
        self._shape = campaign.topology()
        self._addresses = addresses
        self._forgetful = forgetful
        self._machines = machines
        self._provider = provider

    def server_address(self, node_name: str) -> str:
        return f"{self._addresses[node_name]}:{node.PORT}"

    def server_main(self, node_name: str, bootstrap: Sequence[str]) -> Main:
        host = self._addresses[node_name]
        return lambda env: node.serve(env, host, FOLDER, forgetful=self._forgetful)

    def client_main(
        self,
        node_name: str,
        bootstrap: Sequence[str],
        port: ClientPort,
        listener: ListenerControl,
        process: int,
    ) -> Main:
        server, campaign = self.server_address(self._shape.servers[0]), self._campaign
        if node_name == ADMIN:
            return lambda _: node.administer(port)
        if node_name in self._shape.consumers:
            return lambda _: node.consume(server, campaign.topic, campaign.group, port, listener)
        return lambda _: node.produce(server, port)

    def server_launch_spec(self, node_name: str, bootstrap: Sequence[str]) -> LaunchSpec:
        bug = ("forgetful",) if self._forgetful else ()
        return self._program(
            "server", self._addresses[node_name], self.store_folder(node_name), *bug
        )

    def client_launch_spec(
        self, node_name: str, bootstrap: Sequence[str]
    ) -> tuple[LaunchSpec, Configuration]:
        role = "consumer" if node_name in self._shape.consumers else "producer"
        first_line = {
            "node": node_name,
            "group": self._campaign.group,
            "topic": self._campaign.topic,
            "client_id": node_name,
            "name_servers": [self.server_address(self._shape.servers[0])],
        }
        return self._program("admin" if node_name == ADMIN else role), first_line

    def _program(self, *arguments: str) -> LaunchSpec:
        assert self._provider is not None, "real machines have a provider"
        code = ":".join(self._provider.code)
        return LaunchSpec(
            argv=(self._provider.python, "-P", node.__file__, *arguments),
            variables={"PYTHONPATH": code, "PYTHONDONTWRITEBYTECODE": "1"},
        )

    def store_folder(self, node_name: str) -> str:
        return f"{self._machines[node_name].folder}/store"

    def change_specification(self, node_name: str) -> None:
        raise AssertionError("no fault of this system asks for it")

    def speaks_tls(self, node_name: str) -> bool:
        return False


class ToyOperations:
    """Implements `staticfire.harness.systems.system.Operations`."""

    def __init__(self, system: ToyLog, environment: Environment, refusing_s: int | None) -> None:
        self._system = system
        self._environment = environment
        self._prober = Prober(environment, refusing_s)
        [self._server] = environment.topology.servers
        self.guest_rights = None

    def cluster_control(self, processes: ProcessControl) -> ClusterControl | None:
        return None

    async def set_up(self) -> None:
        for name in (self._server, ADMIN, PROBE):
            await self._environment.start(name)
        outcome = await self._prober.send_until_served("broker-a", "warm-up", SET_UP_S)
        if outcome.type != "ok":
            raise RunError(f"{self._server} did not serve in {SET_UP_S:g} s: {outcome.error}")

    async def watch(self) -> None:
        return None

    async def probe(self) -> None:
        await self._prober.probe_all(PROBE_S)

    async def drain(self) -> None:
        environment, campaign = self._environment, self._environment.campaign
        until_ns = environment.now_ns() + int(DRAIN_S * 1e9)
        address = environment.server_address(self._server)
        request = {"f": "state", "group": campaign.group, "address": address}
        while True:
            outcome = await environment.request(ADMIN, request)
            end, committed = (outcome.value.get(name, -1) for name in ("end", "committed"))
            is_drained = outcome.type == "ok" and committed >= end
            if is_drained or environment.now_ns() > until_ns:
                break
            await asyncio.sleep(POLL_S)
        rows = [[*node.PARTITION.values(), 0, end, committed]] if outcome.type == "ok" else []
        value = {
            "group": campaign.group,
            "topic": campaign.topic,
            "queues": rows,
            "lag": max(end - committed, 0),
        }
        error = None if is_drained else f"not drained after {DRAIN_S:g} s: {outcome.error}"
        environment.recorder.record(
            PROBE_PROCESS, "ok" if is_drained else "info", "drain", value, error
        )

    async def inspect(self, phase: Phase) -> None:
        return None

    def facts(self, faults: Sequence[FaultRecord]) -> RunFacts:
        return self._system.facts(
            self._environment.campaign, faults, self._environment.recorder.ops
        )


class ToyLog:
    """Implements `staticfire.harness.systems.system.System`."""

    name = "toylog"
    workloads: Mapping[str, Workload] = MappingProxyType({"queue": QUEUE})
    faults: Sequence[str] = ("kill", "graceful-stop", "power-cut", "client-crash")
    stored_logs = memory = None
    targets: Mapping[str, Sequence[str]] = MappingProxyType({"own": ("simulation", "processes")})
    options: Mapping[str, Any] = MappingProxyType(
        {
            "coordinators": 0,
            "followers": (0,),
            "flush": "sync",
            "replication": "none",
            "queues": 1,
            "consumers": 1,
            "batch_share": 0.0,
            "one_way_share": 0.0,
            "async_share": 0.0,
            "large_share": 0.0,
            "illegal_share": 0.0,
            "idle": (0.0, 0.0),
            "acl": False,
            "tls": "disabled",
            "strategy": "AVG",
            "consumer_kind": "push",
            "broker_properties": (),
            "log_file_bytes": 65536,
            "client": "own",
        }
    )
    draws: Mapping[str, Draw] = MappingProxyType({})

    def __init__(self, *, forgetful: bool = False) -> None:
        self._forgetful = forgetful

    def check(self, campaign: Campaign) -> None:
        for name, value in self.options.items():
            found = getattr(campaign, name)
            require(found == value, name, found, f"{value!r} with the system {self.name}")

    def check_machines(self, campaign: Campaign, options: MachineOptions) -> None:
        return None

    def simulated(self, campaign: Campaign, addresses: Mapping[str, str]) -> SimulatedTarget:
        return ToyTarget(campaign, addresses, forgetful=self._forgetful)

    def real(
        self,
        campaign: Campaign,
        provider: MachineProvider,
        machines: Mapping[str, Machine],
        options: MachineOptions,
    ) -> Target:
        return ToyTarget(
            campaign,
            {name: machine.address for name, machine in machines.items()},
            forgetful=self._forgetful,
            machines=machines,
            provider=provider,
        )

    def observe_simulated(self, environment: SimulationEnvironment) -> None:
        return None

    def operations(self, environment: Environment, refusing_s: int | None) -> Operations:
        return ToyOperations(self, environment, refusing_s)

    def facts(
        self, campaign: Campaign, faults: Sequence[FaultRecord], ops: Sequence[Op]
    ) -> RunFacts:
        topology = campaign.topology()
        is_simulated = campaign.environment == "simulation"
        return RunFacts(
            flush=cast(Flush, campaign.flush),
            replication=cast(Replication, campaign.replication),
            groups={campaign.group: (campaign.topic,)},
            topics=(campaign.topic,),
            replica_sets=dict.fromkeys(topology.replica_sets, (topology.servers[0],)),
            producers=topology.producers,
            consumers=topology.consumers,
            faults=tuple(fault_facts(record) for record in faults),
            exits=tuple(exits_of(ops)),
            due=("open", "assign", "commit"),
            clock_uncertainty_ns=clock_uncertainty(ops),
            wall_epoch_ms=EPOCH_MS if is_simulated else None,
            floors=MinimumEvidence(acked_min=campaign.acks_min),
            disks_observed=False,
            files_observed=False,
        )


TOYLOG = ToyLog()
FORGETFUL = ToyLog(forgetful=True)
