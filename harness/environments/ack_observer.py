"""Looks into simulated disks when a producer has its SEND_OK: who holds the record, and how safely?"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from checkers.history import Op
from system_under_test.client.sender import COMPRESS_OVER_BYTES
from system_under_test.store.record_scan import RECORD_HEADER_SIZE

if TYPE_CHECKING:
    from harness.environments.simulation import SimulatedNode, SimulationEnvironment


class AckObserver:
    """Writes one observation for each acknowledged send, in order with the acknowledgements."""

    def __init__(self, environment: SimulationEnvironment) -> None:
        self._environment = environment
        self._replicas = {
            name: environment.shape.replicas(name) for name in environment.shape.broker_names
        }

    def acknowledged(self, op: Op) -> None:
        """Called for each SEND_OK, at the instant the client has it."""
        value = op.value
        durable: list[str] = []
        cached: list[str] = []
        unobserved: list[str] = []
        ends: list[int] = []
        for replica in self._replicas[value["broker"]]:
            node = self._environment.nodes[replica.node]
            if node.lost:
                unobserved.append(replica.node)
            elif (size := self._look(node, op, durable, cached)) is not None:
                ends.append(_stored_at(value) + size)
        self._environment.recorder.observe(
            "ack_durability",
            key=value["key"],
            status=value.get("status", "SEND_OK"),
            broker_name=value["broker"],
            end_offset=max(ends, default=None),
            durable_on=durable,
            cached_on=cached,
            unobserved=unobserved,
        )

    def _look(
        self, node: SimulatedNode, op: Op, durable: list[str], cached: list[str]
    ) -> int | None:
        """Enter a node where it belongs; the bytes that the record takes there, None if it is not there."""
        paths, position = self._environment.log_paths(_stored_at(op.value))
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
        size = int.from_bytes(record[:4], "big")
        cached.append(node.name)
        if disk.is_durable(path, position, size):
            durable.append(node.name)
        return size


def _stored_at(value: dict[str, Any]) -> int:
    """The physical offset of what was acknowledged; of messages that brokers keep back, where they keep them."""
    return int(value["stored_at"] if "stored_at" in value else value["physical_offset"])
