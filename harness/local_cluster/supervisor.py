"""Starts, ends and restarts the nodes of one cluster. Everything here runs on the loop of the cluster."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Awaitable, Callable, Iterable
from dataclasses import replace
from pathlib import Path

from staticfire.harness.local_cluster.errors import ClusterError
from staticfire.harness.local_cluster.layout import Node
from staticfire.harness.local_cluster.running import LoopNode, ProcessNode, RunningNode
from staticfire.system_under_test.configuration.real_tls import RealTls, TlsOptions
from staticfire.system_under_test.protocol.bodies import ClusterInfo
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.json_dialect import loads
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import TlsError, TlsMode
from staticfire.system_under_test.runtime.loop_errors import LoopErrors
from staticfire.system_under_test.runtime.real_env import JsonLinesLog, RealClock, make_env

READY_TIMEOUT_S = 30.0
ASK_TIMEOUT_S = 1.0
CHECK_INTERVAL_S = 0.005


class Supervisor:
    """The nodes of one cluster. `on_end` gets a sentence for each node that ends by itself."""

    def __init__(
        self,
        nodes: Iterable[Node],
        log_folder: Path,
        *,
        processes: bool,
        tls_mode: TlsMode,
        on_end: Callable[[str], None],
    ) -> None:
        self.nodes = {node.name: node for node in nodes}
        self._log_folder = log_folder
        self._make = ProcessNode if processes else LoopNode
        self._on_end = on_end
        self._running: dict[str, RunningNode] = {}
        self._tls = RealTls(TlsOptions(mode=tls_mode))
        self._log = (log_folder / "local-cluster.jsonl").open("a", encoding="utf-8")
        env = make_env("local-cluster", self._tls)
        env = replace(env, log=JsonLinesLog("local-cluster", RealClock(), self._log))
        self._errors = LoopErrors(env.log, now_ns=env.clock.monotonic_ns)
        self._remoting = RemotingClient(env)

    def running(self, name: str) -> RunningNode | None:
        """Return the node, if it runs."""
        return self._running.get(name)

    async def start(self) -> None:
        """Start every node, and wait until clients find a complete cluster.

        Raises:
            PortInUse: a node cannot listen; everything is ended again.
            ClusterError: a node failed, or the cluster was not ready in time; everything is ended again.
        """
        asyncio.get_running_loop().set_exception_handler(self._errors)
        try:
            self._tls.check()
            async with asyncio.timeout(READY_TIMEOUT_S):
                for group in self._groups():
                    await _all(self._launch(node, self._peers(node)).started for node in group)
                await _all(running.settled for running in self._running.values())
                await _all(self._registered(node) for node in self.nodes.values() if node.is_broker)
        except TimeoutError:
            await self.stop()
            raise ClusterError(f"the cluster was not ready within {READY_TIMEOUT_S:g} s") from None
        except TlsError as error:
            await self.stop()
            raise ClusterError(str(error)) from error
        except BaseException:
            await self.stop()
            raise

    async def stop(self) -> None:
        """End every node gracefully: masters first, so that slaves get the rest; name servers last."""
        name_servers, masters, slaves = self._groups()
        for group in (masters, slaves, name_servers):
            await _all(self.stop_node(node.name) for node in group)
        await self._remoting.close()
        with contextlib.suppress(OSError):  # the disk is full
            self._log.close()

    async def start_node(self, name: str) -> None:
        """Start a node that does not run, and wait until it is settled. Raises ClusterError."""
        node = self._node(name)
        if name in self._running:
            raise ClusterError(f"{name} runs already")
        running = self._launch(node, self._running_peers(node))
        try:
            async with asyncio.timeout(READY_TIMEOUT_S):
                await running.settled
                await _all(self._registered(broker) for broker in self._brokers_known_through(node))
        except TimeoutError:
            raise ClusterError(f"{name} was not ready within {READY_TIMEOUT_S:g} s") from None

    def _brokers_known_through(self, node: Node) -> list[Node]:
        """Return the broker itself, or every running broker for a name server, which knows none at first."""
        if node.is_broker:
            return [node]
        return [
            other
            for other in self.nodes.values()
            if other.is_broker and other.name in self._running
        ]

    async def stop_node(self, name: str) -> None:
        """End a node gracefully; does nothing if it does not run. Raises ClusterError if there is no such node."""
        await self._end(name, lambda running: running.stop())

    async def kill_node(self, name: str) -> None:
        """End a node with SIGKILL; does nothing if it does not run. Raises ClusterError if there is no such node."""
        await self._end(name, lambda running: running.kill())

    async def _end(self, name: str, how: Callable[[RunningNode], Awaitable[None]]) -> None:
        running = self._running.get(self._node(name).name)
        if running is not None:
            await how(running)
            self._running.pop(name, None)

    def _node(self, name: str) -> Node:
        node = self.nodes.get(name)
        if node is None:
            raise ClusterError(f"no node is named {name!r}; there are {', '.join(self.nodes)}")
        return node

    def _launch(self, node: Node, peers: int) -> RunningNode:
        log_path = self._log_folder / f"{node.name}.jsonl"
        running = self._make(node, log_path, peers=peers, tls=self._tls, on_end=self._node_ended)
        self._running[node.name] = running
        return running

    def _node_ended(self, running: RunningNode, reason: str) -> None:
        was_settled = running.settled.done() and running.settled.exception() is None
        if self._running.get(running.node.name) is running:
            del self._running[running.node.name]
        if was_settled:  # before that, the waiter for `settled` gets the reason
            self._on_end(reason)

    def _groups(self) -> tuple[list[Node], list[Node], list[Node]]:
        """Return the nodes as groups: name servers, masters, slaves."""
        brokers = [node for node in self.nodes.values() if node.is_broker]
        return (
            [node for node in self.nodes.values() if not node.is_broker],
            [node for node in brokers if not node.is_slave],
            [node for node in brokers if node.is_slave],
        )

    def _peers(self, node: Node) -> int:
        return 0 if not node.is_broker else len(self._replicas(node))

    def _running_peers(self, node: Node) -> int:
        return sum(other.name in self._running for other in self._replicas(node))

    def _replicas(self, node: Node) -> list[Node]:
        """Return the replicas for which a node waits: the slaves of a master, the master of a slave."""
        if not node.is_broker:
            return []
        return [
            other
            for other in self.nodes.values()
            if other.broker_name == node.broker_name and other.is_slave != node.is_slave
        ]

    async def _registered(self, node: Node) -> None:
        """Wait until every running name server knows the broker."""
        for other in self.nodes.values():
            while not other.is_broker and other.name in self._running:
                if node.address in await self._known_brokers(other.address):
                    break
                await asyncio.sleep(CHECK_INTERVAL_S)

    async def _known_brokers(self, name_server: str) -> list[str]:
        request = RemotingCommand.request(RequestCode.GET_BROKER_CLUSTER_INFO)
        try:
            answer = await self._remoting.invoke(name_server, request, ASK_TIMEOUT_S)
            info = ClusterInfo.from_json(loads(answer.body))
        except (RemotingError, ValueError):  # the name server has just started or ended
            return []
        return [
            address
            for broker in info.broker_addr_table.values()
            for address in broker.broker_addrs.values()
        ]


async def _all(waits: Iterable[Awaitable[None]]) -> None:
    await asyncio.gather(*waits)
