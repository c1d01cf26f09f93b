"""`staticfire admin`: messages."""

from __future__ import annotations

import asyncio
import base64
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import click

from harness.cli.admin.answers import Answer, Record, Table, time_text
from harness.cli.admin.command import TOPIC, admin_command, int_option, text_option
from harness.cli.admin.times import LATEST_MS, parse_time_ms
from harness.cli.status import BadInput
from system_under_test.admin import AdminClient, messages, tracking
from system_under_test.admin.errors import AdminError
from system_under_test.client.errors import ClientError
from system_under_test.client.producer import Producer, ProducerConfig, SendResult
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.message import Message, offset_message_id, parse_offset_message_id
from system_under_test.remoting.address import format_address

NO_LIMIT = 1 << 62
SHOWN_MAX = 100  # characters of a body in a table
LIST_COLUMNS = ("msgId", "offsetMsgId", "queueId", "queueOffset", "stored", "tags", "keys", "body")
QUEUE_ID = int_option("-i", "--queueId", "queue_id", "Queue id.", required=True, high=(1 << 31) - 1)
BEGIN = text_option("-b", "--beginTimestamp", "begin", "Stored then or later.")
END = text_option("-e", "--endTimestamp", "end", "Stored before.")
TAGS = text_option("-s", "--subExpression", "tags", "Tags, such as 'A || B'.", default="*")
LIMIT = int_option("-m", "--maxMessages", "limit", "At most so many; 0 for all.", default=1000)


def message_record(message: Message) -> dict[str, Any]:
    """Everything about a message; a body that is no text is in base 64."""
    body = messages.message_body(message)
    shown: dict[str, Any] = {
        "msgId": message.properties.get(messages.UNIQUE_KEY),
        "offsetMsgId": offset_message_id(*message.store_host, message.physical_offset),
        "topic": message.topic,
        "tags": message.properties.get("TAGS"),
        "keys": message.properties.get(messages.KEYS),
        "queueId": message.queue_id,
        "queueOffset": message.queue_offset,
        "commitLogOffset": message.physical_offset,
        "reconsumeTimes": message.reconsume_times,
        "bornTimestamp": message.born_timestamp_ms,
        "bornTime": time_text(message.born_timestamp_ms),
        "storeTimestamp": message.store_timestamp_ms,
        "storeTime": time_text(message.store_timestamp_ms),
        "bornHost": format_address(*message.born_host),
        "storeHost": format_address(*message.store_host),
        "flag": message.flag,
        "sysFlag": message.sys_flag,
        "properties": message.properties,
    }
    try:
        shown["body"] = body.decode()
    except UnicodeDecodeError:
        shown["bodyBase64"] = base64.b64encode(body).decode()
    return shown


def message_row(message: Message) -> tuple[object, ...]:
    record = message_record(message)
    body = str(record.get("body", record.get("bodyBase64")))
    if len(body) > SHOWN_MAX:
        body = f"{body[:SHOWN_MAX]}..."
    names = ("msgId", "offsetMsgId", "queueId", "queueOffset", "storeTime", "tags", "keys")
    return (*(record[name] for name in names), body)


def message_table(found: list[Message], note: str = "") -> Answer:
    """Messages in short as a table; in JSON, everything about each."""
    rows = [message_row(message) for message in found]
    document = [message_record(message) for message in found]
    return Table(LIST_COLUMNS, rows, note=note, document=document)


async def _with_track(admin: AdminClient, message: Message) -> Answer:
    tracks = await tracking.message_track(admin, message)
    rows = [
        {"group": each.group, "trackType": each.track_type.value, "reason": each.reason or None}
        for each in tracks
    ]
    return Record({**message_record(message), "track": rows})


async def _consume(
    admin: AdminClient, message_id: str, group: str | None, client_id: str | None
) -> Answer | None:
    """What -g and -d ask for together: one consumer consumes the message now."""
    if (group is None) != (client_id is None):
        raise BadInput("only one of -g and -d is given; allowed: both, or neither")
    if group is None or client_id is None:
        return None
    result = await messages.consume_directly(admin, message_id, group, client_id)
    return Record({"msgId": message_id, "group": group, "clientId": client_id, **result.to_json()})


