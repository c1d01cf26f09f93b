"""Relays administrators' requests to consumers: codes 222, 223, 307, 309 (RocketMQ, Broker2Client).

The broker answers the administrator once the consumer has answered or the time is up. It needs no task for that:
callbacks of the requests to consumers do the work.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from functools import partial

from staticfire.system_under_test.broker.administration.parts import AdminParts
from staticfire.system_under_test.broker.clients.asked_clients import AskedClients
from staticfire.system_under_test.broker.clients.clients import ConsumerGroup, Member
from staticfire.system_under_test.broker.refusal import Refused
from staticfire.system_under_test.broker.responses import answer_error, answer_ok
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_queues import (
    ConsumerStatus,
    QueueOffsetForC,
    ResetOffsetBody,
    ResetOffsetBodyForC,
)
from staticfire.system_under_test.protocol.codes import LanguageCode, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, size_of
from staticfire.system_under_test.protocol.headers_admin import (
    ConsumeMessageDirectlyHeader,
    ConsumerRunningInfoHeader,
    ConsumerStatusHeader,
    ResetOffsetHeader,
)
from staticfire.system_under_test.protocol.message import parse_offset_message_id
from staticfire.system_under_test.remoting import Connection, Handler, RemotingTimeout

STATUS_TIMEOUT_S = 5.0  # RocketMQ, Broker2Client.getConsumeStatus
RELAY_TIMEOUT_S = 10.0  # RocketMQ, Broker2Client.callClient
RESET_VERSION_MIN = 28  # MQVersion V3_0_7_SNAPSHOT
RELAY_VERSION_MIN = 62  # MQVersion V3_1_8_SNAPSHOT
END_OF_QUEUE = -1  # instead of a timestamp


class RelayRequests:
    """Handles administrators' requests for which consumers must be asked."""

    def __init__(self, parts: AdminParts) -> None:
        self._parts = parts
        self._asked = AskedClients()

    def handlers(self) -> dict[int, Handler]:
        return {
            RequestCode.INVOKE_BROKER_TO_RESET_OFFSET: self.reset_offset,
            RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS: self.consumer_status,
            RequestCode.GET_CONSUMER_RUNNING_INFO: self.running_info,
            RequestCode.CONSUME_MESSAGE_DIRECTLY: self.consume_directly,
        }

    # Reset: 222 -> 220

    def reset_offset(self, connection: Connection, request: RemotingCommand) -> RemotingCommand:
        """Send new offsets to every member of a group. The broker does not change its own table: the members commit."""
        header = ResetOffsetHeader.from_ext(request.ext_fields)
        try:
            targets = dict(self._targets(header))
            members = self._members_to_reset(header)
        except Refused as refusal:
            return refusal.answer(request)
        for_c = request.language == LanguageCode.CPP
        order = RemotingCommand.request(
            RequestCode.RESET_CONSUMER_CLIENT_OFFSET,
            replace(header, is_force=False).to_ext(),  # RocketMQ does not pass it on
            encode_targets(targets, for_c=for_c),
        )
        for member in members:
            member.connection.invoke_oneway(order)
        return answer_ok(request, ResetOffsetBody(offset_table=targets))

    def _targets(self, header: ResetOffsetHeader) -> Iterator[tuple[MessageQueue, int]]:
        """The new offset in each write queue that moves: backwards, or forwards only if forced. Raises Refused."""
        settings = self._parts.topics.get(header.topic)
        if settings is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                "[reset-offset] reset offset failed, no topic in this broker. "
                f"topic={header.topic}",
            )
        for queue_id in range(settings.write_queue_nums):
            current = self._parts.offsets.query(header.group, header.topic, queue_id)
            if current is None or current < 0:
                raise Refused(
                    ResponseCode.SYSTEM_ERROR, f"THe consumer group <{header.group}> not exist"
                )
            wanted = self._offset_at(header, queue_id)
            queue = MessageQueue(header.topic, self._parts.config.broker_name, queue_id)
            yield queue, wanted if header.is_force else min(wanted, current)

    def _offset_at(self, header: ResetOffsetHeader, queue_id: int) -> int:
        store = self._parts.store
        if header.timestamp == END_OF_QUEUE:
            return store.queue_bounds(header.topic, queue_id)[1]
        return max(0, store.queue_view.search_by_time(header.topic, queue_id, header.timestamp))

    def _members_to_reset(self, header: ResetOffsetHeader) -> list[Member]:
        group = self._parts.clients.consumer_group(header.group)
        if group is None:
            raise Refused(
                ResponseCode.CONSUMER_NOT_ONLINE,
                f"Consumer not online, so can not reset offset, Group: {header.group} "
                f"Topic: {header.topic} Timestamp: {header.timestamp}",
            )
        return new_enough(group)

    # Status: 223 -> 221

    def consumer_status(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """The offsets that each member reports; leaves out members that do not answer."""
        header = ConsumerStatusHeader.from_ext(request.ext_fields)
        group = self._parts.clients.consumer_group(header.group)
        if group is None:
            return answer_error(
                request, f"No Any Consumer online in the consumer group: [{header.group}]"
            )
        try:
            members = new_enough(group)
        except Refused as refusal:
            return refusal.answer(request)
        if header.client_addr:
            members = [member for member in members if member.client_id == header.client_addr]
        if not self._asked.begin(len(members), 0):
            return self._asked.refuse(request)
        StatusCollection(connection, request, header, members, self._asked).begin()
        return None

    # One client: 307, 309

    def running_info(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Relay a request for the state of one member (code 307)."""
        header = ConsumerRunningInfoHeader.from_ext(request.ext_fields)
        return self._relay(connection, request, header.consumer_group, header.client_id)

    def consume_directly(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Let one member consume one message now, regardless of its group's offset."""
        header = ConsumeMessageDirectlyHeader.from_ext(request.ext_fields)
        try:
            request.body = self._record(header.msg_id)
        except Refused as refusal:
            return refusal.answer(request)
        request.ext_fields["brokerName"] = self._parts.config.broker_name
        return self._relay(connection, request, header.consumer_group, header.client_id)

    def _record(self, message_id: str | None) -> bytes:
        """The stored record. Raises Refused."""
        try:
            offset = parse_offset_message_id(message_id or "")[2]
        except ValueError:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"msgId is {message_id!r}, not an offset message id"
            ) from None
        record = self._parts.store.look_up(offset)
        if record is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"can not find message by the offset, {offset}"
            )
        return record

    def _relay(
        self, connection: Connection, request: RemotingCommand, group: str, client_id: str | None
    ) -> RemotingCommand | None:
        try:
            member = self._member(group, client_id)
        except Refused as refusal:
            return refusal.answer(request)
        size = size_of(request)
        if not self._asked.begin(1, size):
            return self._asked.refuse(request)
        order = RemotingCommand.request(request.code, dict(request.ext_fields), request.body)
        answer = member.connection.invoke_nowait(order, RELAY_TIMEOUT_S)
        who = f"<{group}> <{client_id}>"
        answer.add_done_callback(partial(self._answered, connection, request, who, size))
        return None

    def _answered(
        self,
        connection: Connection,
        request: RemotingCommand,
        who: str,
        size: int,
        answer: asyncio.Future[RemotingCommand],
    ) -> None:
        self._asked.end(1, size)
        pass_back(connection, request, who, answer)

    def _member(self, group_name: str, client_id: str | None) -> Member:
        group = self._parts.clients.consumer_group(group_name)
        members = [] if group is None else list(group.members.values())
        member = next((one for one in members if one.client_id == client_id), None)
        if member is None:
            raise Refused(
                ResponseCode.SYSTEM_ERROR, f"The Consumer <{group_name}> <{client_id}> not online"
            )
        if member.version < RELAY_VERSION_MIN:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"The Consumer <{client_id}> Version <{member.version}> too low to finish, "
                "please upgrade it to V3_1_8_SNAPSHOT",
            )
        return member


