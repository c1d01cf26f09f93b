"""Reads simulated disks at the moment of each acknowledgement: which nodes hold the record, and whether durably."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import SendValue
from staticfire.system_under_test.client.producer.sender import COMPRESS_OVER_BYTES
from staticfire.system_under_test.store.record_scan import RECORD_HEADER_SIZE

if TYPE_CHECKING:
    from staticfire.harness.environments.simulated.environment import SimulationEnvironment
    from staticfire.harness.simulation.disk.disk import SimDisk


class _Copy(NamedTuple):
    """A record on one node."""

    end_offset: int  # of the record, in the log
    is_durable: bool  # whether the whole record is on the disk


class _RecordPosition(NamedTuple):
    """The position at which each node must have a record."""

    offset: int  # physical
    paths: list[str]  # possible paths of the commit-log file: one in each folder of the log
    position: int  # of the record, in that file
    size: int | None  # size of the record with the mark; None: the size in the record
    mark: bytes


class AckObserver:
    """Writes an observation for each send that a broker has stored, in the order of acknowledgements."""

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        self._replicas = {
            name: environment.topology.replicas_of(name)
            for name in environment.topology.replica_sets
        }
        properties = dict(environment.campaign.broker_properties)
        self._log_folders = properties.get("storePathCommitLog", "/store/commitlog").split(",")
        self._log_file_bytes = environment.campaign.log_file_bytes

    def acknowledged(self, op: Op[SendValue]) -> None:
        """Observe a send; called at the instant the client has its status, SEND_OK or a weaker one."""
        value = op.value
        record_at = self._position_of(value)
        copies: dict[str, _Copy] = {}
        unobserved: list[str] = []
        for replica in self._replicas[value["broker"]]:
            node = self._environment.nodes[replica.node]
            if node.lost:
                unobserved.append(replica.node)
            elif (copy := _copy_on(node.host.disk, record_at)) is not None:
                copies[node.name] = copy
        self._environment.recorder.observe(
            "ack_durability",
            key=value["key"],
            status=value.get("status", "SEND_OK"),
            broker_name=value["broker"],
            end_offset=max((copy.end_offset for copy in copies.values()), default=None),
            durable_on=[node for node, copy in copies.items() if copy.is_durable],
            cached_on=list(copies),
            unobserved=unobserved,
        )

    def _position_of(self, value: SendValue) -> _RecordPosition:
        """Return where the record of a stored send must be, and the mark by which it is recognised."""
        stored_at = _stored_at(value)
        start = stored_at - stored_at % self._log_file_bytes
        paths = [f"{folder}/{start:020d}" for folder in self._log_folders]
        key, size = value["key"].encode(), value["size"]
        if size >= COMPRESS_OVER_BYTES:  # the body is compressed, so only a property holds the key
            return _RecordPosition(stored_at, paths, stored_at - start, None, b"KEYS\x01" + key)
        return _RecordPosition(
            stored_at, paths, stored_at - start, RECORD_HEADER_SIZE + size, key + b" "
        )


def _copy_on(disk: SimDisk, record_at: _RecordPosition) -> _Copy | None:
    """Return the record on a disk, None if it is not there."""
    path = next((path for path in record_at.paths[1:] if disk.has(path)), record_at.paths[0])
    size = record_at.size
    try:
        if size is None:
            size = int.from_bytes(disk.read_cached(path, record_at.position, 4), "big")
        record = disk.read_cached(path, record_at.position, size)
    except OSError:
        return None
    if record_at.mark not in record:
        return None
    whole_size = int.from_bytes(record[:4], "big")
    is_durable = disk.is_durable(path, record_at.position, whole_size)
    return _Copy(end_offset=record_at.offset + whole_size, is_durable=is_durable)


def _stored_at(value: SendValue) -> int:
    """Return the physical offset of the acknowledged record, also of a message that the broker keeps back."""
    return int(value["stored_at"] if "stored_at" in value else value["physical_offset"])