DIRECT_GROUP = text_option(
    "-g", "--consumerGroup", "group", "With -d: let this group consume it now."
)
DIRECT_CLIENT = text_option(
    "-d", "--clientId", "client_id", "With -g: the member that consumes it."
)


@admin_command(
    "queryMsgById",
    "Show the message with an offset message id, and who consumed it.",
    "-i 7F00000100002A9F0000000000000000",
    text_option("-i", "--msgId", "message_id", "Offset message id.", required=True),
    DIRECT_GROUP,
    DIRECT_CLIENT,
)
async def query_msg_by_id(
    admin: AdminClient, message_id: str, group: str | None, client_id: str | None
) -> Answer:
    _check_offset_id(message_id)
    consumed = await _consume(admin, message_id, group, client_id)
    if consumed is not None:
        return consumed
    return await _with_track(admin, await messages.by_offset_id(admin, message_id))


def _check_offset_id(message_id: str) -> None:
    try:
        parse_offset_message_id(message_id)
    except ValueError as error:
        raise BadInput(f"message id is {message_id!r:.80}; allowed: 32 or 56 hex digits") from error


@admin_command(
    "queryMsgByKey",
    "List the messages that have a key.",
    "-t Orders -k order-17",
    TOPIC,
    text_option("-k", "--msgKey", "key", "Key.", required=True),
    BEGIN,
    END,
    int_option("-m", "--maxNum", "count", "At most so many.", low=1, high=64, default=64),
)
async def query_msg_by_key(
    admin: AdminClient, topic: str, key: str, begin: str | None, end: str | None, count: int
) -> Answer:
    begin_ms, end_ms = _span(begin, end)
    found = await messages.by_key(
        admin, topic, key, count_max=count, begin_ms=begin_ms, end_ms=end_ms
    )
    return message_table(found)


def _span(begin: str | None, end: str | None) -> tuple[int, int]:
    begin_ms = 0 if begin is None else max(parse_time_ms(begin), 0)
    end_ms = LATEST_MS if end is None else parse_time_ms(end)
    if end_ms < begin_ms:
        raise BadInput(f"the end {end!r} is before the begin {begin!r}; allowed: a later end")
    return begin_ms, end_ms


@admin_command(
    "queryMsgByUniqueKey",
    "Show the message with the id that its producer gave it, and who consumed it.",
    "-t Orders -i 7F00000100002A9F0000000000000000",
    TOPIC,
    text_option("-i", "--msgId", "message_id", "Unique message id.", required=True),
    DIRECT_GROUP,
    DIRECT_CLIENT,
    click.option("-a", "--showAll", "show_all", is_flag=True, help="All, if it was sent twice."),
)
async def query_msg_by_unique_key(
    admin: AdminClient,
    topic: str,
    message_id: str,
    group: str | None,
    client_id: str | None,
    show_all: bool,
) -> Answer:
    found = await messages.by_unique_key(admin, topic, message_id)
    if not found:
        raise AdminError(f"no broker of {topic!r} has a message with the id {message_id!r:.80}")
    place = offset_message_id(*found[0].store_host, found[0].physical_offset)
    consumed = await _consume(admin, place, group, client_id)
    if consumed is not None:
        return consumed
    return message_table(found) if show_all else await _with_track(admin, found[0])


@admin_command(
    "queryMsgByOffset",
    "Show the message at an offset of a queue.",
    "-t Orders -b broker-a -i 0 -o 5",
    TOPIC,
    text_option("-b", "--brokerName", "broker_name", "Name of the broker.", required=True),
    QUEUE_ID,
    int_option("-o", "--offset", "offset", "Queue offset.", required=True),
)
async def query_msg_by_offset(
    admin: AdminClient, topic: str, broker_name: str, queue_id: int, offset: int
) -> Answer:
    queue = MessageQueue(topic, broker_name, queue_id)
    return Record(message_record(await messages.by_queue_offset(admin, queue, offset)))


@admin_command(
    "messageTrack",
    "Show what each group has done with a message.",
    "-i 7F00000100002A9F0000000000000000",
    text_option("-i", "--msgId", "message_id", "Offset message id.", required=True),
)
async def message_track(admin: AdminClient, message_id: str) -> Answer:
    """CONSUMED, CONSUMED_BUT_FILTERED, NOT_CONSUME_YET, NOT_ONLINE, PULL, CONSUME_BROADCASTING or UNKNOWN."""
    _check_offset_id(message_id)
    message = await messages.by_offset_id(admin, message_id)
    tracks = await tracking.message_track(admin, message)
    rows = [(each.group, each.track_type.value, each.reason or None) for each in tracks]
    return Table(("group", "trackType", "reason"), rows)


