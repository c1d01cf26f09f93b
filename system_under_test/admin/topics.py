"""Administration of topics (RocketMQ: mqadmin's topic commands)."""

from __future__ import annotations

import asyncio
from dataclasses import replace

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.admin.key_values import (
    delete_key_value,
    get_key_value,
    put_key_value,
)
from staticfire.system_under_test.protocol.bodies import TopicConfig, TopicConfigTable
from staticfire.system_under_test.protocol.bodies_clients import GroupList, TopicList
from staticfire.system_under_test.protocol.bodies_queues import TopicStats
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.headers import CreateTopicHeader, TopicHeader

TEMPLATE_TOPIC = "TBW102"  # RocketMQ: TopicValidator.AUTO_CREATE_TOPIC_KEY_TOPIC
ORDER_NAMESPACE = "ORDER_TOPIC_CONFIG"  # RocketMQ: NamesrvUtil.NAMESPACE_ORDER_TOPIC_CONFIG
UNIT_FLAG = 1  # RocketMQ: TopicSysFlag
UNIT_SUB_FLAG = 2


async def update_topic(admin: AdminClient, address: str, topic: TopicConfig) -> None:
    """Create or change a topic on one broker."""
    header = CreateTopicHeader(
        topic=topic.topic_name,
        default_topic=TEMPLATE_TOPIC,
        read_queue_nums=topic.read_queue_nums,
        write_queue_nums=topic.write_queue_nums,
        perm=topic.perm,
        topic_filter_type=topic.topic_filter_type,
        topic_sys_flag=topic.topic_sys_flag,
        order=topic.order,
    )
    await admin.ask(address, RequestCode.UPDATE_AND_CREATE_TOPIC, header)


async def find_topic(admin: AdminClient, address: str, topic: str) -> TopicConfig | None:
    """The configuration of a topic on one broker; None if it does not exist there."""
    table = await admin.ask_body(address, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
    return table.topics.get(topic)


async def topic_config(admin: AdminClient, address: str, topic: str) -> TopicConfig:
    """The configuration of a topic on one broker. Raises AdminError with code 17 if it does not exist there."""
    found = await find_topic(admin, address, topic)
    if found is None:
        raise AdminError(f"{address} has no topic {topic!r}", ResponseCode.TOPIC_NOT_EXIST)
    return found


async def update_permission(admin: AdminClient, address: str, topic: str, perm: int) -> TopicConfig:
    """Change only the permission; returns the previous configuration."""
    before = await topic_config(admin, address, topic)
    await update_topic(admin, address, replace(before, perm=perm))
    return before


async def delete_topic(admin: AdminClient, topic: str, cluster: str) -> list[str]:
    """Delete a topic on all masters of a cluster and on the name servers; returns the masters."""
    masters = await admin.masters(cluster)
    header = TopicHeader(topic=topic)
    code = RequestCode.DELETE_TOPIC_IN_BROKER
    await asyncio.gather(*(admin.ask(address, code, header) for address in masters.values()))
    in_name_server = {"topic": topic, "clusterName": cluster}
    await admin.ask_name_servers(RequestCode.DELETE_TOPIC_IN_NAMESRV, in_name_server)
    await delete_key_value(admin, ORDER_NAMESPACE, topic)
    return list(masters.values())


async def topic_list(admin: AdminClient) -> list[str]:
    code = RequestCode.GET_ALL_TOPIC_LIST_FROM_NAMESERVER
    return sorted((await admin.name_server_body(code, TopicList)).topic_list)


async def topic_clusters(admin: AdminClient, topic: str) -> list[str]:
    """The clusters that have the topic."""
    route = await admin.route(topic)
    return sorted({broker.cluster for broker in route.broker_datas})


async def topic_stats(admin: AdminClient, topic: str) -> TopicStats:
    """First and next offset of each queue."""
    brokers = await admin.topic_brokers(topic)
    code, header = RequestCode.GET_TOPIC_STATS_INFO, TopicHeader(topic=topic)
    asked = (admin.ask_body(address, code, TopicStats, header) for address in brokers.values())
    merged = {}
    for stats in await asyncio.gather(*asked):
        merged.update(stats.offset_table)
    return TopicStats(offset_table={queue: merged[queue] for queue in sorted(merged)})


async def topic_groups(admin: AdminClient, topic: str) -> list[str]:
    """The groups that consume, or have consumed, the topic."""
    brokers = await admin.topic_brokers(topic)
    code, header = RequestCode.QUERY_TOPIC_CONSUME_BY_WHO, TopicHeader(topic=topic)
    asked = (admin.ask_body(address, code, GroupList, header) for address in brokers.values())
    return sorted({group for found in await asyncio.gather(*asked) for group in found.group_list})


# The order configuration: `broker-a:4;broker-b:4`, how many queues of an ordered topic each broker has


async def get_order(admin: AdminClient, topic: str) -> str:
    return await get_key_value(admin, ORDER_NAMESPACE, topic)


async def put_order(admin: AdminClient, topic: str, value: str) -> None:
    await put_key_value(admin, ORDER_NAMESPACE, topic, value)


async def delete_order(admin: AdminClient, topic: str) -> None:
    await delete_key_value(admin, ORDER_NAMESPACE, topic)


async def add_to_order(admin: AdminClient, topic: str, broker_name: str, queues: int) -> str:
    """Set one broker's number of queues in the order configuration; returns the whole value."""
    try:
        before = await get_order(admin, topic)
    except AdminError as error:
        if error.code != ResponseCode.QUERY_NOT_FOUND:
            raise
        before = ""
    value = with_order(before, broker_name, queues)
    await put_order(admin, topic, value)
    return value


def with_order(before: str, broker_name: str, queues: int) -> str:
    """The order configuration `before` with this number of queues for one broker."""
    entries = dict(part.split(":", 1) for part in before.split(";") if ":" in part)
    entries[broker_name] = str(queues)
    return ";".join(f"{name}:{count}" for name, count in entries.items())
