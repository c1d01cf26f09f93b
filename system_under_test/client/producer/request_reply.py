"""Sends a request to a consumer of a topic and awaits the reply (RocketMQ: DefaultMQProducerImpl.request, MessageUtil).

The reply goes to a broker that the requester is connected to, which pushes it on.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.message_properties import (
    CLUSTER,
    CORRELATION_ID,
    MESSAGE_TYPE,
    REPLY_TO,
    TIME_TO_LIVE,
)
from staticfire.system_under_test.client.producer.send_command import REPLY
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.client.producer.sender import Sender
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.waiting import wait_until
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import inflate_body
from staticfire.system_under_test.protocol.headers import ReplyMessageHeader
from staticfire.system_under_test.protocol.message import Message, decode_properties

REPLY_TOPIC = "REPLY_TOPIC"  # RocketMQ: MixAll.REPLY_TOPIC_POSTFIX


@dataclass(frozen=True, slots=True, kw_only=True)
class Reply:
    """A consumer's reply, and the stored position of the request; None if no broker has acknowledged the request."""

    message: Message
    sent: SendResult | None


class RequestTimeout(ClientError):
    """The request was stored, and no reply came in time: it may have been consumed (RocketMQ: 10006)."""

    def __init__(self, text: str, sent: SendResult) -> None:
        super().__init__(text)
        self.sent = sent


class Requests:
    """The requests of one client that wait for their replies."""

    def __init__(self, client: ClientInstance, sender: Sender) -> None:
        self._client = client
        self._sender = sender
        self._waiting: dict[str, asyncio.Future[Message]] = {}  # by correlation id

    async def ask(self, message: Message, timeout_s: float) -> Reply:
        """See Producer.request."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        correlation_id = f"{self._client.env.random.getrandbits(128):032x}"
        message.properties[CORRELATION_ID] = correlation_id
        message.properties[REPLY_TO] = self._client.client_id
        message.properties[TIME_TO_LIVE] = str(int(timeout_s * 1000))
        self._sender.identify(message)
        reply: asyncio.Future[Message] = loop.create_future()
        self._waiting[correlation_id] = reply
        try:
            sent = await self._sender.send(message, None, self._sender.begin(timeout_s))
            await wait_until([reply], lambda: False, deadline_s - loop.time())
        except SendFailed:
            if reply.done():
                return Reply(message=reply.result(), sent=None)
            raise
        finally:
            del self._waiting[correlation_id]
        if not reply.done():
            raise RequestTimeout(f"no reply after {timeout_s:g} s", sent)
        return Reply(message=reply.result(), sent=sent)

    def replied(self, request: RemotingCommand) -> RemotingCommand:
        """Handle code 326; accepts a reply to a request that has timed out, too. Raises ValueError."""
        header = ReplyMessageHeader.from_ext(request.ext_fields)
        properties = decode_properties(header.properties or "")
        waiting = self._waiting.get(properties.get(CORRELATION_ID, ""))
        if waiting is not None and not waiting.done():
            reply = Message(
                topic=header.topic,
                body=request.body,
                properties=properties,
                flag=header.flag,
                sys_flag=header.sys_flag,
                born_timestamp_ms=header.born_timestamp,
                store_timestamp_ms=header.store_timestamp,
            )
            waiting.set_result(inflate_body(reply))
        return RemotingCommand.response(request, ResponseCode.SUCCESS)


def wants_reply(message: Message) -> bool:
    return CORRELATION_ID in message.properties and REPLY_TO in message.properties


def reply_message(
    request: Message, body: bytes, users_properties: Mapping[str, str] | None = None
) -> Message:
    """The reply to a request. Raises ValueError if the message is not a request."""
    properties = request.properties
    if not wants_reply(request) or CLUSTER not in properties:
        raise ValueError("this message is no request: it does not say who waits for an answer")
    return Message(
        topic=f"{properties[CLUSTER]}_{REPLY_TOPIC}",
        body=body,
        properties={
            **(users_properties or {}),
            MESSAGE_TYPE: REPLY,
            CORRELATION_ID: properties[CORRELATION_ID],
            REPLY_TO: properties[REPLY_TO],
            TIME_TO_LIVE: properties.get(TIME_TO_LIVE, ""),
        },
    )


async def send_reply(
    sender: Sender,
    request: Message,
    queue: MessageQueue,
    body: bytes,
    users_properties: Mapping[str, str] | None = None,
) -> SendResult:
    """Reply through the broker that delivered the request, as the requester is connected to it; if it is gone, any.

    Raises:
        SendFailed: the requester has not got the reply, or may not have got it.
        ValueError: the message is not a request.
    """
    reply = reply_message(request, body, users_properties)
    sender.identify(reply)
    progress = sender.begin()
    same_broker = MessageQueue(reply.topic, queue.broker_name, 0)
    try:
        return await sender.send(reply, same_broker, progress)
    except SendFailed as error:
        if error.code is not None:  # the broker answered that it could not push the reply
            raise
    return await sender.send(reply, None, progress)
