"""The topics and groups of a broker except those of the system (RocketMQ: DefaultMQAdminExtImpl)."""

from __future__ import annotations

from dataclasses import replace

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.groups import DEAD_LETTER_PREFIX, RETRY_PREFIX
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.protocol.bodies_clients import SubscriptionGroupTable, TopicList
from staticfire.system_under_test.protocol.codes import RequestCode

SYSTEM_GROUP_PREFIX = "CID_RMQ_SYS_"
SYSTEM_GROUPS = frozenset(
    (
        "CID_ONS-HTTP-PROXY",
        "CID_ONSAPI_OWNER",
        "CID_ONSAPI_PERMISSION",
        "CID_ONSAPI_PULL",
        "CLIENT_INNER_PRODUCER",
        "DEFAULT_CONSUMER",
        "DEFAULT_PRODUCER",
        "FILTERSRV_CONSUMER",
        "SELF_TEST_C_GROUP",
        "SELF_TEST_P_GROUP",
        "TOOLS_CONSUMER",
        "__MONITOR_CONSUMER",
    )
)


async def user_topics(
    admin: AdminClient, address: str, *, with_special: bool = False
) -> TopicConfigTable:
    """The topics that clients created; `with_special` includes those of retries and dead letters."""
    table = await admin.ask_body(address, RequestCode.GET_ALL_TOPIC_CONFIG, TopicConfigTable)
    code = RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER
    system = set((await admin.ask_body(address, code, TopicList)).topic_list)
    hidden = () if with_special else (RETRY_PREFIX, DEAD_LETTER_PREFIX)
    topics = {
        name: config
        for name, config in sorted(table.topics.items())
        if name not in system and not name.startswith(hidden)
    }
    return replace(table, topics=topics)


async def user_groups(admin: AdminClient, address: str) -> SubscriptionGroupTable:
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    table = await admin.ask_body(address, code, SubscriptionGroupTable)
    groups = {
        name: config
        for name, config in sorted(table.groups.items())
        if name not in SYSTEM_GROUPS and not name.startswith(SYSTEM_GROUP_PREFIX)
    }
    return replace(table, groups=groups)
