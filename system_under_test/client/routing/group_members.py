"""Fetches the members of a group (RocketMQ: MQClientInstance.findConsumerIdList).

Every member computes its share from the list of queues and the list of members. The shares agree as long as the lists
agree, so all members ask the same broker for the members: the first by name that answers.
"""

from __future__ import annotations

import asyncio
from functools import partial

from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import MASTER_ID, Route
from staticfire.system_under_test.client.waiting import first_good
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import ConsumerGroupHeader

LIST_TIMEOUT_S = 3.0  # RocketMQ: mqClientApiTimeout
HEDGE_S = 0.5  # after this wait the client asks the next broker, too


async def member_ids(client: ClientInstance, route: Route, group: str) -> list[str] | None:
    """The client ids of the group, from one broker of the route; None if no broker has this client in its list.

    A broker that has just restarted lists no members, and its list would take all our queues away. So a list without
    this client does not count.
    """
    questions = [partial(_ask, client, address, group) for address in _in_order(client, route)]
    answer = await first_good(
        questions, lambda response: client.client_id in _ids(response), patience_s=HEDGE_S
    )
    return None if answer is None else _ids(answer)


def may_lack_members(client: ClientInstance, route: Route) -> bool:
    """Whether every available broker has just come back, so that members may not have registered yet."""
    return all(client.health.is_greeting(address) for address in _in_order(client, route))


def _in_order(client: ClientInstance, route: Route) -> list[str]:
    """Masters by broker name, then slaves, then brokers that have just come back and list few members yet."""
    health = client.health
    ranked = sorted(
        (health.is_settling(address), broker_id != MASTER_ID, broker.broker_name, address)
        for broker in route.brokers.values()
        for broker_id, address in broker.addresses.items()
        if health.is_answering(address)
    )
    return [address for *_, address in ranked]


def _ask(client: ClientInstance, address: str, group: str) -> asyncio.Future[RemotingCommand]:
    header = ConsumerGroupHeader(consumer_group=group)
    command = RemotingCommand.request(RequestCode.GET_CONSUMER_LIST_BY_GROUP, header.to_ext())
    return client.ask(address, command, LIST_TIMEOUT_S)


def _ids(response: RemotingCommand) -> list[str]:
    if response.code != ResponseCode.SUCCESS:
        return []
    ids = json_dialect.loads(response.body).get("consumerIdList", [])
    return [str(client_id) for client_id in ids]
