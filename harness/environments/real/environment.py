"""Nodes as real processes on real machines: starts, watches and restarts them, and reads their logs and files.

The machine provider decides which machines these are: processes of this host, network namespaces, containers or hosts.
"""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
import signal
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import asdict
from functools import partial
from random import Random

from staticfire.checkers.model.history import NEMESIS, OpType, Stamp
from staticfire.faults.plans.catalogue import fault_named
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.client_clock import ClientClock
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.clients.port import Outcome, Request
from staticfire.harness.clients.process_port import ClientBroken, ProcessPort
from staticfire.harness.environments.environment import (
    ANSWER_S,
    FIRST_CONSUMER_PROCESS,
    RESTART_DELAY_S,
)
from staticfire.harness.environments.real.boots import Boots
from staticfire.harness.environments.real.bounded_log import BoundedLog
from staticfire.harness.environments.real.machine_provider import MachineProvider
from staticfire.harness.environments.real.node_log import last_error, read_log
from staticfire.harness.environments.resources import Resources, cpu_s_of_process, of_process
from staticfire.harness.log_line import LogLine
from staticfire.harness.machines import cpp_library
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.local import LocalProcess
from staticfire.harness.machines.machine import Machine, RunningProcess
from staticfire.harness.recording.recorder import Recorder
from staticfire.harness.results.run_result import NodeRecord
from staticfire.harness.stall_meter import StallMeter
from staticfire.harness.targets.target import Target

DEATHS_MAX = 3  # unplanned exits of a server, after which the harness no longer waits for it
STOP_TIMEOUT_S = 30.0  # for a node to end after SIGTERM; a broker flushes its data first
CLOSED_TIMEOUT_S = 1.0  # for a client to end after it has closed its output
READY_POLL_S = 0.02
OPEN_S = 30.0  # for all clients to open before the load; on two cores, several Java virtual machines need seconds
READY_S = 300.0  # for a client to run again; longer than any fault keeps it down


class NodeWouldNotStop(Exception):
    """A node did not end within `STOP_TIMEOUT_S` of SIGTERM."""


def needs_of(campaign: Campaign) -> frozenset[str]:
    """Return the needs of the plan's faults and of the clients."""
    needs = {need for planned in campaign.plan for need in fault_named(planned.kind).needs}
    return frozenset(needs | ({cpp_library.NEED} if campaign.client == "cpp" else set()))


class RealNode:
    """One node: its machine, and its process while one runs."""

    def __init__(self, machine: Machine, bootstrap: tuple[str, ...]) -> None:
        self.machine = machine
        self.name = machine.node
        self.bootstrap = bootstrap
        self.process: RunningProcess | None = None
        self.port: ProcessPort | None = None  # of clients only
        self.watcher: asyncio.Task[None] | None = None
        self.files: Mapping[str, bytes] = {}  # as the harness read them last
        self.listener: dict[str, float] = {}  # the strengths of the faults of a consumer's listener
        self.paused = False
        self.wanted = False  # whether it should run; the harness restarts it if it ends by itself
        self.powered = True
        self.lost = False  # whether its disk is lost for good
        self.deaths = 0  # unplanned exits since the harness last started it
        self.has_opened = False  # a client has opened, or reported why it cannot
        self.starting = asyncio.Lock()

    @property
    def running(self) -> RunningProcess | None:
        """Return its process while one runs."""
        return self.process if self.process is not None and self.process.is_alive else None


