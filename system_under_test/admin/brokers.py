"""Administration of brokers: statistics, configuration, cleaning jobs."""

from __future__ import annotations

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.protocol.bodies_clients import BrokerStats, KVTable
from staticfire.system_under_test.protocol.bodies_queues import BrokerConsumeStats, ConsumeQueuePage
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.headers_admin import (
    BrokerStatsHeader,
    ConsumeStatsInBrokerHeader,
    QueryConsumeQueueHeader,
)

# not in RocketMQ: a master accepts sends although not all its slaves have answered
LIFT_CATCH_UP = 60001


async def runtime_info(admin: AdminClient, address: str) -> dict[str, str]:
    """The broker's runtime statistics: text values by name (code 28)."""
    code = RequestCode.GET_BROKER_RUNTIME_INFO
    return (await admin.ask_body(address, code, KVTable)).table


async def broker_config(admin: AdminClient, address: str) -> str:
    """The broker's options as text in Java's properties format."""
    answer = await admin.ask(address, RequestCode.GET_BROKER_CONFIG)
    return answer.body.decode(errors="replace")


async def update_broker_config(admin: AdminClient, address: str, key: str, value: str) -> None:
    body = f"{key}={value}".encode()
    await admin.ask(address, RequestCode.UPDATE_BROKER_CONFIG, body=body)


async def consume_stats(
    admin: AdminClient, address: str, *, is_order: bool = False
) -> BrokerConsumeStats:
    """The progress of all groups on one broker."""
    header = ConsumeStatsInBrokerHeader(is_order=is_order)
    code = RequestCode.GET_BROKER_CONSUME_STATS
    return await admin.ask_body(address, code, BrokerConsumeStats, header)


async def stats(admin: AdminClient, address: str, name: str, key: str) -> BrokerStats:
    """One counter of a broker. Raises AdminError with code 1 if it has never counted."""
    header = BrokerStatsHeader(stats_name=name, stats_key=key)
    return await admin.ask_body(address, RequestCode.VIEW_BROKER_STATS_DATA, BrokerStats, header)


async def consume_queue(
    admin: AdminClient, address: str, header: QueryConsumeQueueHeader
) -> ConsumeQueuePage:
    """Entries of a consume queue."""
    return await admin.ask_body(address, RequestCode.QUERY_CONSUME_QUEUE, ConsumeQueuePage, header)


async def clean_expired_consume_queues(admin: AdminClient, address: str) -> None:
    await admin.ask(address, RequestCode.CLEAN_EXPIRED_CONSUMEQUEUE)


async def clean_unused_topics(admin: AdminClient, address: str) -> None:
    await admin.ask(address, RequestCode.CLEAN_UNUSED_TOPIC)


async def delete_expired_commit_log(admin: AdminClient, address: str) -> None:
    await admin.ask(address, RequestCode.DELETE_EXPIRED_COMMITLOG)


async def lift_catch_up(admin: AdminClient, address: str) -> None:
    """Let a master accept sends although not all its slaves have answered: messages that only they have are lost."""
    await admin.ask(address, LIFT_CATCH_UP)
