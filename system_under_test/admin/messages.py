"""Finds and reads messages (RocketMQ: MQAdminImpl, mqadmin's message commands)."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable

from staticfire.system_under_test.admin.client import AdminClient, read_int
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.client.consumer.pulling import (
    PullAnswer,
    PullOutcome,
    pull_command,
    read_answer,
)
from staticfire.system_under_test.client.consumer.subscription import ALL, Subscription
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import ConsumeDirectlyResult
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.headers import (
    QueueHeader,
    SearchOffsetHeader,
    ViewMessageHeader,
)
from staticfire.system_under_test.protocol.headers_admin import ConsumeMessageDirectlyHeader
from staticfire.system_under_test.protocol.message import (
    Message,
    decode_records,
    parse_offset_message_id,
)
from staticfire.system_under_test.remoting.address import format_address

GROUP = "TOOLS_CONSUMER"  # RocketMQ: MixAll.TOOLS_CONSUMER_GROUP
COUNT_MAX = 32  # messages of one pull
KEYS = "KEYS"  # RocketMQ: MessageConst.PROPERTY_KEYS, separated by spaces
UNIQUE_KEY = "UNIQ_KEY"
COMPRESSED_FLAG = 1  # of sysFlag
BODY_SIZE_MAX = 64 << 20  # a body that inflates to more bytes stays compressed
LATEST_MS = (1 << 63) - 1

PULL_CODES = (
    int(ResponseCode.SUCCESS),
    int(ResponseCode.PULL_NOT_FOUND),
    int(ResponseCode.PULL_RETRY_IMMEDIATELY),
    int(ResponseCode.PULL_OFFSET_MOVED),
)
QUERY_CODES = (int(ResponseCode.SUCCESS), int(ResponseCode.QUERY_NOT_FOUND))


def message_body(message: Message) -> bytes:
    """The body as the producer passed it: inflated, if it is compressed and can be."""
    if not message.sys_flag & COMPRESSED_FLAG:
        return message.body
    inflater = zlib.decompressobj()
    try:
        body = inflater.decompress(message.body, BODY_SIZE_MAX)
    except zlib.error:
        return message.body
    return body if inflater.eof else message.body


# One message, or some


async def by_offset_id(admin: AdminClient, message_id: str) -> Message:
    """The message with this offset message id, which holds the broker's address and the physical offset."""
    try:
        host, port, offset = parse_offset_message_id(message_id)
    except ValueError as error:
        raise AdminError(f"{message_id!r} is no offset message id: {error}") from None
    address = format_address(host, port)
    header = ViewMessageHeader(offset=offset)
    answer = await admin.ask(address, RequestCode.VIEW_MESSAGE_BY_ID, header)
    found = _records(address, answer.body)
    if len(found) != 1:
        raise AdminError(f"{address} answered with {len(found)} messages for one id")
    return found[0]


async def by_key(
    admin: AdminClient,
    topic: str,
    key: str,
    *,
    count_max: int = 64,
    begin_ms: int = 0,
    end_ms: int = LATEST_MS,
) -> list[Message]:
    """Messages that have this key, oldest first. An index has hashes only, so this drops messages with other keys."""
    found = await _query(admin, topic, key, count_max, begin_ms, end_ms, is_unique=False)
    return [message for message in found if key in message.properties.get(KEYS, "").split(" ")]


async def by_unique_key(admin: AdminClient, topic: str, message_id: str) -> list[Message]:
    """Messages with this producer-given id; several if a send was repeated."""
    found = await _query(admin, topic, message_id, COUNT_MAX, 0, LATEST_MS, is_unique=True)
    return [message for message in found if message.properties.get(UNIQUE_KEY) == message_id]


async def by_queue_offset(admin: AdminClient, queue: MessageQueue, offset: int) -> Message:
    answer = await pull(admin, await admin.master(queue.broker_name), queue, offset, count_max=1)
    if not answer.messages or answer.messages[0].queue_offset != offset:
        raise AdminError(
            f"queue {queue.queue_id} of {queue.topic!r} on {queue.broker_name} has no message at {offset};"
            f" it has {answer.min_offset} to {answer.max_offset - 1}"
        )
    return answer.messages[0]


