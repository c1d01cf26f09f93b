"""Asks a broker whether it accepts an expression (RocketMQ: MQClientInstance.checkClientInBroker).

RocketMQ answers a pull with an invalid expression with every message, so the client must check it before.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.system_under_test.client.consumer.subscription import TAG, Subscription
from staticfire.system_under_test.client.errors import BrokerRefused, ClientError
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies_clients import CheckClientConfig
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingError

CHECK_TIMEOUT_S = 3.0  # RocketMQ: mqClientApiTimeout


async def check_subscriptions(
    client: ClientInstance, group: str, subscriptions: Sequence[Subscription]
) -> None:
    """Let brokers check the expressions that are not tags; accepts those for which no broker answers now.

    Raises BrokerRefused: a broker rejects an expression.
    """
    for subscription in subscriptions:
        if subscription.expression_type != TAG:
            await _check(client, group, subscription)


async def _check(client: ClientInstance, group: str, subscription: Subscription) -> None:
    body = CheckClientConfig(
        client_id=client.client_id, group=group, subscription_data=subscription.data()
    )
    try:
        route = await client.read_route(subscription.topic)
    except ClientError as error:
        client.env.log.info("expression was not checked", error=str(error))
        return
    for broker_name in route.brokers:
        command = RemotingCommand.request(RequestCode.CHECK_CLIENT_CONFIG, body=body.encode())
        try:
            _, response = await client.ask_replica(broker_name, command, CHECK_TIMEOUT_S)
        except (ClientError, RemotingError) as error:
            client.env.log.info("expression was not checked", broker=broker_name, error=str(error))
            continue
        if response.code != ResponseCode.SUCCESS:
            text = f"{broker_name} does not take the expression {subscription.expression!r:.200}"
            raise BrokerRefused(response.code, f"{text}: {response.remark}")
