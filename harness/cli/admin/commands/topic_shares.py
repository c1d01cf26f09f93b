"""`staticfire admin`: shows how members share the queues of a topic, and the rates of topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from staticfire.harness.cli.admin.acting import Effect
from staticfire.harness.cli.admin.answers import Answer, Record, Table
from staticfire.harness.cli.admin.command import (
    TOPIC,
    Values,
    admin_command,
    done,
    text_option,
)
from staticfire.harness.cli.admin.commands.topics import order_change
from staticfire.harness.cli.status import BadInput
from staticfire.system_under_test.admin import AdminClient, key_values, topics
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.groups import progress
from staticfire.system_under_test.protocol.bodies import MessageQueue


def _order_effect(values: Values) -> Effect:
    return {"get": Effect.READS, "put": Effect.CHANGES, "delete": Effect.DESTROYS}[values["method"]]


async def _overwritten(admin: AdminClient, values: Values) -> list[str]:
    """Raises AdminError."""
    topic = values["topic"]
    there = await key_values.pair_on_each(admin, topics.ORDER_NAMESPACE, topic)
    return order_change(topic, there, values["value"])


def _check_order(values: Values) -> None:
    if values["method"] == "put" and values["value"] is None:
        raise BadInput("put needs a value; allowed: -v 'broker-a:4;broker-b:4'")


@admin_command(
    "updateOrderConf",
    "Show, set or delete the order configuration of a topic.",
    "-t Orders -m put -v 'broker-a:4;broker-b:4'",
    TOPIC,
    click.option("-m", "--method", type=click.Choice(["get", "put", "delete"]), required=True),
    text_option("-v", "--orderConf", "value", "Number of queues by broker, for put."),
    effect=_order_effect,
    check=_check_order,
    overwrites=_overwritten,
)
async def update_order_conf(
    admin: AdminClient, topic: str, method: str, value: str | None
) -> Answer:
    if method == "get":
        return Record({"topic": topic, "orderConf": await topics.get_order(admin, topic)})
    if method == "delete":
        await topics.delete_order(admin, topic)
        return done("order configuration is deleted", topic=topic)
    assert value is not None, "_check_order has refused put without a value"
    await topics.put_order(admin, topic, value)
    return done("order configuration is set", topic=topic, orderConf=value)


@admin_command(
    "allocateMQ",
    "Show which queues each member of a group would get.",
    "-t Orders -i 10.0.0.1,10.0.0.2",
    TOPIC,
    text_option("-i", "--ipList", "members", "Members, separated by commas.", required=True),
)
async def allocate_mq(admin: AdminClient, topic: str, members: str) -> Answer:
    """Use the default strategy: each member gets a run of consecutive queues, as equal in size as possible."""
    names = [name.strip() for name in members.split(",") if name.strip()]
    if not names:
        raise BadInput(f"members is {members!r}; allowed: names with commas")
    route = await admin.route(topic)
    queues = [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in sorted(route.queue_datas, key=lambda each: each.broker_name)
        if data.perm & 4
        for queue_id in range(data.read_queue_nums)
    ]
    rows = [
        (member, queue.broker_name, queue.queue_id)
        for member, share in zip(names, shares(queues, len(names)), strict=True)
        for queue in share
    ]
    return Table(("member", "brokerName", "queueId"), rows)


def shares(queues: Sequence[MessageQueue], count: int) -> list[Sequence[MessageQueue]]:
    """Return the queues in runs; the first ones may be one longer (AllocateMessageQueueAveragely)."""
    size, rest = divmod(len(queues), count)
    found, at = [], 0
    for index in range(count):
        end = at + size + (index < rest)
        found.append(queues[at:end])
        at = end
    return found


@admin_command(
    "statsAll",
    "Show the rates of writes and reads of each topic.",
    "-a",
    click.option("-a", "--activeTopic", "only_active", is_flag=True, help="Leave out idle topics."),
    text_option("-t", "--topic", "topic", "Only this topic."),
)
async def stats_all(admin: AdminClient, only_active: bool, topic: str | None) -> Answer:
    names = [topic] if topic is not None else await topics.topic_list(admin)
    rows: list[tuple[object, ...]] = []
    for name in names:
        if not name.startswith(("%RETRY%", "%DLQ%")):
            rows += await _topic_rows(admin, name, is_asked_for=topic is not None)
    if only_active:
        rows = [row for row in rows if row[5] or row[6]]
    columns = ("topic", "group", "lag", "inTps", "outTps", "in24h", "out24h")
    return Table(columns, rows)


async def _topic_rows(
    admin: AdminClient, topic: str, *, is_asked_for: bool
) -> list[tuple[object, ...]]:
    from staticfire.system_under_test.admin.brokers import stats  # beside the command of that name

    try:
        brokers = await admin.topic_brokers(topic)
        groups = await topics.topic_groups(admin, topic)
    except AdminError as error:
        if is_asked_for or error.code is None:
            raise
        return []  # the topic was deleted meanwhile

    async def total(name: str, key: str) -> tuple[float, int]:
        async def one(address: str) -> tuple[float, int]:
            try:
                found = await stats(admin, address, name, key)
            except AdminError as error:
                if error.code is None:
                    raise
                return 0.0, 0  # the broker has never counted this
            return found.stats_minute.tps, max(found.stats_day.sum, found.stats_minute.sum)

        counted = await asyncio.gather(*map(one, brokers.values()))
        return sum(tps for tps, _ in counted), sum(count for _, count in counted)

    in_tps, in_count = await total("TOPIC_PUT_NUMS", topic)
    rows: list[tuple[object, ...]] = []
    for group in groups:
        out_tps, out_count = await total("GROUP_GET_NUMS", f"{topic}@{group}")
        lag = (await progress(admin, group, topic)).total_lag
        rows.append((topic, group, lag, in_tps, out_tps, in_count, out_count))
    return rows or [(topic, None, 0, in_tps, 0.0, in_count, 0)]


COMMANDS = (update_order_conf, allocate_mq, stats_all)
