"""Lines of code 28 about request queues, delay levels and tables (RocketMQ, prepareRuntimeInfo, without tables)."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staticfire.system_under_test.broker.flow_control.flow_control import FlowControl
from staticfire.system_under_test.broker.flow_control.request_classes import RequestClass
from staticfire.system_under_test.broker.flow_control.request_queue import NS_PER_MS, RequestQueue
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC

QUEUES_WITH_WAITS = (RequestClass.SEND, RequestClass.PULL, RequestClass.QUERY)


def flow_figures(flow: FlowControl, now_ns: Callable[[], int]) -> dict[str, object]:
    """Waiting requests, and how long the log flush in flight has lasted."""
    flush_ms = flow.flush_ns // NS_PER_MS
    return {"pageCacheLockTimeMills": flush_ms, **queue_figures(flow.queues, now_ns)}


def queue_figures(
    queues: Mapping[RequestClass, RequestQueue], now_ns: Callable[[], int]
) -> dict[str, object]:
    """Length and waiting time of each request queue."""
    table: dict[str, object] = {}
    for name in QUEUES_WITH_WAITS:
        queue = queues[name]
        table[f"{name.value}QueueSize"] = len(queue)
        table[f"{name.value}QueueCapacity"] = queue.limits.capacity
        table[f"{name.value}QueueHeadWaitTimeMills"] = queue.head_wait_ms(now_ns())
    ends = queues[RequestClass.END_TRANSACTION]
    table["EndTransactionQueueSize"] = len(ends)
    table["EndTransactionThreadPoolQueueCapacity"] = ends.limits.capacity
    return table


TABLE_PREFIX = "tableSize_"  # RocketMQ has no such lines


def table_figures(sizes: Mapping[str, Callable[[], int]]) -> dict[str, object]:
    """The number of entries of each in-memory table, by its name."""
    return {f"{TABLE_PREFIX}{name}": size() for name, size in sizes.items()}


def delay_figures(offsets: Mapping[int, int], store: MessageStore) -> dict[str, object]:
    """The delivery offset and the end of each delay level's queue."""
    return {
        f"scheduleMessageOffset_{level}": (
            f"{offset},{store.queue_bounds(SCHEDULE_TOPIC, level - 1)[1]}"
        )
        for level, offset in sorted(offsets.items())
    }