class StatusCollection:
    """Merges the answers of several members to code 221 into one answer."""

    def __init__(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: ConsumerStatusHeader,
        members: list[Member],
        asked: AskedClients,
    ) -> None:
        self._asked = asked
        self._connection = connection
        self._request = request
        self._header = header
        self._members = members
        self._awaited = len(members)
        self._offsets: dict[str, dict[MessageQueue, int]] = {}

    def begin(self) -> None:
        for member in self._members:
            order = RemotingCommand.request(
                RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT, self._header.to_ext()
            )
            answer = member.connection.invoke_nowait(order, STATUS_TIMEOUT_S)
            answer.add_done_callback(partial(self._answered, member.client_id))
        if not self._members:
            self._finish()

    def _answered(self, client_id: str, answer: asyncio.Future[RemotingCommand]) -> None:
        self._awaited -= 1
        self._asked.end(1, 0)
        if not answer.cancelled() and answer.exception() is None:
            response = answer.result()
            if response.code == ResponseCode.SUCCESS and response.body:
                self._take(client_id, response.body)
        if self._awaited == 0:
            self._finish()

    def _take(self, client_id: str, body: bytes) -> None:
        try:
            self._offsets[client_id] = ConsumerStatus.from_request(body).message_queue_table
        except ValueError:
            return  # a malformed answer counts as none

    def _finish(self) -> None:
        status = ConsumerStatus(consumer_table=self._offsets)
        self._connection.send(answer_ok(self._request, status))


def new_enough(group: ConsumerGroup) -> list[Member]:
    """All members. Raises Refused if one of them is too old to understand codes 220 and 221."""
    members = list(group.members.values())
    for member in members:
        if member.version < RESET_VERSION_MIN:
            raise Refused(
                ResponseCode.SYSTEM_ERROR,
                f"the client does not support this feature. version={member.version}",
            )
    return members


def encode_targets(targets: dict[MessageQueue, int], *, for_c: bool) -> bytes:
    """The body of code 220. C++ clients cannot read objects as keys, so they get a list."""
    if not for_c:
        return ResetOffsetBody(offset_table=targets).encode()
    return ResetOffsetBodyForC(
        offset_table=[
            QueueOffsetForC(
                topic=queue.topic,
                broker_name=queue.broker_name,
                queue_id=queue.queue_id,
                offset=offset,
            )
            for queue, offset in targets.items()
        ]
    ).encode()


def pass_back(
    connection: Connection,
    request: RemotingCommand,
    who: str,
    answer: asyncio.Future[RemotingCommand],
) -> None:
    """Pass the consumer's answer back to the administrator, or the reason why there is none."""
    if answer.cancelled():
        return
    error = answer.exception()
    if error is None:
        answered = answer.result()
        response = RemotingCommand.response(
            request, answered.code, answered.remark, dict(answered.ext_fields), answered.body
        )
    elif isinstance(error, RemotingTimeout):
        response = RemotingCommand.response(
            request, ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer {who} Timeout: {error}"
        )
    else:
        response = RemotingCommand.response(
            request, ResponseCode.SYSTEM_ERROR, f"invoke consumer {who} Exception: {error}"
        )
    connection.send(response)
