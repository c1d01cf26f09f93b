"""What the harness sees inside nodes: whether an acknowledged record is on a disk, and whether replicas agree."""

from __future__ import annotations

from typing import Any

from checkers.history import Op
from faults.shape import BrokerNode
from harness.environments.simulation import SimulatedNode, SimulationEnvironment
from system_under_test.protocol.message import RecordError, scan_header

FIXED_RECORD_BYTES = 88  # of a record up to its body, with IPv4 hosts (spec of the stored record)


class Inspector:
    """Writes observations into the run's recorder, in order with the acknowledgements."""

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        self._recorder = environment.recorder
        self._replicas = {
            name: environment.shape.replicas(name) for name in environment.shape.broker_names
        }

    def acknowledged(self, op: Op) -> None:
        """Called for each SEND_OK, at the instant the client has it: who holds the record, and how safely?"""
        value = op.value
        durable: list[str] = []
        cached: list[str] = []
        unobserved: list[str] = []
        for replica in self._replicas[value["broker"]]:
            node = self._environment.nodes[replica.node]
            if node.lost:
                unobserved.append(replica.node)
            else:
                self._look(node, value, durable, cached)
        self._recorder.observe(
            "ack_durability",
            key=value["key"],
            durable_on=durable,
            cached_on=cached,
            unobserved=unobserved,
        )

    def _look(
        self, node: SimulatedNode, value: dict[str, Any], durable: list[str], cached: list[str]
    ) -> None:
        path, position = self._environment.log_path(value["physical_offset"])
        size = FIXED_RECORD_BYTES + value["size"]
        disk = node.host.disk
        try:
            record = disk.read_cached(path, position, size)
        except OSError:
            return
        if value["key"].encode() + b" " not in record:
            return
        cached.append(node.name)
        if disk.is_durable(path, position, size):
            durable.append(node.name)

    def compare_replicas(self) -> None:
        """Compare the commit log of each slave with its master's, byte by byte, as processes would read them."""
        for name, replicas in self._replicas.items():
            master, *slaves = replicas
            for slave in slaves:
                self._compare(name, master, slave)

    def _compare(self, name: str, master: BrokerNode, slave: BrokerNode) -> None:
        nodes = self._environment.nodes
        if nodes[master.node].lost or nodes[slave.node].lost:
            return
        left, right = self.commit_log(master.node), self.commit_log(slave.node)
        self._recorder.observe(
            "replica",
            broker_name=name,
            master=master.node,
            slave=slave.node,
            master_end=len(left),
            slave_end=len(right),
            first_difference=first_difference(left, right),
        )

    def commit_log(self, node: str) -> bytes:
        """Every record of the node's commit log, without what lies behind the last one."""
        disk = self._environment.nodes[node].host.disk
        files = {path: data for path, data in disk.snapshot().items() if "/commitlog/" in path}
        return b"".join(whole_records(files[path]) for path in sorted(files))


def whole_records(data: bytes) -> bytes:
    """The prefix of a commit-log file that holds records (and the blank that fills it up)."""
    position = 0
    while position < len(data):
        try:
            position += scan_header(data, position).size
        except RecordError:
            return data[:position]
    return data


def first_difference(master: bytes, slave: bytes) -> int | None:
    """The first byte at which the slave is not a prefix of the master; None if it is one."""
    if master.startswith(slave):
        return None
    common = min(len(master), len(slave))
    return next((i for i in range(common) if master[i] != slave[i]), common)
