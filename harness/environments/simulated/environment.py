"""All nodes in one process, on virtual time, simulated TCP and simulated disks.

The nodes run the same code as on real machines, on another event loop and another `Env`.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from random import Random

from staticfire.checkers.model.history import NEMESIS, OpType
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.consumer import ListenerControl
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.clients.port import ClientPort, Outcome, Request
from staticfire.harness.environments.environment import (
    ANSWER_S,
    FIRST_CONSUMER_PROCESS,
    RESTART_DELAY_S,
)
from staticfire.harness.environments.resources import Resources, surplus
from staticfire.harness.log_line import LogLine
from staticfire.harness.recording.anchors import DiskWatcher
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.results.run_result import NodeRecord
from staticfire.harness.simulation.disk.disk import DiskOptions
from staticfire.harness.simulation.hosts.host import Host
from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.simulation.network.tls import SimTls
from staticfire.harness.targets.target import Main, SimulatedTarget
from staticfire.system_under_test.runtime.env import TlsMode

DISK_BYTES = 256 << 20


class SimulatedNode:
    """One node: its host, and the coroutine that runs there."""

    def __init__(self, name: str, host: Host) -> None:
        self.name = name
        self.host = host
        self.bootstrap: tuple[str, ...] = ()
        self.process: SimProcess | None = None
        self.incarnations: list[SimProcess] = []
        self.port: ClientPort | None = None  # of clients only
        self.listener = ListenerControl()
        self.lost = False  # whether its disk is lost for good
        # whether it should run; the environment restarts it if it ends by itself
        self.wanted = False

    @property
    def running(self) -> SimProcess | None:
        """Return its process while one runs."""
        return self.process if self.process is not None and self.process.alive else None

    @property
    def is_alive(self) -> bool:
        return self.running is not None


class SimulationEnvironment:
    """Builds the world of a campaign and runs its nodes.

    Args:
        campaign: decides the nodes, and the behaviour of disks and network.
        world: the world in which the nodes are made.
        recorder: takes ops that clients emit by themselves, and exits of nodes.
        target_at: makes the target, given the IP address of every node.
    """

    def __init__(
        self,
        campaign: Campaign,
        world: World,
        recorder: Recorder,
        target_at: Callable[[Mapping[str, str]], SimulatedTarget],
    ) -> None:
        self.campaign = campaign
        self.world = world
        self.recorder = recorder
        self.topology = campaign.topology()
        self._consumer_processes = FIRST_CONSUMER_PROCESS
        low_ms, high_ms = campaign.latency_ms
        world.network.latency_ns = (int(low_ms * 1e6), int(high_ms * 1e6))
        addresses = _addresses((*self.topology.servers, *self.topology.clients, ADMIN, PROBE))
        disk = DiskOptions(total_bytes=DISK_BYTES, fsync_ns=campaign.fsync_us * 1000)
        self.nodes = {
            name: SimulatedNode(name, world.add_host(name, address, disk=disk))
            for name, address in addresses.items()
        }
        self.target = target_at(addresses)
        # Called with each process of a server, before its first turn.
        self.on_server_start: Callable[[str, SimProcess], None] | None = None
        for node in self.nodes.values():
            node.bootstrap = self.topology.coordinators

    def now_ns(self) -> int:
        return self.world.now_ns

    def stream(self, purpose: str) -> Random:
        return self.world.stream(purpose)

    def server_address(self, node: str) -> str:
        return self.target.server_address(node)

    def is_lost(self, node: str) -> bool:
        return self.nodes[node].lost

    def is_dead(self, node: str) -> bool:
        """Return False: virtual time is cheap, so the harness always waits for a node."""
        return False

    def booting_ns(self) -> int:
        return 0

    def is_external(self, node: str) -> bool:
        return False

    # --- nodes --------------------------------------------------------------------------------------

    def change_specification(self, node: str) -> None:
        self.target.change_specification(node)

    def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> None:
        self.nodes[node].bootstrap = tuple(bootstrap) or self.topology.coordinators

    def states(self) -> dict[str, str]:
        names = (*self.topology.servers, *self.topology.clients)
        return {name: "up" if self.nodes[name].is_alive else "down" for name in names}

    async def start(self, node: str) -> None:
        """Start the node unless it runs, has no power or is lost."""
        self.start_now(node)

    def start_now(self, name: str) -> None:
        """Start the node in the same way, for callers that cannot await."""
        node = self.nodes[name]
        node.wanted = True
        if node.is_alive or node.lost or not node.host.powered:
            return
        process = node.process = node.host.start(name, self._with_tls(name, self._main(node)))
        node.incarnations.append(process)
        if self.on_server_start is not None and name in self.topology.servers:
            self.on_server_start(name, process)
        port = node.port  # this process's port; the node may have a new one when the process ends
        process.exit.add_done_callback(lambda _: self._ended(node, process, port))

    def _main(self, node: SimulatedNode) -> Main:
        if node.name in self.topology.servers:
            return self.target.server_main(node.name, node.bootstrap)
        return self._client_main(node)

    def _with_tls(self, name: str, main: Main) -> Main:
        mode = TlsMode(self.campaign.tls)
        if mode is TlsMode.DISABLED and not self.campaign.replica_tls:
            return main
        tls = SimTls(
            mode,
            self.world.scheduler.charge,
            speaks=self.target.speaks_tls(name),
            replicates=self.campaign.replica_tls,
        )
        return lambda env: main(replace(env, tls=tls))

    def _client_main(self, node: SimulatedNode) -> Main:
        number = self._consumer_processes
        self._consumer_processes += 1
        port = node.port = ClientPort(self._emitter(node, number))
        return self.target.client_main(node.name, node.bootstrap, port, node.listener, number)

    def _emitter(self, node: SimulatedNode, process: int) -> Callable[..., None]:
        def emit(type: OpType, f: str, value: dict[str, object], error: str | None) -> None:
            self.recorder.record(process, type, f, value, error, node.name)

        return emit

    def _ended(self, node: SimulatedNode, process: SimProcess, port: ClientPort | None) -> None:
        if port is not None:
            port.abandon(f"{node.name} ended")
        status = process.exit.result()
        if status.kind != "raised":
            return
        self._ended_by_itself(node, f"{type(status.error).__name__}: {status.error}")

    def _ended_by_itself(self, node: SimulatedNode, error: str) -> None:
        value = {"targets": [node.name], "phase": "exited"}
        self.recorder.record(NEMESIS, "info", "node_exit", value, error, node.name)
        asyncio.get_running_loop().call_later(RESTART_DELAY_S, self._start_again, node)

    def _start_again(self, node: SimulatedNode) -> None:
        if node.wanted:
            self.start_now(node.name)

    # --- clients ------------------------------------------------------------------------------------

    async def ready(self, node: str) -> None:
        while not self.nodes[node].is_alive:
            await asyncio.sleep(0.05)

    async def clients_open(self) -> None:
        """Do nothing: clients need no time to start here."""

    async def request(self, node: str, request: Request) -> Outcome:
        port = self.nodes[node].port
        assert port is not None
        return await port.request(request)

    def end_silent_clients(self) -> None:
        now_s = asyncio.get_running_loop().time()
        for node in self.nodes.values():
            since_s = None if node.port is None else node.port.unanswered_since_s()
            if since_s is None or node.name == ADMIN or now_s - since_s <= ANSWER_S:
                continue
            if (process := node.running) is not None:
                process.kill()
                self._ended_by_itself(
                    node, f"killed: it had not answered a request for {ANSWER_S:g} s"
                )

    async def end_client(self, node: str) -> None:
        """Kill the process of a client, if it runs; it stays down."""
        self.nodes[node].wanted = False
        process = self.nodes[node].running
        if process is not None:
            process.kill()

    # --- for checkers -------------------------------------------------------------------------------

    def log_lines(self, node: str) -> Iterator[LogLine]:
        for process in self.nodes[node].incarnations:
            yield from process.log.lines

    async def store_files(self, node: str) -> Mapping[str, bytes]:
        return self.nodes[node].host.disk.snapshot()

    def watch_disk(self, node: str, watcher: DiskWatcher) -> Callable[[], None]:
        """Call the watcher inside disk calls of the node; return a callback that ends that."""
        watchers = self.nodes[node].host.disk.watchers
        watchers.append(watcher)
        return lambda: watchers.remove(watcher)

    async def cpu_s(self, node: str) -> float:
        """Return how long a processor has worked for the processes of a node."""
        return sum(process.queue.busy_ns for process in self.nodes[node].incarnations) / 1e9

    async def resources(self, node: str) -> Resources | None:
        """Return the resources of a server's process; None if it does not run."""
        process, host = self.nodes[node].running, self.nodes[node].host
        if process is None:
            return None
        return Resources(
            life=process.incarnation,
            tasks=sum(not task.done() for task in process.queue.tasks),
            threads=None,
            sockets=len(host.kernel.sockets),
            surplus_files=surplus(host.disk.open_paths()),
            memory_bytes=None,
        )

    def incidents(
        self, nodes: Sequence[str], begin_ns: int, end_ns: int | None
    ) -> list[dict[str, object]]:
        """Return effects of faults on the disks of these nodes within a time; of repeated effects only the first."""
        found: list[dict[str, object]] = []
        for node in nodes:
            seen: set[str] = set()
            for one in self.nodes[node].host.disk.incidents if node in self.nodes else ():
                is_late = end_ns is not None and one.at_ns > end_ns
                if one.at_ns < begin_ns or is_late or one.what in seen:
                    continue
                seen.add(one.what)
                dropped = [one._asdict() for one in one.dropped]
                found.append(
                    {"node": node, "at_ns": one.at_ns, "what": one.what, "dropped": dropped}
                )
        return sorted(found, key=lambda one: (one["at_ns"], one["node"]))

    def digest(self) -> str:
        return self.world.trace.digest()

    def node_record(self, name: str, *, keeps_store: bool) -> NodeRecord:
        """Return the data of a server that the run keeps."""
        log = [asdict(line) for line in self.log_lines(name)]
        store = (
            self.nodes[name].host.disk.snapshot() if keeps_store and not self.is_lost(name) else {}
        )
        return NodeRecord(name=name, log=log, store=store)


def _addresses(names: tuple[str, ...]) -> dict[str, str]:
    return {name: f"10.0.{number // 200}.{number % 200 + 1}" for number, name in enumerate(names)}
