"""Reads tables of simulated brokers after each of their turns: settings of groups, and progress.

A turn runs at once, and takes its time afterwards. So a change counts from the next turn on.

It makes no event and draws no random number, so a run with it is the same as one without. The observations only repeat
what simulated processes hold, and are not part of the digest.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from staticfire.harness.environments.simulated.environment import SimulationEnvironment
from staticfire.harness.rocketmq.observers.server_memory import locals_of
from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.json_dialect import loads

AGAIN_NS = 1_000_000_000  # files are read once a second

Progress = dict[str, int]
Tables = dict[str, Mapping[str, Any]]  # by name of the table


class ServerTables:
    """Writes two kinds of observations.

    `server_table`: a table of a broker from now on. `groups` are the settings in its memory, each as a text. `delays`
    is the progress of delayed messages in its file, by level. `offsets` are those of groups, in a master's file and in
    a slave's memory. `changes` is the counter of the table's version. `ready`: a slave knows its master, and a master
    registers. `emptied`: the process has opened an empty log.
    `restored_table`: what a master that has opened an empty log has when it begins to register, and what a slave had
    meanwhile.
    """

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        topology = environment.topology
        self._leaders = {leader.replica_set: leader.node for leader in topology.leaders}
        self._sets = {broker.node: broker.replica_set for broker in topology.replicas}

    def reader(self, node: str, process: SimProcess) -> TableReader:
        """Return what reads this process of a broker after each of its turns."""
        is_leader = node in self._leaders.values()
        return TableReader(self, node, self._sets[node], process, is_leader=is_leader)

    def now_ns(self) -> int:
        return self._environment.now_ns()

    def file(self, node: str, path: str) -> bytes:
        """Return what a file of a broker holds, or the backup while the file is replaced; empty: there is none."""
        disk = self._environment.nodes[node].host.disk
        found = (disk.read_cached(name) for name in (path, f"{path}.bak") if disk.has(name))
        return next(found, b"")

    def delays(self, node: str, broker: Broker) -> Progress:
        """Return the progress of delayed messages in a broker's file, by level."""
        return _progress(self.file(node, broker._parts.tables.delay_offsets.path)) or {}

    def followers(self, replica_set: str) -> Iterator[tuple[str, SimProcess, Broker]]:
        """Return the slaves that run."""
        for node, name in self._sets.items():
            process = self._environment.nodes[node].running
            if name == replica_set and node != self._leaders[name] and process is not None:
                broker = find_broker(process)
                if broker is not None:
                    yield node, process, broker

    def observe(self, kind: str, **fields: Any) -> None:
        self._environment.recorder.observe_state(kind, **fields)


