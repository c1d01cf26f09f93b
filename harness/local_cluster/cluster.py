"""`LocalCluster`: a cluster with its own event loop in a thread, for code of any kind."""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from pathlib import Path
from typing import Self, TypeVar

from staticfire.harness.local_cluster.errors import ClusterError, PortInUse
from staticfire.harness.local_cluster.layout import Node, fixed_ports, make_nodes, node_names
from staticfire.harness.local_cluster.options import ClusterOptions
from staticfire.harness.local_cluster.ports import first_busy, free_ports
from staticfire.harness.local_cluster.store_folder import StoreFolder
from staticfire.harness.local_cluster.supervisor import Supervisor
from staticfire.system_under_test.runtime.env import TlsMode

PORT_ATTEMPTS_MAX = 10
STOP_TIMEOUT_S = 30.0

T = TypeVar("T")


class LocalCluster:
    """A RocketMQ cluster on 127.0.0.1, ready when the `with` block begins and removed when it ends.

        with LocalCluster(masters=2, slaves=1) as cluster:
            producer = Producer(name_servers=cluster.name_server_address)

    `async with` works as well. Ports are free ones unless `port` is given, so any number of clusters can run at the
    same time. All methods may be called from any thread.

    Args:
        name_servers, masters: number of each, 1 to 9.
        slaves: number of slaves of each master: one number for all, or one for each.
        flush: "sync" or "async": whether a send waits for the disk.
        replication: "sync" or "async": whether a send waits for a slave.
        tls: "disabled"; "permissive": nodes accept clients with and without TLS, with a certificate for tests;
            "enforcing": nodes accept only TLS.
        store: folder of the data; None: a temporary folder, removed at the end.
        port: port of the first name server; brokers listen from 1035 above it. 0: free ports, or the former ports if
            the store was used before.
        faithful: behave as Apache RocketMQ 4.9.8 does, including known safety bugs.
        processes: run each node in a process of its own, so that `kill` works; the start takes longer.
        broker_properties: options of all brokers, by their names in RocketMQ's `.properties` files.
        on_end: called with one sentence when a node ends by itself.

    Raises:
        ClusterOptionError: an option is not valid; one sentence.
    """

    def __init__(
        self,
        *,
        name_servers: int = 1,
        masters: int = 1,
        slaves: int | Sequence[int] = 0,
        flush: str = "async",
        replication: str = "async",
        tls: str = "permissive",
        store: str | Path | None = None,
        port: int = 0,
        faithful: bool = False,
        processes: bool = False,
        broker_properties: Mapping[str, str] | None = None,
        on_end: Callable[[str], None] | None = None,
    ) -> None:
        self.options = ClusterOptions(
            name_servers=name_servers,
            masters=masters,
            slaves=(slaves,) if isinstance(slaves, int) else tuple(slaves),
            flush=flush,
            replication=replication,
            tls=tls,
            store=None if store is None else Path(store),
            port=port,
            faithful=faithful,
            processes=processes,
            broker_properties=tuple((broker_properties or {}).items()),
        )
        self._check_properties()
        self._on_end = on_end
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._folder: StoreFolder | None = None
        self._supervisor: Supervisor | None = None
        self._starting: asyncio.Task[object] | None = None

    def _check_properties(self) -> None:
        ports = dict.fromkeys(node_names(self.options), 1)
        make_nodes(self.options, ports, Path("/"), is_new=True)

    # Start and end

    def start(self) -> None:
        """Start all nodes and return when producers and consumers can use them.

        Raises:
            ClusterOptionError: the store cannot be used as asked.
            ClusterError: a port is in use, or a node failed.
        """
        if self._thread is not None:
            raise ClusterError("the cluster runs already")
        self._folder = StoreFolder(self.options.store)
        atexit.register(self._remove_forgotten)
        try:
            self._folder.open()
            self._folder.check_nodes(node_names(self.options))
            self._start_thread()
            self._run(self._start(self._folder))
        except BaseException:
            self.stop()
            raise

    def stop(self) -> None:
        """Stop all nodes gracefully, and remove temporary data. May be called again."""
        self._stop_thread()
        atexit.unregister(self._remove_forgotten)
        if self._folder is not None:
            self._folder.close()
            self._folder = None

    def _remove_forgotten(self) -> None:
        """Remove temporary data at the end of a program that did not stop its cluster.

        Other threads no longer run then, so nodes of this process cannot be stopped gracefully. Nodes in processes stop
        by themselves once this process is gone, which would write the data once more.
        """
        if self._folder is None or not self._folder.is_temporary:
            return
        for node in self.nodes if self._supervisor is not None else ():
            pid = self.pid(node.name)
            if pid is not None and pid != os.getpid():
                os.kill(pid, signal.SIGKILL)
        self._folder.close()

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    async def __aenter__(self) -> Self:
        await asyncio.to_thread(self.start)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    # Properties

    @property
    def nodes(self) -> tuple[Node, ...]:
        """The names of name servers, then masters, then slaves."""
        return tuple(self._running().nodes.values())

    @property
    def brokers(self) -> tuple[Node, ...]:
        """The names of masters, then slaves: `broker-a-0` is the first master, `broker-a-1` its first slave."""
        return tuple(node for node in self.nodes if node.is_broker)

    @property
    def name_servers(self) -> tuple[str, ...]:
        """The addresses of the name servers, `host:port`."""
        return tuple(node.address for node in self.nodes if not node.is_broker)

    @property
    def name_server_address(self) -> str:
        """The clients' namesrvAddr: `host:port`, joined with `;`."""
        return ";".join(self.name_servers)

    @property
    def folder(self) -> Path:
        """The folder with a folder for each node's data, and `logs`."""
        assert self._folder is not None, "there is a folder while the cluster runs"
        return self._folder.path

    def pid(self, name: str) -> int | None:
        """Return the process id of a node; None if the node does not run."""
        running = self._running().running(name)
        return None if running is None else running.pid

    # Single nodes

    def stop_node(self, name: str) -> None:
        """Stop one node gracefully; does nothing if it does not run. Raises ClusterError."""
        self._run(self._running().stop_node(name))

    def kill_node(self, name: str) -> None:
        """Kill one node with SIGKILL; only with processes=True. Raises ClusterError."""
        self._run(self._running().kill_node(name))

    def start_node(self, name: str) -> None:
        """Start a node that was stopped or killed, on its old data and address. Raises ClusterError."""
        self._run(self._running().start_node(name))

    def restart_node(self, name: str) -> None:
        """Stop one node gracefully and start it again. Raises ClusterError."""
        self.stop_node(name)
        self.start_node(name)

    # The thread

    def run(self, coroutine: Coroutine[object, object, T]) -> T:
        """Run a coroutine on the cluster's event loop; return its result. Raises ClusterError without a loop."""
        self._running()
        return self._run(coroutine)

    def _running(self) -> Supervisor:
        if self._supervisor is None:
            raise ClusterError("the cluster does not run")
        return self._supervisor

    def _start_thread(self) -> None:
        self._loop = asyncio.new_event_loop()
        # A daemon thread, so that a program can end without stopping its cluster.
        self._thread = threading.Thread(target=self._loop.run_forever, name="rocketmq", daemon=True)
        self._thread.start()

    def _stop_thread(self) -> None:
        if self._loop is None or self._thread is None:
            return
        self._run(self._end())
        self._run(self._loop.shutdown_default_executor())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()
        self._loop = self._thread = None

    def _run(self, coroutine: Coroutine[object, object, T]) -> T:
        assert self._loop is not None
        future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    # Starting

    async def _start(self, folder: StoreFolder) -> None:
        self._starting = asyncio.current_task()
        try:
            await self._start_somewhere(folder)
        finally:
            self._starting = None

    async def _start_somewhere(self, folder: StoreFolder) -> None:
        """Start the nodes; try other free ports if another process takes one at the last moment."""
        for attempt in range(PORT_ATTEMPTS_MAX):
            ports, may_change = self._choose_ports(folder)
            nodes = make_nodes(self.options, ports, folder.path, is_new=folder.is_new)
            supervisor = Supervisor(
                nodes,
                folder.log_folder,
                processes=self.options.processes,
                tls_mode=TlsMode(self.options.tls),
                on_end=self._on_end or (lambda _: None),
            )
            try:
                await supervisor.start()
            except PortInUse:
                if not may_change or attempt + 1 == PORT_ATTEMPTS_MAX:
                    raise
            else:
                folder.remember(ports)
                # From now on a master that restarts fetches missing records from its slaves.
                again = make_nodes(self.options, ports, folder.path, is_new=False)
                supervisor.nodes = {node.name: node for node in again}
                self._supervisor = supervisor
                return

    def _choose_ports(self, folder: StoreFolder) -> tuple[dict[str, int], bool]:
        """Return ports by node, and whether other ports would do as well. Raises PortInUse."""
        names = node_names(self.options)
        if self.options.port:
            ports = fixed_ports(self.options)
        elif folder.is_new:
            return dict(zip(names, free_ports(len(names)), strict=True)), True
        else:
            new = [name for name in names if name not in folder.ports]
            ports = {**folder.ports, **dict(zip(new, free_ports(len(new)), strict=True))}
            ports = {name: ports[name] for name in names}
        nodes = make_nodes(self.options, ports, folder.path, is_new=folder.is_new)
        busy = first_busy(port for node in nodes for port in node.ports)
        if busy is not None:
            advice = "choose another first port, or 0 for free ports"
            if not self.options.port:
                advice = f"the store {folder.path} had it last time: end who has it, or choose a first port"
            raise PortInUse(f"port {busy} on 127.0.0.1 is in use; {advice}")
        return ports, False

    async def _end(self) -> None:
        """Stop all nodes, and wait until the cancelled tasks have ended.

        A start that Ctrl-C interrupted stops its nodes. Its task was not cancelled if the interrupt came before
        any caller had its future.
        """
        if self._starting is not None:
            if not self._starting.cancelling():
                self._starting.cancel()
            await asyncio.wait([self._starting], timeout=STOP_TIMEOUT_S)
        if self._supervisor is not None:
            await self._supervisor.stop()
            self._supervisor = None
        others = asyncio.all_tasks() - {asyncio.current_task()}
        if others:
            await asyncio.wait(others, timeout=STOP_TIMEOUT_S)
