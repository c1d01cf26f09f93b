"""Reads what name servers answer and masters register after each turn of a simulated server, and records changes.

It makes no event and draws no random number, so a run with it is the same as one without. The observations only repeat
what simulated processes hold, and are not part of the digest.

Real environments have no such observer: between two questions a route may change and change back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.rocketmq.observers.server_memory import locals_of
from staticfire.harness.rocketmq.observers.server_tables import ServerTables
from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.name_server.name_server import NameServer

AGAIN_NS = 1_000_000_000  # what only looks unchanged is read once a second

T = TypeVar("T")
Content = dict[str, Any]  # of one broker name: addresses, topics


class RouteChanges:
    """Writes three kinds of observations.

    `server_life`: a server starts, or has ended, and how. `route_table`: what a name server says of one broker name.
    Its `addresses` are those in the cluster info; `routed` are those in a topic's route, if they are others.
    `topic_table`: what a master registers, from its first registration on.
    """

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        topology = environment.topology
        self._nodes = {environment.server_address(b.node): b.node for b in topology.replicas}
        self._leaders = {b.node: b.replica_set for b in topology.leaders}
        self._coordinators = frozenset(topology.coordinators)
        self._running: dict[str, SimProcess] = {}
        self._tables = ServerTables(environment)

    def server_started(self, node: str, process: SimProcess) -> None:
        """Observe this process from its first turn on."""
        self._note_ends()
        self._observe("server_life", node=node, life=process.incarnation, ended=None)
        self._running[node] = process
        if node in self._coordinators:
            process.queue.after_turn = _NameServerReader(self, node, process).read
        elif node in self._leaders:
            routes, tables = _MasterReader(self, node, process), self._tables.reader(node, process)
            process.queue.after_turn = _both(routes.read, tables.read)
        else:
            process.queue.after_turn = self._tables.reader(node, process).read

    def _note_ends(self) -> None:
        """Record the ends of processes since the last time."""
        for node in [node for node, process in self._running.items() if not process.alive]:
            process = self._running.pop(node)
            has_status = process.exit.done() and not process.exit.cancelled()
            ended = process.exit.result().kind if has_status else "unclear"
            self._observe("server_life", node=node, life=process.incarnation, ended=ended)

    def _observe(self, kind: str, **fields: Any) -> None:
        self._environment.recorder.observe_state(kind, **fields)

    def routes_read(self, node: str, process: SimProcess, name: str, content: Content) -> None:
        """Record what a name server says of a broker name from now on."""
        routed = content.get("routed")
        self._observe(
            "route_table",
            node=node,
            life=process.incarnation,
            broker_name=name,
            addresses=self._named(content["addresses"]),
            topics=content["topics"],
            **({} if routed is None else {"routed": self._named(routed)}),
        )

    def _named(self, addresses: Mapping[int, str]) -> dict[str, str]:
        """Return the nodes by number; the address if no node has it."""
        return {str(n): self._nodes.get(at, at) for n, at in sorted(addresses.items())}

    def topics_read(self, node: str, topics: Mapping[str, list[int]]) -> None:
        """Record what a master registers from now on."""
        self._observe("topic_table", node=node, broker_name=self._leaders[node], topics=topics)

    def now_ns(self) -> int:
        return self._environment.now_ns()

    def note_ends(self) -> None:
        if not all(process.alive for process in self._running.values()):
            self._note_ends()


@dataclass(slots=True)
class _NameServerReader:
    changes: RouteChanges
    node: str
    process: SimProcess
    server: NameServer | None = None
    queues: dict[str, dict[str, object]] = field(default_factory=dict)
    addresses: dict[str, dict[int, str]] = field(default_factory=dict)
    contents: dict[str, Content] = field(default_factory=dict)
    again_ns: int = 0

    def read(self) -> None:
        """Record what has changed since the last turn."""
        self.changes.note_ends()
        if self.server is None:
            self.server = _find(self.process, NameServer)
            if self.server is None:
                return
        table = self.server.routes
        brokers = table._brokers
        now_ns = self.changes.now_ns()
        if (
            now_ns < self.again_ns
            and table._queues == self.queues
            and len(brokers) == len(self.addresses)
            and all(self.addresses.get(n) == b.broker_addrs for n, b in brokers.items())
        ):
            return
        self.again_ns = now_ns + AGAIN_NS
        self.queues = {topic: dict(queues) for topic, queues in table._queues.items()}
        self.addresses = {name: dict(of.broker_addrs) for name, of in brokers.items()}
        self._record(dict(_contents(self.server)))

    def _record(self, contents: dict[str, Content]) -> None:
        for name in sorted({**self.contents, **contents}):
            content = contents.get(name, {"addresses": {}, "topics": {}})
            if content != self.contents.get(name):
                self.changes.routes_read(self.node, self.process, name, content)
        self.contents = contents


def _contents(server: NameServer) -> Iterator[tuple[str, Content]]:
    """Return what the name server answers about each broker name, over all topics."""
    table = server.routes
    brokers = table.cluster_info().broker_addr_table
    listed = {name: dict(broker.broker_addrs) for name, broker in brokers.items()}
    topics: dict[str, dict[str, list[int]]] = {}
    routed: dict[str, dict[int, str]] = {}
    for topic in sorted(table.topics()):
        route = table.route(topic)
        if route is None:
            continue
        for of in route.queue_datas:
            numbers = [of.read_queue_nums, of.write_queue_nums, of.perm]
            topics.setdefault(of.broker_name, {})[topic] = numbers
        for broker in route.broker_datas:
            if broker.broker_addrs != listed.get(broker.broker_name):
                routed.setdefault(broker.broker_name, dict(broker.broker_addrs))
    for name in {**listed, **routed}:
        content: Content = {"addresses": listed.get(name, {}), "topics": topics.get(name, {})}
        yield name, content if name not in routed else {**content, "routed": routed[name]}


@dataclass(slots=True)
class _MasterReader:
    changes: RouteChanges
    node: str
    process: SimProcess
    broker: Broker | None = None
    table: object = None
    permission: int = 0
    topics: dict[str, list[int]] | None = None
    again_ns: int = 0

    def read(self) -> None:
        """Record what this master registers, if that has changed since the last turn."""
        if self.broker is None:
            self.broker = _find(self.process, Broker)
        if self.broker is None or not self.broker._registers.is_set():
            return
        parts = self.broker._parts
        table, now_ns = parts.tables.topics._topics, self.changes.now_ns()
        permission = parts.neighbours._config.broker_permission
        if now_ns < self.again_ns and table is self.table and permission == self.permission:
            return
        self.again_ns, self.table, self.permission = now_ns + AGAIN_NS, table, permission
        topics = {
            name: [of.read_queue_nums, of.write_queue_nums, of.perm]
            for name, of in sorted(parts.neighbours._registered_topics().topics.items())
        }
        if topics != self.topics:
            self.topics = topics
            self.changes.topics_read(self.node, topics)


def _both(first: Callable[[], None], second: Callable[[], None]) -> Callable[[], None]:
    def read() -> None:
        first()
        second()

    return read


def _find(process: SimProcess, kind: type[T]) -> T | None:
    """Return the object of this type among the local variables of the process's coroutines."""
    return next((found for found in locals_of(process) if isinstance(found, kind)), None)
