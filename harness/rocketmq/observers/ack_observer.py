"""Reads simulated disks at the moment of each acknowledgement: which nodes hold the record, and whether durably."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from staticfire.checkers.model.history import Op
from staticfire.system_under_test.client.producer.sender import COMPRESS_OVER_BYTES
from staticfire.system_under_test.store.record_scan import RECORD_HEADER_SIZE

if TYPE_CHECKING:
    from staticfire.harness.environments.simulated.environment import (
        SimulatedNode,
        SimulationEnvironment,
    )


class _Copy(NamedTuple):
    """A record on one node."""

    end_offset: int  # in the log
    is_durable: bool  # all of it is on the disk


class AckObserver:
    """Writes one observation for each send that a broker has stored, in order with the acknowledgements."""

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        self._replicas = {
            name: environment.topology.replicas_of(name)
            for name in environment.topology.replica_sets
        }

    def acknowledged(self, op: Op) -> None:
        """Called for each such send at the instant the client has its status, SEND_OK or a weaker one."""
        value = op.value
        copies: dict[str, _Copy] = {}
        unobserved: list[str] = []
        for replica in self._replicas[value["broker"]]:
            node = self._environment.nodes[replica.node]
            if node.lost:
                unobserved.append(replica.node)
            elif (copy := self._copy_on(node, op)) is not None:
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

    def _copy_on(self, node: SimulatedNode, op: Op) -> _Copy | None:
        """The record on a node, None if it is not there."""
        stored_at = _stored_at(op.value)
        paths, position = self._log_paths(stored_at)
        size = RECORD_HEADER_SIZE + op.value["size"]
        disk = node.host.disk
        path = next((path for path in paths[1:] if disk.has(path)), paths[0])
        mark = op.value["key"].encode() + b" "
        try:
            if op.value["size"] >= COMPRESS_OVER_BYTES:  # then only a property has the key in clear
                size = int.from_bytes(disk.read_cached(path, position, 4), "big")
                mark = b"KEYS\x01" + op.value["key"].encode()
            record = disk.read_cached(path, position, size)
        except OSError:
            return None
        if mark not in record:
            return None
        whole_size = int.from_bytes(record[:4], "big")
        is_durable = disk.is_durable(path, position, whole_size)
        return _Copy(end_offset=stored_at + whole_size, is_durable=is_durable)

    def _log_paths(self, physical_offset: int) -> tuple[list[str], int]:
        """Where the commit-log file that holds a physical offset may be, and the position in it."""
        campaign = self._environment.campaign
        size = campaign.log_file_bytes
        start = physical_offset // size * size
        properties = dict(campaign.broker_properties)
        folders = properties.get("storePathCommitLog", "/store/commitlog").split(",")
        return [f"{folder}/{start:020d}" for folder in folders], physical_offset - start


def _stored_at(value: dict[str, Any]) -> int:
    """The physical offset of what was acknowledged; of messages that brokers keep back, where they keep them."""
    return int(value["stored_at"] if "stored_at" in value else value["physical_offset"])
