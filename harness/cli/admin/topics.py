"""`staticfire admin`: topics."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import click

from harness.cli.admin.answers import Answer, Record, Table, time_text
from harness.cli.admin.command import (
    BROKER,
    CLUSTER,
    TOPIC,
    admin_command,
    done,
    flag_option,
    int_option,
    one_target,
    targets,
    text_option,
)
from harness.cli.status import BadInput
from system_under_test.admin import AdminClient, topics
from system_under_test.admin.errors import AdminError
from system_under_test.admin.groups import progress
from system_under_test.protocol.bodies import MessageQueue, TopicConfig

QUEUES_MAX = 1 << 15
PERMISSIONS = {"2": "write", "4": "read", "6": "read and write"}
PERMISSION = click.option(
    "-p",
    "--perm",
    type=click.Choice(list(PERMISSIONS)),
    default="6",
    show_default=True,
    help="2 write, 4 read, 6 both.",
)


@admin_command(
    "updateTopic",
    "Make a topic, or change it.",
    "-c DefaultCluster -t Orders -r 8 -w 8",
    BROKER,
    CLUSTER,
    TOPIC,
    int_option(
        "-r", "--readQueueNums", "read_queues", "Queues to read.", low=1, high=QUEUES_MAX, default=8
    ),
    int_option(
        "-w",
        "--writeQueueNums",
        "write_queues",
        "Queues to write.",
        low=1,
        high=QUEUES_MAX,
        default=8,
    ),
    PERMISSION,
    flag_option(
        "-o", "--order", "order", "Note the queues in the order configuration.", default=False
    ),
    flag_option("-u", "--unit", "unit", "Unit topic.", default=False),
    flag_option("-s", "--hasUnitSub", "unit_sub", "Has unit subscriptions.", default=False),
)
async def update_topic(
    admin: AdminClient,
    broker: str | None,
    cluster: str | None,
    topic: str,
    read_queues: int,
    write_queues: int,
    perm: str,
    order: bool,
    unit: bool,
    unit_sub: bool,
) -> Answer:
    """On one broker with -b, on all masters of a cluster with -c."""
    one_target(broker, cluster)
    config = TopicConfig(
        topic_name=topic,
        read_queue_nums=read_queues,
        write_queue_nums=write_queues,
        perm=int(perm),
        topic_sys_flag=topics.UNIT_FLAG * unit | topics.UNIT_SUB_FLAG * unit_sub,
        order=order,
    )
    addresses = await targets(admin, broker, cluster)
    for address in addresses:
        await topics.update_topic(admin, address, config)
    if order:
        names = {address: name for name, address in (await admin.masters(cluster)).items()}
        for address in addresses:
            if address in names:
                await topics.add_to_order(admin, topic, names[address], write_queues)
    return done("topic is set", topic=topic, brokers=addresses, queues=write_queues, perm=int(perm))


@admin_command(
    "updateTopicPerm",
    "Change whether a topic can be read and written.",
    "-c DefaultCluster -t Orders -p 4",
    BROKER,
    CLUSTER,
    TOPIC,
    PERMISSION,
)
async def update_topic_perm(
    admin: AdminClient, broker: str | None, cluster: str | None, topic: str, perm: str
) -> Answer:
    one_target(broker, cluster)
    rows = []
    for address in await targets(admin, broker, cluster):
        before = await topics.update_permission(admin, address, topic, int(perm))
        rows.append((address, topic, before.perm, int(perm)))
    return Table(("broker", "topic", "before", "perm"), rows)


@admin_command(
    "deleteTopic",
    "Delete a topic and its messages from a cluster.",
    "-c DefaultCluster -t Orders",
    text_option("-c", "--clusterName", "cluster", "Cluster.", required=True),
    TOPIC,
)
async def delete_topic(admin: AdminClient, cluster: str, topic: str) -> Answer:
    brokers = await topics.delete_topic(admin, topic, cluster)
    return done(
        "topic is deleted", topic=topic, brokers=brokers, nameServers=list(admin.name_servers)
    )


@admin_command(
    "topicList",
    "List the topics.",
    "",
    click.option(
        "-c", "--clusterModel", "detailed", is_flag=True, help="With clusters and groups."
    ),
)
async def topic_list(admin: AdminClient, detailed: bool) -> Answer:
    names = await topics.topic_list(admin)
    if not detailed:
        return Table(("topic",), [(name,) for name in names])
    rows: list[tuple[str, list[str], list[str]]] = []
    for name in names:
        try:
            clusters = await topics.topic_clusters(admin, name)
            rows.append((name, clusters, await topics.topic_groups(admin, name)))
        except AdminError as error:
            if error.code is None:
                raise
            rows.append((name, [], []))  # it went away meanwhile
    return Table(("topic", "clusters", "groups"), rows)


@admin_command("topicRoute", "Show where the queues of a topic are.", "-t Orders", TOPIC)
async def topic_route(admin: AdminClient, topic: str) -> Answer:
    route = await admin.route(topic)
    brokers = {broker.broker_name: broker for broker in route.broker_datas}
    rows = []
    for data in sorted(route.queue_datas, key=lambda each: each.broker_name):
        broker = brokers.get(data.broker_name)
        addresses = {} if broker is None else broker.broker_addrs
        rows.append(
            (
                "" if broker is None else broker.cluster,
                data.broker_name,
                data.read_queue_nums,
                data.write_queue_nums,
                data.perm,
                {str(number): addresses[number] for number in sorted(addresses)},
            )
        )
    columns = ("cluster", "brokerName", "readQueueNums", "writeQueueNums", "perm", "brokerAddrs")
    return Table(
        columns, rows, note=f"order: {route.order_topic_conf}" if route.order_topic_conf else ""
    )


@admin_command("topicStatus", "Show the offsets of each queue of a topic.", "-t Orders", TOPIC)
async def topic_status(admin: AdminClient, topic: str) -> Answer:
    stats = await topics.topic_stats(admin, topic)
    rows = [
        (
            queue.broker_name,
            queue.queue_id,
            offset.min_offset,
            offset.max_offset,
            time_text(offset.last_update_timestamp),
        )
        for queue, offset in stats.offset_table.items()
    ]
    return Table(("brokerName", "queueId", "minOffset", "maxOffset", "lastUpdated"), rows)


@admin_command("topicClusterList", "List the clusters that have a topic.", "-t Orders", TOPIC)
async def topic_cluster_list(admin: AdminClient, topic: str) -> Answer:
    return Table(("cluster",), [(name,) for name in await topics.topic_clusters(admin, topic)])


@admin_command(
    "updateOrderConf",
    "Show, set or delete the order configuration of a topic.",
    "-t Orders -m put -v 'broker-a:4;broker-b:4'",
    TOPIC,
    click.option("-m", "--method", type=click.Choice(["get", "put", "delete"]), required=True),
    text_option("-v", "--orderConf", "value", "Queues by broker, for put."),
)
async def update_order_conf(
    admin: AdminClient, topic: str, method: str, value: str | None
) -> Answer:
    if method == "get":
        return Record({"topic": topic, "orderConf": await topics.get_order(admin, topic)})
    if method == "delete":
        await topics.delete_order(admin, topic)
        return done("order configuration is deleted", topic=topic)
    if value is None:
        raise BadInput("put needs a value; allowed: -v 'broker-a:4;broker-b:4'")
    await topics.put_order(admin, topic, value)
    return done("order configuration is set", topic=topic, orderConf=value)


@admin_command(
    "allocateMQ",
    "Show which queues each member of a group would get.",
    "-t Orders -i 10.0.0.1,10.0.0.2",
    TOPIC,
    text_option("-i", "--ipList", "members", "Members, with commas.", required=True),
)
async def allocate_mq(admin: AdminClient, topic: str, members: str) -> Answer:
    """By the default strategy: the queues in order, in runs as equal as can be."""
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
    """The queues in runs; the first ones get one more if they do not come out even (AllocateMessageQueueAveragely)."""
    size, rest = divmod(len(queues), count)
    found, at = [], 0
    for index in range(count):
        end = at + size + (index < rest)
        found.append(queues[at:end])
        at = end
    return found


@admin_command(
    "statsAll",
    "Show how much each topic is written and read.",
    "-a",
    click.option("-a", "--activeTopic", "only_active", is_flag=True, help="Without idle topics."),
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
    from system_under_test.admin.brokers import stats  # beside the command of that name

    try:
        brokers = await admin.topic_brokers(topic)
        groups = await topics.topic_groups(admin, topic)
    except AdminError as error:
        if is_asked_for or error.code is None:
            raise
        return []  # it went away meanwhile

    async def total(name: str, key: str) -> tuple[float, int]:
        async def one(address: str) -> tuple[float, int]:
            try:
                found = await stats(admin, address, name, key)
            except AdminError as error:
                if error.code is None:
                    raise
                return 0.0, 0  # nothing was ever counted
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


COMMANDS = (
    update_topic,
    update_topic_perm,
    delete_topic,
    topic_list,
    topic_route,
    topic_status,
    topic_cluster_list,
    update_order_conf,
    allocate_mq,
    stats_all,
)