@admin_command(
    "printMsg",
    "List the messages of a topic.",
    "-t Orders -b 2026-01-31#00:00:00:000",
    TOPIC,
    TAGS,
    BEGIN,
    END,
    LIMIT,
)
async def print_msg(
    admin: AdminClient, topic: str, tags: str, begin: str | None, end: str | None, limit: int
) -> Answer:
    span = _span(begin, end)
    queues = await messages.readable_queues(admin, topic)
    return await _print_queues(admin, queues, tags, span, (begin, end), limit)


@admin_command(
    "printMsgByQueue",
    "List the messages of one queue.",
    "-t Orders -a broker-a -i 0",
    TOPIC,
    text_option("-a", "--brokerName", "broker_name", "Name of the broker.", required=True),
    QUEUE_ID,
    TAGS,
    BEGIN,
    END,
    LIMIT,
)
async def print_msg_by_queue(
    admin: AdminClient,
    topic: str,
    broker_name: str,
    queue_id: int,
    tags: str,
    begin: str | None,
    end: str | None,
    limit: int,
) -> Answer:
    span = _span(begin, end)
    queues = {MessageQueue(topic, broker_name, queue_id): await admin.master(broker_name)}
    return await _print_queues(admin, queues, tags, span, (begin, end), limit)


@admin_command(
    "consumeMessage",
    "Read messages of a topic, from an offset or a time on.",
    "-t Orders -b broker-a -i 0 -o 5 -c 10",
    TOPIC,
    text_option("-b", "--brokerName", "broker_name", "Name of the broker."),
    int_option("-i", "--queueId", "queue_id", "Queue id.", high=(1 << 31) - 1),
    int_option("-o", "--offset", "offset", "Queue offset of the first."),
    text_option(
        "-g",
        "--consumerGroup",
        "group",
        "Read as this group; no offset moves.",
        default=messages.GROUP,
    ),
    text_option("-s", "--beginTimestamp", "begin", "Stored then or later."),
    text_option("-e", "--endTimestamp", "end", "Stored before."),
    int_option(
        "-c", "--messageNumber", "limit", "At most so many.", low=1, high=100_000, default=128
    ),
)
async def consume_message(
    admin: AdminClient,
    topic: str,
    broker_name: str | None,
    queue_id: int | None,
    offset: int | None,
    group: str,
    begin: str | None,
    end: str | None,
    limit: int,
) -> Answer:
    span = _span(begin, end)
    if (queue_id is None) != (broker_name is None):
        raise BadInput("only one of -b and -i is given; allowed: both for one queue, or neither")
    if offset is not None and queue_id is None:
        raise BadInput("an offset needs its queue; allowed: -o with -b and -i")
    if broker_name is not None and queue_id is not None:
        queues = {MessageQueue(topic, broker_name, queue_id): await admin.master(broker_name)}
    else:
        queues = await messages.readable_queues(admin, topic)
    return await _print_queues(
        admin, queues, "*", span, (begin, end), limit, offset=offset, group=group
    )


async def _print_queues(
    admin: AdminClient,
    queues: dict[MessageQueue, str],
    tags: str,
    span: tuple[int, int],
    given: tuple[str | None, str | None],
    limit: int,
    *,
    offset: int | None = None,
    group: str = messages.GROUP,
) -> Answer:
    limit = limit or NO_LIMIT
    found: list[Message] = []
    for queue, address in queues.items():
        first = await messages.min_offset(admin, address, queue)
        last = await messages.max_offset(admin, address, queue)
        if given[0] is not None:
            first = max(first, await messages.offset_at(admin, address, queue, span[0]))
        found += await messages.read_queue(
            admin,
            address,
            queue,
            max(first, 0 if offset is None else offset),
            last,
            count_max=limit + 1 - len(found),
            is_wanted=lambda message: span[0] <= message.store_timestamp_ms < span[1],
            expression=tags,
            group=group,
        )
        if len(found) > limit:
            return message_table(found[:limit], f"the first {limit}; there are more")
    return message_table(found, f"{len(found)} messages")