class RealEnvironment:
    """Use it with `async with`, which makes the machines and finally removes every trace of them."""

    def __init__(
        self,
        campaign: Campaign,
        recorder: Recorder,
        provider: MachineProvider,
        make_target: Callable[[Mapping[str, Machine]], Target],
    ) -> None:
        self.campaign = campaign
        self.recorder = recorder
        self.topology = campaign.topology()
        self.nodes: dict[str, RealNode] = {}
        self.on_start: Callable[[str, int], Awaitable[None]] | None = None  # node and pid
        self.foreign_states: Callable[[], Mapping[str, str]] = (
            dict  # of servers of an external cluster
        )
        self._provider = provider
        self._make_target = make_target
        self._start_wall_ms = time.time_ns() // 1_000_000
        self._start_ns = time.monotonic_ns()
        self._stalls = StallMeter(self.now_ns)
        self._boots = Boots(self.now_ns)
        self._consumer_processes = FIRST_CONSUMER_PROCESS
        self._restarts: list[asyncio.Future[None]] = []
        self._ending = False

    async def __aenter__(self) -> RealEnvironment:
        names = (*self.topology.servers, *self.topology.clients, ADMIN, PROBE)
        self._stalls.start()
        try:
            machines = await self._provider.up(
                names, servers=self.topology.servers, needs=needs_of(self.campaign)
            )
        except BaseException:
            self._stalls.stop()
            await self._provider.down()
            raise
        self._target = self._make_target(machines)
        self.nodes = {
            name: RealNode(machine, self.topology.coordinators)
            for name, machine in machines.items()
        }
        return self

    async def __aexit__(self, *_: object) -> None:
        self._ending = True
        self._boots.stop()
        try:
            await asyncio.gather(*(self._end(node) for node in self.nodes.values()))
        finally:
            self._stalls.stop()
            await self._provider.down()

    async def _end(self, node: RealNode) -> None:
        node.wanted = False
        # waits for a start that is under way after another one has failed
        async with node.starting:
            if node.running is not None:
                await node.running.signal(signal.SIGKILL)
        if node.watcher is not None:
            await node.watcher

    def now_ns(self) -> int:
        return time.monotonic_ns() - self._start_ns

    def stream(self, purpose: str) -> Random:
        return Random(f"staticfire/{self.campaign.seed}/{purpose}")

    def server_address(self, node: str) -> str:
        return self._target.server_address(node)

    def is_lost(self, node: str) -> bool:
        return self.nodes[node].lost

    def is_dead(self, node: str) -> bool:
        return self.nodes[node].deaths >= DEATHS_MAX

    def booting_ns(self) -> int:
        return self._boots.waited_ns()

    def is_external(self, node: str) -> bool:
        return self.campaign.is_external and node in self.topology.servers

    def change_specification(self, node: str) -> None:
        self._target.change_specification(node)

    def set_bootstrap(self, node: str, bootstrap: Sequence[str]) -> None:
        self.nodes[node].bootstrap = tuple(bootstrap) or self.topology.coordinators

    # --- processes ----------------------------------------------------------------------------------

    async def start(self, node: str) -> None:
        """Start the node unless it runs, has no power, is lost or is external."""
        if self.is_external(node):
            return
        real = self.nodes[node]
        before, real.deaths = real.process, 0
        await self._start(real)
        process = real.process
        if process is not None and process is not before and self._takes_time(node):
            self._boots.begin(lambda: process.is_alive, partial(self._answers, node))

    def _takes_time(self, node: str) -> bool:
        """Whether the node is a server of another product, and a client is there to check it."""
        is_other = self.campaign.target != "own" and node in self.topology.servers
        return is_other and self.nodes[ADMIN].port is not None

    async def _answers(self, node: str) -> bool:
        request = {"f": "ping", "address": self.server_address(node)}
        return (await self.request(ADMIN, request)).type == "ok"

    async def _start(self, node: RealNode) -> None:
        node.wanted = True
        async with node.starting:
            if node.running is not None or node.lost or not node.powered or self._ending:
                return
            if node.watcher is not None:
                await node.watcher
            node.paused = False
            if node.name in self.topology.servers:
                launch_spec = self._target.server_launch_spec(node.name, node.bootstrap)
                node.process = await node.machine.launch(launch_spec)
            else:
                await self._start_client(node)
            assert node.process is not None
            node.watcher = asyncio.create_task(self._watch(node, node.process))
            if self.on_start is not None:
                await self.on_start(node.name, node.process.pid)

    async def _start_client(self, node: RealNode) -> None:
        launch_spec, configuration = self._target.client_launch_spec(node.name, node.bootstrap)
        process = node.process = await node.machine.launch(launch_spec)
        number = self._consumer_processes
        self._consumer_processes += 1
        emit = partial(self._emit, node, number)
        configuration_of_node = {**configuration, **node.listener}
        if "forward_to" in configuration_of_node:
            configuration_of_node["process"] = number
        clock = ClientClock(
            self.now_ns, self._stalls.late_ns, partial(self._record_future_stamp, node.name)
        )
        # The administrator runs our client, which looks up any number of messages in one request.
        answer_s = None if node.name == ADMIN else ANSWER_S
        node.port = ProcessPort(
            node.name, emit, process.output, process.write, configuration_of_node, clock, answer_s
        )

    def _record_future_stamp(self, node: str, ahead_ns: int) -> None:
        self.recorder.observe("future_stamp", node=node, ahead_ms=ahead_ns // 1_000_000)

    def _emit(
        self,
        node: RealNode,
        process: int,
        type: OpType,
        f: str,
        value: dict[str, object],
        error: str | None,
        stamp: Stamp | None,
    ) -> None:
        node.has_opened = node.has_opened or f == "open"
        self.recorder.record(process, type, f, value, error, node.name, stamp)

    async def _watch(self, node: RealNode, process: RunningProcess) -> None:
        """Wait until the process ends, and record its last error. Start it again if it ended by itself."""
        broken = await self._listen(node, process)
        how = await process.wait()
        if not node.wanted or self._ending:
            return
        said = last_error(node.machine.log)
        error = broken or (f"{how}: {said}" if said else how)
        value = {"targets": [node.name], "phase": "exited"}
        self.recorder.record(NEMESIS, "info", "node_exit", value, error, node.name)
        node.deaths += 1
        asyncio.get_running_loop().call_later(RESTART_DELAY_S, self._start_again, node)

    async def _listen(self, node: RealNode, process: RunningProcess) -> str:
        """Read the client's lines until its output ends. Return why it was killed, if it broke the client protocol."""
        if node.port is None:
            while await process.output.read(65536):  # `ready host:port`
                pass
            return ""
        log = BoundedLog(node.machine.log)
        guard = asyncio.create_task(log.guard(node.port.give_up))
        try:
            await node.port.run()
        except ClientBroken as error:
            await process.signal(signal.SIGKILL)
            await process.wait()
            log.cut()
            return str(error)
        finally:
            guard.cancel()
        return await self._end_of_silent(node, process)

    async def _end_of_silent(self, node: RealNode, process: RunningProcess) -> str:
        """Kill a client that has closed its output but continues, since the history cannot record its further ops."""
        end = asyncio.create_task(process.wait())
        try:
            await asyncio.wait({end}, timeout=CLOSED_TIMEOUT_S)
            is_silent = not end.done() and node.wanted and not self._ending
            if is_silent:
                await process.signal(signal.SIGKILL)
            await end
        finally:
            end.cancel()
        return f"{node.name} closed its standard output and did not end" if is_silent else ""

    def _start_again(self, node: RealNode) -> None:
        if node.wanted and not self._ending:
            self._restarts.append(asyncio.ensure_future(self._start(node)))

    async def check(self) -> None:
        """Check for failures of the harness before the run is judged, so that they are not blamed on the system.

        Raises EnvironmentFailed if a node that had ended could not be started again, or could not be watched.
        """
        watchers = [node.watcher for node in self.nodes.values() if node.watcher is not None]
        for task in (*self._restarts, *watchers):
            error = task.exception() if task.done() and not task.cancelled() else None
            if error is not None:
                raise EnvironmentFailed(f"a node could not be kept running: {error!r}") from error

    async def kill(self, name: str, number: int = signal.SIGKILL) -> bool:
        """End a node with a signal and wait for its end; it stays down. Returns whether there was a process.

        Raises NodeWouldNotStop.
        """
        node = self.nodes[name]
        node.wanted = False
        async with node.starting:
            process = node.running
            if process is None:
                return False
            await process.signal(number)
            assert node.watcher is not None
            done, _ = await asyncio.wait([node.watcher], timeout=STOP_TIMEOUT_S)
        if not done:
            raise NodeWouldNotStop(f"{name} did not end within {STOP_TIMEOUT_S:g} s")
        return True

    async def pause(self, name: str) -> bool:
        """Send SIGSTOP; return whether there was a process."""
        node = self.nodes[name]
        node.paused = node.running is not None and await node.running.signal(signal.SIGSTOP)
        return node.paused

    async def resume(self, name: str) -> None:
        """Send SIGCONT if the node is paused."""
        node = self.nodes[name]
        if node.paused and node.running is not None:
            await node.running.signal(signal.SIGCONT)
        node.paused = False

    def states(self) -> dict[str, str]:
        """Return the state of each node: up, paused, down, no power or lost; an external one may be silent."""
        own = {
            name: self._state(self.nodes[name])
            for name in (*self.topology.servers, *self.topology.clients)
            if not self.is_external(name)
        }
        return {**self.foreign_states(), **own}

    def _state(self, node: RealNode) -> str:
        if node.lost:
            return "lost"
        if not node.powered:
            return "no power"
        if node.running is None:
            return "down"
        return "paused" if node.paused else "up"

    # --- clients ------------------------------------------------------------------------------------

    async def ready(self, node: str) -> None:
        """Wait for the client's process. Raises EnvironmentFailed if it does not run again within READY_S."""
        try:
            async with asyncio.timeout(READY_S):
                while self.nodes[node].running is None:
                    await asyncio.sleep(READY_POLL_S)
        except TimeoutError:
            raise EnvironmentFailed(f"{node} does not run again after {READY_S:g} s") from None

    async def clients_open(self) -> None:
        """Wait for each client until it has opened or keeps ending, at most `OPEN_S`."""
        nodes = [self.nodes[name] for name in self.topology.clients]
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(OPEN_S):
                while not all(node.has_opened or self.is_dead(node.name) for node in nodes):
                    await asyncio.sleep(READY_POLL_S)

    async def request(self, node: str, request: Request) -> Outcome:
        port = self.nodes[node].port
        assert port is not None
        return await port.request(request)

    def end_silent_clients(self) -> None:
        """Do nothing: each request has a time limit (`ProcessPort`)."""

    async def end_client(self, node: str) -> None:
        """Kill the process of a client, if it runs; it stays down."""
        await self.kill(node)

    # --- for checkers -------------------------------------------------------------------------------

    def log_lines(self, node: str) -> list[LogLine]:
        return read_log(self.nodes[node].machine.log, self._start_wall_ms)

    async def store_files(self, node: str) -> Mapping[str, bytes]:
        real = self.nodes[node]
        real.files = await real.machine.read_files(self._target.store_folder(node))
        return real.files

    async def resources(self, node: str) -> Resources | None:
        """Return what the process of a server holds; None if it does not run, is not on this machine, or is not ours.

        Checkers have no bounds for the memory and the files of another product's process.
        """
        if self.campaign.target != "own":
            return None
        process = self.nodes[node].running
        return of_process(process.pid) if isinstance(process, LocalProcess) else None

    async def cpu_s(self, node: str) -> float | None:
        """Return how long processors have worked for a server's process; None if it is not on this machine."""
        process = self.nodes[node].running
        return cpu_s_of_process(process.pid) if isinstance(process, LocalProcess) else None

    def node_record(self, name: str, *, keeps_store: bool) -> NodeRecord:
        """Return what the run keeps of a server. Its files are as the harness read them last."""
        node = self.nodes[name]
        log = [asdict(line) for line in self.log_lines(name)]
        store = dict(node.files) if keeps_store and not node.lost else {}
        folder = node.machine.folder
        return NodeRecord(
            name=name, log=log, store={path.removeprefix(folder): store[path] for path in store}
        )

    def digest(self) -> str:
        """Return the digest of the history alone; runs on real machines do not repeat."""
        lines = (repr(op) for op in self.recorder.ops)
        return hashlib.sha256("\n".join(lines).encode()).hexdigest()
