"""Administration of consumer and producer groups: configuration, members, progress."""

from __future__ import annotations

import asyncio
from typing import TypeVar

from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.protocol.bodies import MessageQueue, SubscriptionGroupConfig
from staticfire.system_under_test.protocol.bodies_clients import (
    ConsumerConnections,
    ConsumerRunningInfo,
    ProducerConnections,
    ProducerTable,
    SubscriptionGroupTable,
)
from staticfire.system_under_test.protocol.bodies_queues import ConsumeStats, OffsetPosition
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.header_fields import Header
from staticfire.system_under_test.protocol.headers import ConsumerGroupHeader
from staticfire.system_under_test.protocol.headers_admin import (
    ConsumerRunningInfoHeader,
    ConsumeStatsHeader,
    DeleteSubscriptionGroupHeader,
    ProducerConnectionsHeader,
)
from staticfire.system_under_test.protocol.json_body import JsonBody
from staticfire.system_under_test.protocol.json_dialect import dumps

RETRY_PREFIX = "%RETRY%"
DEAD_LETTER_PREFIX = "%DLQ%"

Body = TypeVar("Body", bound=JsonBody)


async def update_group(admin: AdminClient, address: str, config: SubscriptionGroupConfig) -> None:
    """Create or change a group on one broker."""
    code = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
    await admin.ask(address, code, body=dumps(config.to_json()))


async def delete_group(
    admin: AdminClient, address: str, group: str, *, remove_offset: bool
) -> None:
    """Delete a group on one broker, with `remove_offset` also its offsets."""
    header = DeleteSubscriptionGroupHeader(group_name=group, remove_offset=remove_offset)
    await admin.ask(address, RequestCode.DELETE_SUBSCRIPTIONGROUP, header)


async def group_configs(admin: AdminClient, address: str) -> dict[str, SubscriptionGroupConfig]:
    """The groups of one broker by name."""
    code = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
    return (await admin.ask_body(address, code, SubscriptionGroupTable)).groups


async def all_groups(admin: AdminClient) -> list[str]:
    """The groups of all masters."""
    masters = await admin.masters()
    tables = await asyncio.gather(*(group_configs(admin, each) for each in masters.values()))
    return sorted({group for table in tables for group in table})


async def consumer_connections(
    admin: AdminClient, group: str, address: str | None = None
) -> ConsumerConnections:
    """The members of a consumer group; AdminError with code 206 if none is online.

    A member connects to every broker, so this returns the answer of the first broker that lists any.
    """
    header = ConsumerGroupHeader(consumer_group=group)
    code = RequestCode.GET_CONSUMER_CONNECTION_LIST
    if address is not None:
        return await admin.ask_body(address, code, ConsumerConnections, header)
    return await _ask_first(admin, code, ConsumerConnections, header)


async def producer_connections(admin: AdminClient, group: str) -> ProducerConnections:
    """The members of a producer group; AdminError if none is online."""
    header = ProducerConnectionsHeader(producer_group=group)
    code = RequestCode.GET_PRODUCER_CONNECTION_LIST
    return await _ask_first(admin, code, ProducerConnections, header)


async def all_producers(admin: AdminClient, address: str) -> ProducerTable:
    """Every producer that is connected to one broker."""
    return await admin.ask_body(address, RequestCode.GET_ALL_PRODUCER_INFO, ProducerTable)


async def running_info(
    admin: AdminClient, group: str, client_id: str, address: str | None = None
) -> ConsumerRunningInfo:
    """What a consumer reports about itself, requested through a broker that it is connected to."""
    header = ConsumerRunningInfoHeader(consumer_group=group, client_id=client_id)
    code = RequestCode.GET_CONSUMER_RUNNING_INFO
    if address is not None:
        return await admin.ask_body(address, code, ConsumerRunningInfo, header)
    return await _ask_first(admin, code, ConsumerRunningInfo, header)


async def progress(admin: AdminClient, group: str, topic: str | None = None) -> ConsumeStats:
    """The progress of a group in each queue, on all masters."""
    masters = await admin.masters()
    header = ConsumeStatsHeader(consumer_group=group, topic=topic)
    code = RequestCode.GET_CONSUME_STATS
    asked = (admin.ask_body(address, code, ConsumeStats, header) for address in masters.values())
    table: dict[MessageQueue, OffsetPosition] = {}
    tps = 0.0
    for found in await asyncio.gather(*asked):
        table.update(found.offset_table)
        tps += found.consume_tps
    ordered = {queue: table[queue] for queue in sorted(table)}
    return ConsumeStats(offset_table=ordered, consume_tps=tps)


async def _ask_first(admin: AdminClient, code: int, body_type: type[Body], header: Header) -> Body:
    """The first successful answer of a master. Raises AdminError if there is none."""
    failure: AdminError | None = None
    for address in (await admin.masters()).values():
        try:
            return await admin.ask_body(address, code, body_type, header)
        except AdminError as error:
            if failure is None or failure.code == ResponseCode.CONSUMER_NOT_ONLINE:
                failure = error
    assert failure is not None, "masters() finds at least one"
    raise failure
