"""Sends messages back for a later retry (RocketMQ: DefaultMQPushConsumerImpl.sendMessageBack).

The broker that holds a message stores a copy in the retry topic of the group. If it does not confirm that, the client
itself sends the message to that topic, on any broker. Other clients took any answer for a success and lost messages
(C++ issue 208, Go issue 797).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from staticfire.system_under_test.client.message_properties import (
    CONSUME_START,
    DELAY_LEVEL,
    ORIGIN_ID,
    RECONSUME_TIMES,
    RECONSUME_TIMES_MAX,
    RETRY_TOPIC,
    TRANSACTION,
    UNIQUE_KEY,
    WAIT,
    retry_topic,
)
from staticfire.system_under_test.client.producer.send_result import SendFailed
from staticfire.system_under_test.client.producer.sender import Sender
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode, SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import COMPRESSED_FLAG, TYPE_MASK, ZLIB_TYPES
from staticfire.system_under_test.protocol.headers import ConsumerSendMsgBackHeader
from staticfire.system_under_test.protocol.message import Message, offset_message_id
from staticfire.system_under_test.remoting import RemotingError

SEND_BACK_TIMEOUT_S = 5.0  # RocketMQ: MQClientAPIImpl.consumerSendMessageBack
FIRST_LEVEL = 3  # 10 s
# Code 36 also counts the weaker status as success: sending the message again would double it each time.
STORED = (SendStatus.SEND_OK, SendStatus.SLAVE_NOT_AVAILABLE)
UNSAFE_CODES = {
    code.name: int(code)
    for code in (ResponseCode.FLUSH_DISK_TIMEOUT, ResponseCode.FLUSH_SLAVE_TIMEOUT)
}
# not in RocketMQ: the status of a copy that is less safe than it could be
STATUS_FIELD = "sendStatus"


class SentBack(NamedTuple):
    """The outcome for one message.

    Args:
        status: how safe its copy is; None: as far as known there is none.
        is_copied: whether this client sent the copy itself, because the broker that holds the message made none.
        is_asked: whether this client asked that broker to make one.
        refusal: the code of its refusal, or of the status of a copy that is not safe enough; None: it made the copy, or
            did not answer.
        attempts: number of sends of this client's own copy.
    """

    status: SendStatus | None
    is_copied: bool
    is_asked: bool
    refusal: int | None
    attempts: int = 0


OnSentBack = Callable[[Message, MessageQueue, SentBack], None]


class SendBack:
    """Sends messages of one group back.

    Args:
        reconsume_times_max: after so many retries the broker makes the message a dead letter.
        by_copy_alone: never ask the broker that holds the message (orderly consumption does so, for dead letters).
        on_sent: called with the message, its queue and the outcome.
    """

    def __init__(
        self,
        client: ClientInstance,
        group: str,
        sender: Sender,
        *,
        reconsume_times_max: int,
        by_copy_alone: bool = False,
        on_sent: OnSentBack | None = None,
    ) -> None:
        self._client = client
        self._group = group
        self._sender = sender
        self._reconsume_times_max = reconsume_times_max
        self._by_copy_alone = by_copy_alone
        self._on_sent = on_sent

    async def __call__(self, message: Message, queue: MessageQueue, delay_level: int) -> bool:
        """Send a message back; return whether some broker has stored it for later."""
        is_asked = not self._by_copy_alone
        status, refusal, attempts = None, None, 0
        if is_asked:
            status, refusal = await self._ask_holder(message, queue.broker_name, delay_level)
        is_copied = status is None
        if is_copied:
            status, attempts = await self._send_copy(message)
        if self._on_sent is not None:
            self._on_sent(message, queue, SentBack(status, is_copied, is_asked, refusal, attempts))
        return status in STORED

    async def _ask_holder(
        self, message: Message, broker_name: str, delay_level: int
    ) -> tuple[SendStatus | None, int | None]:
        """Ask the broker that holds the message; return the status of its copy, and the code of a refusal."""
        address = self._client.master(broker_name)
        if address is None or not self._client.health.is_answering(address):
            return None, None
        header = ConsumerSendMsgBackHeader(
            offset=message.physical_offset,
            group=self._group,
            delay_level=delay_level,
            origin_msg_id=message.properties.get(UNIQUE_KEY),
            origin_topic=message.topic,
            max_reconsume_times=self._reconsume_times_max,
        )
        command = RemotingCommand.request(RequestCode.CONSUMER_SEND_MSG_BACK, header.to_ext())
        try:
            response = await self._client.ask(address, command, SEND_BACK_TIMEOUT_S)
        except RemotingError as error:
            self._client.env.log.info("message was not sent back", error=str(error))
            return None, None
        if response.code != ResponseCode.SUCCESS:
            self._client.env.log.warning(
                "message was not taken back", code=response.code, remark=response.remark
            )
            status = response.ext_fields.get(STATUS_FIELD, "")
            return None, UNSAFE_CODES.get(status, response.code)
        is_weak = response.ext_fields.get(STATUS_FIELD) == SendStatus.SLAVE_NOT_AVAILABLE.name
        return SendStatus.SLAVE_NOT_AVAILABLE if is_weak else SendStatus.SEND_OK, None

    async def _send_copy(self, message: Message) -> tuple[SendStatus | None, int]:
        """Send our own copy; return its status, None if that failed, and the number of attempts."""
        copy = retry_copy(message, self._group, self._reconsume_times_max)
        try:
            result = await self._sender.send(copy, None, self._sender.begin())
        except SendFailed as error:
            self._client.env.log.warning("message stays here", error=str(error))
            return None, error.attempts
        return result.status, result.attempts


def retry_copy(message: Message, group: str, reconsume_times_max: int) -> Message:
    """The copy for the retry topic. A broker makes it a dead letter if it was tried too often.

    A message that was sent back before has WAIT=false. RocketMQ keeps it, so that the answer to the copy does not wait
    for a flush, and the client commits past the only other copy.
    """
    properties = dict(message.properties)
    for name in (TRANSACTION, CONSUME_START, WAIT):
        properties.pop(name, None)
    properties.setdefault(RETRY_TOPIC, message.topic)
    own_id = offset_message_id(*message.store_host, message.physical_offset)
    properties.setdefault(ORIGIN_ID, properties.get(UNIQUE_KEY, own_id))
    properties[RECONSUME_TIMES] = str(message.reconsume_times + 1)
    # For a send the broker's limit is inclusive (dead letter at the limit), for a send-back exclusive (above it).
    properties[RECONSUME_TIMES_MAX] = str(reconsume_times_max + 1)
    properties[DELAY_LEVEL] = str(FIRST_LEVEL + message.reconsume_times)
    is_inflated = message.sys_flag & TYPE_MASK in ZLIB_TYPES
    kept = 0 if is_inflated else message.sys_flag & (COMPRESSED_FLAG | TYPE_MASK)
    return Message(
        topic=retry_topic(group),
        body=message.body,
        properties=properties,
        flag=message.flag,
        sys_flag=kept,
    )
