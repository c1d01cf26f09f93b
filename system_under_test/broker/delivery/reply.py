"""Relays replies of the request-reply pattern: codes 324 and 325, pushed as 326 (RocketMQ, ReplyMessageProcessor)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from staticfire.system_under_test.broker.clients.asked_clients import AskedClients
from staticfire.system_under_test.broker.clients.clients import Clients
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.refusal import SendRefused
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.sending.send import SendProcessor
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, size_of
from staticfire.system_under_test.protocol.headers import ReplyMessageHeader, SendMessageHeader
from staticfire.system_under_test.protocol.message import (
    Message,
    decode_properties,
    encode_properties,
)
from staticfire.system_under_test.remoting import Connection, RemotingError
from staticfire.system_under_test.remoting.address import format_address
from staticfire.system_under_test.store.results import PutStatus

PUSH_TIMEOUT_S = 10.0
REPLY_TO_PROPERTY = "REPLY_TO_CLIENT"
PUSH_TIME_PROPERTY = "PUSH_REPLY_TIME"


class ReplyProcessor:
    """Pushes a reply to the requester; then stores it, if storeReplyMessageEnable is set.

    The answer to the replier says whether the push has succeeded.
    """

    def __init__(
        self,
        config: BrokerConfig,
        send: SendProcessor,
        clients: Clients,
        copies: InternalCopies,
        *,
        now_ms: Callable[[], int],
    ) -> None:
        self._config = config
        self._send = send
        self._clients = clients
        self._copies = copies
        self._now_ms = now_ms
        self._asked = AskedClients()

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Push a reply; answer the replier once the requester has answered. Raises HeaderError."""
        try:
            header, message = self._send.read(connection, request)
        except SendRefused as refusal:
            return self._send.answer_refusal(request, refusal)
        # Unchanged: unlike a send, a reply does not get the name of the cluster as a property (RocketMQ).
        message.property_text = header.properties or ""
        message.properties = decode_properties(message.property_text)
        finish = partial(self._finish, connection, request, message)
        requester_id = message.properties.get(REPLY_TO_PROPERTY)
        if requester_id is None:
            finish(f"reply message properties[{REPLY_TO_PROPERTY}] is null")
            return None
        requester = self._clients.producer_connection(requester_id)
        if requester is None:
            finish(f"push reply message fail, channel of <{requester_id}> not found.")
            return None
        size = size_of(request)
        if not self._asked.begin(1, size):
            return self._asked.refuse(request)
        pushed = requester.invoke_nowait(self._make_push(header, message), PUSH_TIMEOUT_S)
        pushed.add_done_callback(partial(self._pushed, requester_id, size, finish))
        return None

    def _make_push(self, header: SendMessageHeader, message: Message) -> RemotingCommand:
        """Make the request of the push, which has the time of the push; the record does not."""
        now_ms = self._now_ms()
        properties = {**message.properties, PUSH_TIME_PROPERTY: str(now_ms)}
        push = ReplyMessageHeader(
            producer_group=header.producer_group,
            topic=header.topic,
            default_topic=header.default_topic,
            default_topic_queue_nums=header.default_topic_queue_nums,
            queue_id=header.queue_id,
            sys_flag=header.sys_flag,
            born_timestamp=header.born_timestamp,
            flag=header.flag,
            born_host=format_address(*message.born_host),
            store_host=format_address(*message.store_host),
            store_timestamp=now_ms,
            properties=encode_properties(properties).decode(),
            reconsume_times=header.reconsume_times,
            unit_mode=header.unit_mode,
        )
        code = RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT
        return RemotingCommand.request(code, push.to_ext(), message.body)

    def _pushed(
        self,
        requester_id: str,
        size: int,
        finish: Callable[[str | None], None],
        pushed: asyncio.Future[RemotingCommand],
    ) -> None:
        self._asked.end(1, size)
        if pushed.cancelled():
            return
        error = pushed.exception()
        if error is None and pushed.result().code == ResponseCode.SUCCESS:
            finish(None)
        elif error is None or isinstance(error, RemotingError):
            finish(f"push reply message to {requester_id} fail.")
        else:
            raise error

    def _finish(
        self,
        connection: Connection,
        request: RemotingCommand,
        message: Message,
        failure: str | None,
    ) -> None:
        """Store the reply and answer: 0, or 1 with the reason why the push failed."""
        message_id, queue_offset = "0", 0
        code = ResponseCode.SUCCESS if failure is None else ResponseCode.SYSTEM_ERROR
        if self._config.store_replies:
            result = self._copies.put(message)
            if result.status is PutStatus.PUT_OK:
                message_id, queue_offset = result.message_id, result.queue_offset
        ext = self._send.answers.ext(message_id, message.queue_id, queue_offset)
        if not request.is_oneway:
            connection.send(RemotingCommand.response(request, code, failure, ext))
