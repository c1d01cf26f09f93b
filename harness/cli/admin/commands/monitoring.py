"""`staticfire admin`: monitors all consumer groups (RocketMQ: MonitorService, ConsumerRunningInfo)."""

from __future__ import annotations

import time
from collections.abc import Iterator

from staticfire.harness.cli.admin.answers import Answer, Table
from staticfire.harness.cli.admin.command import admin_command
from staticfire.system_under_test.admin import AdminClient, groups, topics
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.groups import RETRY_PREFIX
from staticfire.system_under_test.protocol.bodies_clients import ConsumerRunningInfo
from staticfire.system_under_test.protocol.bodies_queues import ConsumeStats

RUNS_FOR_MS = 120_000  # members that started later may not yet know of each other
BLOCKED_MS = 60_000
COLUMNS = (
    "consumerGroup",
    "topic",
    "undoneMsgsTotal",
    "undoneMsgsSingleMQ",
    "undoneMsgsDelayTimeMills",
)

Row = tuple[str, str, int, int, int]
Members = dict[str, ConsumerRunningInfo]  # by client id


@admin_command(
    "startMonitoring",
    "Show the lag of all groups with members, and why they stall.",
    "",
)
async def start_monitoring(admin: AdminClient) -> Answer:
    """The command does one round; mqadmin does one round each minute."""
    rows: list[Row] = []
    notices: list[str] = []
    for topic in await topics.topic_list(admin):
        if not topic.startswith(RETRY_PREFIX):
            continue
        group = topic.removeprefix(RETRY_PREFIX)
        try:
            rows += await _undone(admin, group)
            members = await _members(admin, group)
        except AdminError as error:
            if error.code is None:
                raise
            continue  # the group has no member
        notices += notices_of(group, members, time.time_ns() // 1_000_000)
    document = {
        "undoneMsgs": [dict(zip(COLUMNS, row, strict=True)) for row in rows],
        "notices": notices,
    }
    return Table(COLUMNS, rows, note="; ".join(notices), document=document)


async def _undone(admin: AdminClient, group: str) -> list[Row]:
    """Return a row for each topic of a group that has members. Raises AdminError."""
    stats = await groups.progress(admin, group)
    await groups.consumer_connections(admin, group)
    return [
        (group, topic, *await _undone_in(admin, topic, stats))
        for topic in sorted({queue.topic for queue in stats.offset_table})
    ]


async def _undone_in(admin: AdminClient, topic: str, stats: ConsumeStats) -> tuple[int, int, int]:
    """Return the lag, the largest lag of a queue, and the ms between the last consumed and the last stored message."""
    ends = (await topics.topic_stats(admin, topic)).offset_table
    of_topic = {queue: at for queue, at in stats.offset_table.items() if queue.topic == topic}
    lags = [max(0, position.lag) for position in of_topic.values()]
    delays_ms = [
        ends[queue].last_update_timestamp - position.last_timestamp
        for queue, position in of_topic.items()
        if position.last_timestamp > 0 and queue in ends
    ]
    return sum(lags), max(lags), max(0, *delays_ms, 0)


async def _members(admin: AdminClient, group: str) -> Members:
    """Return the members that report their state."""
    found: Members = {}
    for member in (await groups.consumer_connections(admin, group)).connection_set:
        try:
            found[member.client_id] = await groups.running_info(admin, group, member.client_id)
        except AdminError:
            continue
    return {name: found[name] for name in sorted(found)}


def notices_of(group: str, members: Members, now_ms: int) -> list[str]:
    """Yield notices: members whose subscriptions differ from the others', and stalled queues."""
    if not members:
        return []
    notices = []
    first = next(iter(members.values()))
    started_ms = _number(first.properties.get("PROP_CONSUMER_START_TIMESTAMP"))
    if _is_push(first) and now_ms - started_ms > RUNS_FOR_MS:
        subscriptions = [_subscription(info) for info in members.values()]
        if any(each != subscriptions[0] for each in subscriptions) or not subscriptions[0]:
            notices.append(f"ConsumerGroup: {group}, Subscription different")
    for client_id, info in members.items():
        if _is_push(info):
            head = f"ConsumerGroup: {group}, ClientId: {client_id}"
            notices += [f"{head}, {text}" for text in _standing(info, now_ms)]
    return notices


def _standing(info: ConsumerRunningInfo, now_ms: int) -> Iterator[str]:
    is_orderly = info.properties.get("PROP_CONSUMEORDERLY", "").lower() == "true"
    for queue, state in info.mq_table.items():
        where = f"{queue.topic} {queue.broker_name} {queue.queue_id}"
        if not is_orderly:
            silent_ms = now_ms - state.last_consume_timestamp
            if silent_ms > BLOCKED_MS and state.cached_msg_count > 0:
                yield f"{where} can't consume for a while, maybe blocked, {silent_ms}ms"
        elif not state.locked:
            yield f"{where} can't lock for a while, {now_ms - state.last_lock_timestamp}ms"
        elif state.dropped and state.try_unlock_times > 0:
            yield f"{where} unlock {state.try_unlock_times} times, still failed"


def _is_push(info: ConsumerRunningInfo) -> bool:
    return info.properties.get("PROP_CONSUME_TYPE") == "CONSUME_PASSIVELY"


def _subscription(info: ConsumerRunningInfo) -> list[tuple[object, ...]]:
    return sorted(
        (each.topic, each.sub_string, each.expression_type or "") for each in info.subscription_set
    )


def _number(text: str | None) -> int:
    return int(text) if text is not None and text.isdecimal() else 0


COMMANDS = (start_monitoring,)