@dataclass(slots=True)
class TableReader:
    """Reads one process of a broker."""

    tables: ServerTables
    node: str
    broker_name: str
    process: SimProcess
    is_leader: bool
    broker: Broker | None = None
    groups: object = None
    ready: bool = False
    emptied: bool = False
    # What slaves had when this process opened an empty log.
    awaited: dict[str, tuple[SimProcess, Tables]] | None = None
    files: dict[str, bytes] = field(default_factory=dict)  # by path, as they were read last
    recorded: dict[str, tuple[object, bool]] = field(default_factory=dict)  # last, by table
    again_ns: int = 0
    # What the last turn changed. The turn may block in a disk call, and the process may die before it returns.
    changed: list[dict[str, Any]] = field(default_factory=list)

    def read(self) -> None:
        """Record what the turn before this one has changed, and read what this one has."""
        for seen in self.changed:
            self.tables.observe("server_table", **seen)
        self.changed.clear()
        if self.broker is None:
            self.broker = find_broker(self.process)
            if self.broker is None:
                return
            self.emptied = not self.broker.store.end_offset
            if self.is_leader and self.emptied:
                self.awaited = self._copies()
        self._read_tables(self.broker)
        if self.awaited is not None and self.broker._registers.is_set():
            self._compare(self.broker, self.awaited)
            self.awaited = None

    def _read_tables(self, broker: Broker) -> None:
        parts, now_ns = broker._parts, self.tables.now_ns()
        groups = parts.tables.groups
        master = parts.neighbours._slave_sync.master_address
        ready = broker._registers.is_set() if self.is_leader else master is not None
        is_changed = groups._groups is not self.groups or ready is not self.ready
        if not is_changed and now_ns < self.again_ns:
            return
        self.again_ns, self.groups, self.ready = now_ns + AGAIN_NS, groups._groups, ready
        if is_changed:
            version = groups._version
            stamp = f"{version.counter} of {version.timestamp}"
            self._record("groups", group_settings(broker), stamp, version.counter)
        self._record_file("delays", parts.tables.delay_offsets.path)
        if self.is_leader:
            self._record_file("offsets", parts.tables.offsets_file._file.path)
        else:
            self._record("offsets", _offsets(broker))

    def _record_file(self, table: str, path: str) -> None:
        data = self.tables.file(self.node, path)
        last, ready = self.recorded.get(table, (None, False))
        if last is None or ready is not self.ready or data != self.files.get(path):
            progress = _progress(data)
            if progress is not None:
                self.files[path] = data
                self._record(table, progress)

    def _record(
        self, table: str, entries: Mapping[str, Any], version: str = "", changes: int = 0
    ) -> None:
        state = (entries, version), self.ready
        if self.recorded.get(table) != state:
            self.recorded[table] = state
            self.changed.append(
                {
                    "node": self.node,
                    "life": self.process.incarnation,
                    "broker_name": self.broker_name,
                    "table": table,
                    "version": version,
                    "changes": changes,
                    "ready": self.ready,
                    "emptied": self.emptied,
                    "entries": entries,
                }
            )

    def _copies(self) -> dict[str, tuple[SimProcess, Tables]]:
        return {
            node: (process, _tables(broker, self.tables.delays(node, broker)))
            for node, process, broker in self.tables.followers(self.broker_name)
        }

    def _compare(self, broker: Broker, before: Mapping[str, tuple[SimProcess, Tables]]) -> None:
        """Record what this master has, and what slaves had both at its start and now."""
        own = _tables(broker, self.tables.delays(self.node, broker))
        for node, (process, now) in self._copies().items():
            if node not in before or before[node][0] is not process:
                continue
            then = before[node][1]
            for table, mine in own.items():
                copy = dict(_both(then[table], now[table]))
                if table == "offsets":
                    copy = {key: to for key, to in copy.items() if to <= _queue_end(broker, key)}
                if copy:
                    self.tables.observe(
                        "restored_table",
                        node=self.node,
                        life=self.process.incarnation,
                        broker_name=self.broker_name,
                        table=table,
                        follower=node,
                        copy=copy,
                        own={key: mine[key] for key in copy if key in mine},
                    )


def find_broker(process: SimProcess) -> Broker | None:
    """Return the broker among the local variables of the process's coroutines."""
    return next((found for found in locals_of(process) if isinstance(found, Broker)), None)


def group_settings(broker: Broker) -> dict[str, str]:
    """Return the settings of each group as a text."""
    groups = broker._parts.tables.groups._groups
    return {name: _settings(groups[name]) for name in sorted(groups)}


def _settings(group: SubscriptionGroupConfig) -> str:
    """Return what differs from a group that a broker makes by itself."""
    usual = asdict(SubscriptionGroupConfig(group_name=group.group_name))
    unusual = {name: value for name, value in asdict(group).items() if value != usual[name]}
    return ", ".join(f"{name} {value}" for name, value in sorted(unusual.items())) or "usual"


def _offsets(broker: Broker) -> Progress:
    """Return the offset of each group in each queue."""
    return _flat(broker._parts.tables.offsets._table)


def _progress(data: bytes) -> Progress | None:
    """Return the offsets in a file, by level or by group and queue; None: it is half written."""
    try:
        document: Any = loads(data.decode()) if data else {"offsetTable": {}}
        return _flat(document["offsetTable"])
    except (ValueError, KeyError):
        return None


def _flat(table: Mapping[str, Any]) -> Progress:
    found: Progress = {}
    for key, of in table.items():
        queues = of.items() if isinstance(of, Mapping) else [("", of)]
        found |= {f"{key} {queue}".rstrip(): offset for queue, offset in queues}
    return found


def _tables(broker: Broker, delays: Progress) -> Tables:
    is_changed = broker._parts.tables.groups._version.counter > 0
    groups = group_settings(broker) if is_changed else {}
    return {"groups": groups, "offsets": _offsets(broker), "delays": delays}


def _both(then: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """Return the settings that stayed the same, and the lesser progress."""
    for key in sorted(then.keys() & now.keys()):
        if isinstance(now[key], int):
            yield key, min(then[key], now[key])
        elif then[key] == now[key]:
            yield key, now[key]


def _queue_end(broker: Broker, key: str) -> int:
    name, _, queue = key.rpartition(" ")
    return broker._parts.engine.queue_end(name.partition("@")[0], int(queue))
