"""Makes the request of a send (RocketMQ: DefaultMQProducerImpl.sendKernelImpl)."""

from __future__ import annotations

import zlib
from dataclasses import dataclass

from staticfire.system_under_test.client.message_properties import (
    MESSAGE_TYPE,
    RECONSUME_TIMES,
    RECONSUME_TIMES_MAX,
    RETRY_PREFIX,
)
from staticfire.system_under_test.client.routing.client_instance import TEMPLATE_TOPIC
from staticfire.system_under_test.client.routing.routes import TEMPLATE_QUEUES_MAX
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.compression import COMPRESSED_FLAG
from staticfire.system_under_test.protocol.headers import SendMessageHeader
from staticfire.system_under_test.protocol.message import Message, encode_properties

ZLIB_FLAG = 0x300  # RocketMQ: MessageSysFlag.COMPRESSION_ZLIB_TYPE
COMPRESSION_LEVEL = 5  # RocketMQ: rocketmq.message.compressLevel
REPLY = "reply"  # RocketMQ: MixAll.REPLY_MESSAGE_FLAG


@dataclass(frozen=True, slots=True)
class WireBody:
    """The body on the wire, the same for all attempts."""

    data: bytes
    sys_flag: int


def wire_body(message: Message, compress_over_bytes: int) -> WireBody:
    """The body, compressed if it has `compress_over_bytes` or more, even if compression makes it longer."""
    if len(message.body) < compress_over_bytes or message.sys_flag & COMPRESSED_FLAG:
        return WireBody(message.body, message.sys_flag)
    data = zlib.compress(message.body, COMPRESSION_LEVEL)
    return WireBody(data, message.sys_flag | COMPRESSED_FLAG | ZLIB_FLAG)


def send_command(
    message: Message,
    body: WireBody,
    *,
    group: str,
    queue_id: int,
    now_ms: int,
    is_batch: bool = False,
) -> RemotingCommand:
    """The request, with the code for the kind of message. Raises RecordError for invalid properties."""
    properties = message.properties
    times, times_max = 0, None
    if message.topic.startswith(RETRY_PREFIX) and RECONSUME_TIMES in properties:
        # These go into the header only: the stored copy must not have them as properties (4.9.8 removes them, too).
        properties = dict(properties)
        times = int(properties.pop(RECONSUME_TIMES))
        limit = properties.pop(RECONSUME_TIMES_MAX, None)
        times_max = None if limit is None else int(limit)
    header = SendMessageHeader(
        producer_group=group,
        topic=message.topic,
        default_topic=TEMPLATE_TOPIC,
        default_topic_queue_nums=TEMPLATE_QUEUES_MAX,
        queue_id=queue_id,
        sys_flag=body.sys_flag,
        born_timestamp=now_ms,
        flag=message.flag,
        properties=encode_properties(properties).decode(),
        reconsume_times=times,
        max_reconsume_times=times_max,
        batch=is_batch,
    )
    return RemotingCommand.request(_code(message, is_batch), header.to_ext_v2(), body.data)


def _code(message: Message, is_batch: bool) -> RequestCode:
    if is_batch:
        return RequestCode.SEND_BATCH_MESSAGE
    if message.properties.get(MESSAGE_TYPE) == REPLY:
        return RequestCode.SEND_REPLY_MESSAGE_V2
    return RequestCode.SEND_MESSAGE_V2
