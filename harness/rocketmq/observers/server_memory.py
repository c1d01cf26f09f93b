"""Reads the memory of a simulated server: store, queues and offsets of a broker, routes of a name server."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.system_under_test.broker.assembly.broker import Broker
from staticfire.system_under_test.name_server.name_server import NameServer


class RocketMQMemory:
    """Implements `staticfire.harness.systems.server_memory.ServerMemory`."""

    parts = ("store", "queues", "offsets", "routes")

    def read(self, process: SimProcess) -> Mapping[str, Any]:
        """Return `store`, `queues` and `offsets` of a broker, `routes` of a name server."""
        for found in locals_of(process):
            if isinstance(found, Broker):
                return {
                    "store": _store(found),
                    "queues": list(_queues(found)),
                    "offsets": list(_offsets(found)),
                }
            if isinstance(found, NameServer):
                return {"routes": list(_routes(found))}
        return {}


def locals_of(process: SimProcess) -> Iterator[object]:
    """Return local variables of the process's coroutine, and of the coroutines that it awaits."""
    coroutine: Any = process.main_coroutine
    while (frame := getattr(coroutine, "cr_frame", None)) is not None:
        yield from frame.f_locals.values()
        coroutine = coroutine.cr_await


def _store(broker: Broker) -> dict[str, object]:
    """Return offsets in the commit log, in bytes."""
    store = broker.store
    return {
        "begins": store.min_offset,
        "ends": store.end_offset,
        "flushed": store.flushed_offset,
        "readable": store.readable_end,
        "in_queues": store.dispatched_offset,
        "failure": None if store.failure is None else str(store.failure),
    }


def _queues(broker: Broker) -> Iterator[dict[str, object]]:
    for queue in sorted(broker.store.retention.queues, key=lambda one: (one.topic, one.queue_id)):
        yield {
            "topic": queue.topic,
            "queue": queue.queue_id,
            "min_offset": queue.min_offset,
            "max_offset": queue.max_offset,
            "next_offset": queue.next_offset,
        }


def _offsets(broker: Broker) -> Iterator[dict[str, object]]:
    offsets = broker._parts.tables.offsets
    for group, topics in offsets.topics_by_group().items():
        for topic in topics:
            for queue, offset in sorted(offsets.queues(group, topic).items()):
                yield {"group": group, "topic": topic, "queue": queue, "offset": offset}


def _routes(server: NameServer) -> Iterator[dict[str, object]]:
    for topic in sorted(server.routes.topics()):
        route = server.routes.route(topic)
        if route is None:
            continue
        for queues in route.queue_datas:
            brokers = [one for one in route.broker_datas if one.broker_name == queues.broker_name]
            yield {
                "topic": topic,
                "broker": queues.broker_name,
                "read_queues": queues.read_queue_nums,
                "write_queues": queues.write_queue_nums,
                "permission": queues.perm,
                "addresses": {
                    str(number): address
                    for broker in brokers
                    for number, address in sorted(broker.broker_addrs.items())
                },
            }
