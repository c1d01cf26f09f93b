"""Requests about clients: codes 34, 35, 38, and the notification 40 (RocketMQ, ClientManageProcessor)."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.metadata.consumer_filters import ConsumerFilters
from staticfire.system_under_test.broker.metadata.subscription_groups import (
    SubscriptionGroups,
    group_name_error,
)
from staticfire.system_under_test.broker.metadata.topics import Topics, make_retry_topic
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import ConsumerData, HeartbeatData
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import (
    ConsumerGroupHeader,
    UnregisterClientHeader,
)
from staticfire.system_under_test.remoting import Connection


class ClientRequests:
    """Handles heartbeats, unregistration and member lists."""

    def __init__(
        self,
        clients: Clients,
        topics: Topics,
        groups: SubscriptionGroups,
        filters: ConsumerFilters,
        *,
        is_slave: bool,
    ) -> None:
        self._clients = clients
        self._filters = filters
        self._topics = topics
        self._groups = groups
        self._is_slave = is_slave

    def heartbeat(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Register the clients of a connection; create the groups and retry topics that they need.

        Raises ValueError: the heartbeat lists too much; nothing has changed.
        """
        heartbeat = HeartbeatData.from_json(json_dialect.loads_request(request.body))
        self._clients.check(connection, heartbeat)
        self._filters.check(heartbeat.consumers)
        self._prepare_groups(heartbeat.consumers)
        self._clients.heartbeat(
            connection, heartbeat, language=request.language, version=request.version
        )
        for consumer in heartbeat.consumers:
            self._filters.register(consumer.group_name, consumer.subscriptions)
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def _prepare_groups(self, consumers: Sequence[ConsumerData]) -> None:
        """Create missing groups and retry topics, with one write for each of the two tables."""
        if self._is_slave:
            # a slave copies its master's tables: a version of its own would hide later changes
            return
        # A group with an invalid name cannot have a retry topic.
        sound = [one for one in consumers if group_name_error(one.group_name) is None]
        groups = self._groups.find_all([consumer.group_name for consumer in sound])
        retry_topics = [
            make_retry_topic(one.group_name, group.retry_queue_nums, unit_mode=one.unit_mode)
            for one in sound
            if (group := groups.get(one.group_name)) is not None and group.retry_queue_nums > 0
        ]
        # the disk is full: a later heartbeat or the first retry creates them
        with suppress(OSError):
            self._topics.create_missing(retry_topics)

    def unregister(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        header = UnregisterClientHeader.from_ext(request.ext_fields)
        self._clients.unregister(
            connection, producer_group=header.producer_group, consumer_group=header.consumer_group
        )
        return RemotingCommand.response(request, ResponseCode.SUCCESS)

    def consumer_list(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """The client ids of a group; code 1 if it has no member."""
        header = ConsumerGroupHeader.from_ext(request.ext_fields)
        group = self._clients.consumer_group(header.consumer_group)
        if group is None:
            return RemotingCommand.response(
                request,
                ResponseCode.SYSTEM_ERROR,
                f"no consumer for this group, {header.consumer_group}",
            )
        body = json_dialect.dumps({"consumerIdList": group.client_ids()})
        return RemotingCommand.response(request, ResponseCode.SUCCESS, body=body)


def notify_consumers_changed(group: str, connection: Connection) -> None:
    """Notify one member that its group has changed: it rebalances at once."""
    header = ConsumerGroupHeader(consumer_group=group)
    connection.invoke_oneway(
        RemotingCommand.request(RequestCode.NOTIFY_CONSUMER_IDS_CHANGED, header.to_ext())
    )