@admin_command(
    "sendMessage",
    "Send one message.",
    "-t Orders -p hello -k order-17 -c paid",
    TOPIC,
    click.option("-p", "--body", "body", required=True, help="Body."),
    text_option("-k", "--key", "key", "Keys, with spaces."),
    text_option("-c", "--tags", "tags", "Tag."),
    text_option("-b", "--broker", "broker_name", "Name of the broker."),
    int_option("-i", "--qid", "queue_id", "Queue id.", high=(1 << 31) - 1),
)
async def send_message(
    admin: AdminClient,
    topic: str,
    body: str,
    key: str | None,
    tags: str | None,
    broker_name: str | None,
    queue_id: int | None,
) -> Answer:
    if (queue_id is None) != (broker_name is None):
        raise BadInput("only one of -b and -i is given; allowed: both for one queue, or neither")
    try:
        data = body.encode()
    except UnicodeEncodeError:
        raise BadInput(f"body is {body!r:.80}; allowed: Unicode text") from None
    properties = {"KEYS": key, "TAGS": tags}
    message = Message(
        topic=topic,
        body=data,
        properties={name: value for name, value in properties.items() if value},
    )
    queue = None
    if broker_name is not None and queue_id is not None:
        queue = MessageQueue(topic, broker_name, queue_id)
    return await _send(admin, message, queue)


async def _send(admin: AdminClient, message: Message, queue: MessageQueue | None) -> Answer:
    async with _producer(admin) as producer:
        result = await _send_with(admin, producer, message, queue)
    return Record(
        {
            "status": result.status.value,
            "msgId": result.message_id,
            "offsetMsgId": result.offset_message_id,
            "brokerName": result.queue.broker_name,
            "queueId": result.queue.queue_id,
            "queueOffset": result.queue_offset,
        }
    )


@asynccontextmanager
async def _producer(admin: AdminClient) -> AsyncIterator[Producer]:
    config = ProducerConfig(
        group="staticfire-admin",
        name_servers=admin.name_servers,
        client_id="127.0.0.1@staticfire-admin",
        send_timeout_s=admin.timeout_s,
    )
    producer = Producer(admin.env, config)
    await producer.start()
    try:
        yield producer
    finally:
        await producer.stop()


async def _send_with(
    admin: AdminClient, producer: Producer, message: Message, queue: MessageQueue | None
) -> SendResult:
    try:
        async with asyncio.timeout(admin.timeout_s):
            return await producer.send(message, queue)
    except TimeoutError as error:
        raise AdminError(
            f"the message was not acknowledged within {admin.timeout_s:g} s"
        ) from error
    except (ClientError, ValueError) as error:
        raise AdminError(f"the message was not sent: {error}") from error


@admin_command(
    "checkMsgSendRT",
    "Measure how long sends take.",
    "-t Orders -a 100 -s 128",
    TOPIC,
    int_option("-a", "--amount", "amount", "Messages.", low=1, high=100_000, default=100),
    int_option("-s", "--size", "size", "Bytes of each.", low=0, high=4 << 20, default=128),
)
async def check_msg_send_rt(admin: AdminClient, topic: str, amount: int, size: int) -> Answer:
    """One after another, each waits for its acknowledgement."""
    rows: list[tuple[int, str, int, str, float]] = []
    async with _producer(admin) as producer:
        for number in range(amount):
            begun_ns = time.perf_counter_ns()
            message = Message(topic=topic, body=b"a" * size)
            result = await _send_with(admin, producer, message, None)
            took_ms = (time.perf_counter_ns() - begun_ns) / 1e6
            queue = result.queue
            rows.append((number, queue.broker_name, queue.queue_id, result.status.value, took_ms))
    times_ms = sorted(row[-1] for row in rows)
    note = (
        f"milliseconds: mean {sum(times_ms) / amount:.2f}, median {times_ms[amount // 2]:.2f},"
        f" longest {times_ms[-1]:.2f}"
    )
    return Table(("number", "brokerName", "queueId", "status", "ms"), rows, note=note)


COMMANDS = (
    query_msg_by_id,
    query_msg_by_key,
    query_msg_by_unique_key,
    query_msg_by_offset,
    message_track,
    print_msg,
    print_msg_by_queue,
    consume_message,
    send_message,
    check_msg_send_rt,
)
