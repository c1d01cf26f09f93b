"""Clients: codes 41, 42, 46, 203, 204, 328 (RocketMQ, AdminBrokerProcessor, ClientManageProcessor)."""

from __future__ import annotations

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.clients.clients import Member
from staticfire.system_under_test.broker.metadata.tag_filter import is_tag_expression, sql_refusal
from staticfire.system_under_test.broker.responses import answer_error, answer_ok
from staticfire.system_under_test.filters.sql92_expressions import FilterSyntaxError
from staticfire.system_under_test.protocol.bodies_clients import (
    CheckClientConfig,
    ClientConnection,
    ConsumerConnections,
    ProducerConnections,
    ProducerInfo,
    ProducerTable,
)
from staticfire.system_under_test.protocol.bodies_queues import LockedQueues, QueueLockRequest
from staticfire.system_under_test.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import ConsumerGroupHeader
from staticfire.system_under_test.protocol.headers_admin import ProducerConnectionsHeader
from staticfire.system_under_test.remoting import Connection, Handler

NS_PER_MS = 1_000_000


class ConsumerRequests:
    """Handles requests about connected clients and about locks on queues."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.LOCK_BATCH_MQ: self.lock,
            RequestCode.UNLOCK_BATCH_MQ: self.unlock,
            RequestCode.CHECK_CLIENT_CONFIG: self.check_client,
            RequestCode.GET_CONSUMER_CONNECTION_LIST: self.consumer_connections,
            RequestCode.GET_PRODUCER_CONNECTION_LIST: self.producer_connections,
            RequestCode.GET_ALL_PRODUCER_INFO: self.all_producers,
        }

    def lock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Lock those of the requested queues that are free or the client's own."""
        wanted = QueueLockRequest.from_request(request.body)
        held = self._parts.locks.lock(wanted.consumer_group, wanted.queues, wanted.client_id)
        return answer_ok(request, LockedQueues(queues=held))

    def unlock(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        given_up = QueueLockRequest.from_request(request.body)
        self._parts.locks.unlock(given_up.consumer_group, given_up.queues, given_up.client_id)
        return answer_ok(request)

    def check_client(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Check whether this broker supports a client's filter; without a body or a subscription, accept."""
        if not request.body:
            return answer_ok(request)
        subscription = CheckClientConfig.from_request(request.body).subscription_data
        if subscription is None or is_tag_expression(subscription.expression_type):
            return answer_ok(request)
        if not self._parts.config.property_filter:
            return answer_error(request, sql_refusal(subscription.expression_type))
        try:
            self._parts.filters.compile(subscription.expression_type, subscription.sub_string)
        except FilterSyntaxError as error:
            return RemotingCommand.response(
                request, ResponseCode.SUBSCRIPTION_PARSE_FAILED, str(error)
            )
        return answer_ok(request)

    def consumer_connections(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        """Members, subscriptions and consumption settings of a group; code 206 if it has no member."""
        name = ConsumerGroupHeader.from_ext(request.ext_fields).consumer_group
        group = self._parts.clients.consumer_group(name)
        if group is None:
            return RemotingCommand.response(
                request,
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"the consumer group[{name}] not online",
            )
        body = ConsumerConnections(
            connection_set=[connection_of(member) for member in group.members.values()],
            subscription_table=group.subscriptions,
            consume_type=group.data.consume_type,
            message_model=group.data.message_model,
            consume_from_where=group.data.consume_from_where,
        )
        return answer_ok(request, body)

    def producer_connections(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand:
        name = ProducerConnectionsHeader.from_ext(request.ext_fields).producer_group
        members = self._parts.clients.producers(name)
        if not members:
            return answer_error(request, f"the producer group[{name}] not exist")
        found = [connection_of(member) for member in members]
        return answer_ok(request, ProducerConnections(connection_set=found))

    def all_producers(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        clients = self._parts.clients
        data = {
            name: [self._info_of(member) for member in clients.producers(name)]
            for name in clients.producer_groups()
        }
        return answer_ok(request, ProducerTable(data=data))

    def _info_of(self, member: Member) -> ProducerInfo:
        clock = self._parts.clock
        silent_ms = (clock.monotonic_ns() - member.seen_at_ns) // NS_PER_MS
        return ProducerInfo(
            client_id=member.client_id,
            remote_ip=f"/{member.connection.address}",  # as Java prints a socket address
            language=language_name(member.language),
            version=member.version,
            last_update_timestamp=clock.wall_ms() - silent_ms,
        )


def connection_of(member: Member) -> ClientConnection:
    return ClientConnection(
        client_id=member.client_id,
        client_addr=member.connection.address,
        language=language_name(member.language),
        version=member.version,
    )


def language_name(code: int) -> str:
    """The name of a client's language; OTHER for one that RocketMQ does not know."""
    try:
        return LanguageCode(code).name
    except ValueError:
        return LanguageCode.OTHER.name
