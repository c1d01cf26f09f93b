"""`staticfire admin`: topics."""

from __future__ import annotations

from collections.abc import Mapping

import click

from staticfire.harness.cli.admin.acting import Effect, changes_in_words
from staticfire.harness.cli.admin.answers import Answer, Table, time_text
from staticfire.harness.cli.admin.command import (
    BROKER,
    CLUSTER,
    TOPIC,
    Values,
    admin_command,
    check_target,
    done,
    flag_option,
    ignored_option,
    int_option,
    named_targets,
    targets,
    text_option,
)
from staticfire.system_under_test.admin import AdminClient, key_values, topics
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies import TopicConfig

QUEUES_MAX = 1 << 15
PERMISSIONS = {"2": "write", "4": "read", "6": "read and write"}
PERMISSION = click.option(
    "-p",
    "--perm",
    type=click.Choice(list(PERMISSIONS)),
    default="6",
    show_default=True,
    help="2: write. 4: read. 6: both.",
)


NOUNS = {"readQueueNums": "read queues", "writeQueueNums": "write queues"}
ORDER = "order"  # settings that brokers never change


def _wanted(values: Values) -> TopicConfig:
    flags = topics.UNIT_FLAG * values["unit"] | topics.UNIT_SUB_FLAG * values["unit_sub"]
    return TopicConfig(
        topic_name=values["topic"],
        read_queue_nums=values["read_queues"],
        write_queue_nums=values["write_queues"],
        perm=int(values["perm"]),
        topic_sys_flag=flags,
        order=values["order"],
    )


async def _overwritten(admin: AdminClient, values: Values) -> list[str]:
    """Raises AdminError."""
    topic, there = values["topic"], {}
    addresses = await named_targets(admin, values["broker"], values["cluster"])
    for name, address in addresses.items():
        if (found := await topics.find_topic(admin, address, topic)) is not None:
            there[name] = found.to_json()
    wanted = {name: value for name, value in _wanted(values).to_json().items() if name != ORDER}
    changes = changes_in_words(f"topic {topic!r}", there, wanted, NOUNS)
    return changes + (await _order_overwritten(admin, values) if values["order"] else [])


async def _order_overwritten(admin: AdminClient, values: Values) -> list[str]:
    """Raises AdminError."""
    addresses = await targets(admin, values["broker"], values["cluster"])
    masters = await admin.masters(values["cluster"])
    there = await key_values.pair_on_each(admin, topics.ORDER_NAMESPACE, values["topic"])
    wanted = next(
        iter(there.values()), ""
    )  # the configuration of the first broker goes to all name servers
    for name in (name for name, address in masters.items() if address in addresses):
        wanted = topics.with_order(wanted, name, values["write_queues"])
    return order_change(values["topic"], there, wanted)


def order_change(topic: str, there: Mapping[str, str], wanted: str) -> list[str]:
    """Describe how the order configuration of a topic would change, by name server."""
    configs = {server: {"orderConf": value} for server, value in there.items()}
    return changes_in_words(f"the order configuration of {topic!r}", configs, {"orderConf": wanted})


@admin_command(
    "updateTopic",
    "Create or change a topic.",
    "-c DefaultCluster -t Orders -r 8 -w 8",
    BROKER,
    CLUSTER,
    TOPIC,
    int_option(
        "-r",
        "--readQueueNums",
        "read_queues",
        "Number of read queues.",
        low=1,
        high=QUEUES_MAX,
        default=8,
    ),
    int_option(
        "-w",
        "--writeQueueNums",
        "write_queues",
        "Number of write queues.",
        low=1,
        high=QUEUES_MAX,
        default=8,
    ),
    PERMISSION,
    flag_option(
        "-o", "--order", "order", "Record the queues in the order configuration.", default=False
    ),
    flag_option("-u", "--unit", "unit", "Whether this is a unit topic.", default=False),
    flag_option(
        "-s", "--hasUnitSub", "unit_sub", "Whether the topic has unit subscriptions.", default=False
    ),
    effect=Effect.CHANGES,
    check=check_target,
    overwrites=_overwritten,
)
async def update_topic(
    admin: AdminClient, broker: str | None, cluster: str | None, **settings: object
) -> Answer:
    """Act on one broker with -b, or all masters of a cluster with -c. An existing topic gets all of these settings."""
    config = _wanted(settings)
    topic, queues = config.topic_name, config.write_queue_nums
    addresses = await targets(admin, broker, cluster)
    for address in addresses:
        await topics.update_topic(admin, address, config)
    if config.order:
        names = {address: name for name, address in (await admin.masters(cluster)).items()}
        for address in addresses:
            if address in names:
                await topics.add_to_order(admin, topic, names[address], queues)
    return done("topic is set", topic=topic, brokers=addresses, queues=queues, perm=config.perm)


@admin_command(
    "updateTopicPerm",
    "Change whether a topic can be read and written.",
    "-c DefaultCluster -t Orders -p 4",
    BROKER,
    CLUSTER,
    TOPIC,
    PERMISSION,
    effect=Effect.DESTROYS,
    check=check_target,
)
async def update_topic_perm(
    admin: AdminClient, broker: str | None, cluster: str | None, topic: str, perm: str
) -> Answer:
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
    effect=Effect.DESTROYS,
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
        "-c", "--clusterModel", "detailed", is_flag=True, help="Also show clusters and groups."
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
            rows.append((name, [], []))  # the topic was deleted meanwhile
    return Table(("topic", "clusters", "groups"), rows)


@admin_command(
    "topicRoute",
    "Show the brokers that have queues of a topic.",
    "-t Orders",
    TOPIC,
    ignored_option("-l", "--list", is_flag=True),
)
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


COMMANDS = (
    update_topic,
    update_topic_perm,
    delete_topic,
    topic_list,
    topic_route,
    topic_status,
    topic_cluster_list,
)