async def _query(
    admin: AdminClient,
    topic: str,
    key: str,
    count_max: int,
    begin_ms: int,
    end_ms: int,
    *,
    is_unique: bool,
) -> list[Message]:
    header = {
        "topic": topic,
        "key": key,
        "maxNum": str(count_max),
        "beginTimestamp": str(begin_ms),
        "endTimestamp": str(end_ms),
        "_UNIQUE_KEY_QUERY": "true" if is_unique else "false",
    }

    async def ask(address: str) -> list[Message]:
        code = RequestCode.QUERY_MESSAGE
        answer = await admin.ask(address, code, header, accepted=QUERY_CODES)
        return _records(address, answer.body) if answer.code == ResponseCode.SUCCESS else []

    brokers = await admin.topic_brokers(topic)
    answers = await asyncio.gather(*(ask(address) for address in brokers.values()))
    found = [message for messages in answers for message in messages]
    return sorted(found, key=lambda each: (each.store_timestamp_ms, each.physical_offset))


async def consume_directly(
    admin: AdminClient, message_id: str, group: str, client_id: str, broker_name: str | None = None
) -> ConsumeDirectlyResult:
    """Let one consumer consume a stored message now, regardless of its offset."""
    message = await by_offset_id(admin, message_id)
    address = format_address(*message.store_host)
    header = ConsumeMessageDirectlyHeader(
        consumer_group=group, client_id=client_id, msg_id=message_id, broker_name=broker_name
    )
    code = RequestCode.CONSUME_MESSAGE_DIRECTLY
    return await admin.ask_body(address, code, ConsumeDirectlyResult, header)


# Queues


async def readable_queues(admin: AdminClient, topic: str) -> dict[MessageQueue, str]:
    """The readable queues of a topic, in order, each with the address of a broker."""
    route = await admin.route(topic)
    brokers = await admin.topic_brokers(topic)
    queues = [
        MessageQueue(topic, data.broker_name, queue_id)
        for data in route.queue_datas
        if data.perm & 4 and data.broker_name in brokers
        for queue_id in range(data.read_queue_nums)
    ]
    return {queue: brokers[queue.broker_name] for queue in sorted(queues)}


async def min_offset(admin: AdminClient, address: str, queue: MessageQueue) -> int:
    header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
    answer = await admin.ask(address, RequestCode.GET_MIN_OFFSET, header)
    return read_int(address, answer, "offset")


async def max_offset(admin: AdminClient, address: str, queue: MessageQueue) -> int:
    """The offset that the next message of the queue will get."""
    header = QueueHeader(topic=queue.topic, queue_id=queue.queue_id)
    answer = await admin.ask(address, RequestCode.GET_MAX_OFFSET, header)
    return read_int(address, answer, "offset")


async def offset_at(admin: AdminClient, address: str, queue: MessageQueue, time_ms: int) -> int:
    """The offset of the message stored closest to `time_ms` (ms since 1970); 0 if the queue has none."""
    header = SearchOffsetHeader(topic=queue.topic, queue_id=queue.queue_id, timestamp=time_ms)
    answer = await admin.ask(address, RequestCode.SEARCH_OFFSET_BY_TIMESTAMP, header)
    return read_int(address, answer, "offset")


async def pull(
    admin: AdminClient,
    address: str,
    queue: MessageQueue,
    offset: int,
    *,
    count_max: int = COUNT_MAX,
    expression: str = ALL,
    group: str = GROUP,
) -> PullAnswer:
    """One pull that the broker answers at once, and that commits no offset."""
    version_ms = admin.env.clock.wall_ms()
    wanted = Subscription(queue.topic, expression, version_ms=version_ms)
    command = pull_command(group, queue, wanted, offset=offset, count_max=count_max)
    answer = await admin.ask(address, command.code, command.ext_fields, accepted=PULL_CODES)
    try:
        pulled = read_answer(answer)
    except ValueError as error:
        raise AdminError(f"the answer of {address} to a pull makes no sense: {error}") from error
    pulled.messages[:] = wanted.matching(pulled.messages)
    return pulled


async def read_queue(
    admin: AdminClient,
    address: str,
    queue: MessageQueue,
    begin: int,
    end: int,
    *,
    count_max: int,
    is_wanted: Callable[[Message], bool],
    expression: str = ALL,
    group: str = GROUP,
) -> list[Message]:
    """The first `count_max` messages in [begin, end) for which `is_wanted` holds."""
    found: list[Message] = []
    offset = begin
    while offset < end and len(found) < count_max:
        answer = await pull(admin, address, queue, offset, expression=expression, group=group)
        found += [each for each in answer.messages if each.queue_offset < end and is_wanted(each)]
        if answer.next_offset <= offset or answer.outcome is PullOutcome.NOTHING_NEW:
            break
        offset = answer.next_offset
    return found[:count_max]


def _records(address: str, body: bytes) -> list[Message]:
    try:
        return decode_records(body)
    except (ValueError, IndexError, ArithmeticError) as error:
        raise AdminError(f"{address} answered with what is no message: {error}") from error
