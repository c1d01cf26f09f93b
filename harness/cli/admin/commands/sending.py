"""`staticfire admin`: sends messages."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import click

from staticfire.harness.cli.admin.acting import Effect
from staticfire.harness.cli.admin.answers import Answer, Record, Table
from staticfire.harness.cli.admin.command import (
    BROKER_NAME,
    TOPIC,
    Values,
    admin_command,
    flag_option,
    ignored_option,
    int_option,
    text_option,
)
from staticfire.harness.cli.status import BadInput
from staticfire.system_under_test.admin import AdminClient
from staticfire.system_under_test.admin.errors import AdminError
from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendResult
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message

GREETING = b"hello jodie"  # RocketMQ, SendMsgStatusCommand


def _check_message(values: Values) -> None:
    if (values["queue_id"] is None) != (values["broker_name"] is None):
        raise BadInput("only one of -b and -i is given; allowed: both for one queue, or neither")
    try:
        values["body"].encode()
    except UnicodeEncodeError:
        raise BadInput(f"body is {values['body']!r:.80}; allowed: Unicode text") from None


@admin_command(
    "sendMessage",
    "Send one message.",
    "-t Orders -p hello -k order-17 -c paid",
    TOPIC,
    click.option("-p", "--body", "body", required=True, help="Body."),
    text_option("-k", "--key", "key", "Keys, separated by spaces."),
    text_option("-c", "--tags", "tags", "Tag."),
    text_option("-b", "--broker", "broker_name", "Name of the broker."),
    int_option("-i", "--qid", "queue_id", "Queue id.", high=(1 << 31) - 1),
    flag_option(
        "-m",
        "--msgTraceEnable",
        "is_traced",
        "Send a record of it to the trace topic.",
        default=False,
    ),
    effect=Effect.CHANGES,
    check=_check_message,
)
async def send_message(
    admin: AdminClient,
    topic: str,
    body: str,
    key: str | None,
    tags: str | None,
    broker_name: str | None,
    queue_id: int | None,
    is_traced: bool,
) -> Answer:
    properties = {"KEYS": key, "TAGS": tags}
    message = Message(
        topic=topic,
        body=body.encode(),
        properties={name: value for name, value in properties.items() if value},
    )
    queue = None
    if broker_name is not None and queue_id is not None:
        queue = MessageQueue(topic, broker_name, queue_id)
    async with _producer(admin, is_traced=is_traced) as producer:
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
async def _producer(admin: AdminClient, *, is_traced: bool = False) -> AsyncIterator[Producer]:
    config = ProducerConfig(
        group="staticfire-admin",
        name_servers=admin.name_servers,
        client_id="127.0.0.1@staticfire-admin",
        send_timeout_s=admin.timeout_s,
        credentials=admin.credentials,
        trace=is_traced,
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
    int_option("-a", "--amount", "amount", "Number of messages.", low=1, high=100_000, default=100),
    int_option(
        "-s", "--size", "size", "Size of each message in bytes.", low=0, high=4 << 20, default=128
    ),
    effect=Effect.CHANGES,
)
async def check_msg_send_rt(admin: AdminClient, topic: str, amount: int, size: int) -> Answer:
    """Send one message after another; each send waits for its acknowledgement."""
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


@admin_command(
    "sendMsgStatus",
    "Send messages to a broker and show the outcome of each.",
    "-b broker-a -s 128 -c 50",
    BROKER_NAME,
    int_option(
        "-s",
        "--messageSize",
        "size",
        "Size of each message in bytes.",
        low=1,
        high=4 << 20,
        default=128,
    ),
    int_option("-c", "--count", "count", "Number of messages.", low=1, high=100_000, default=50),
    effect=Effect.CHANGES,
)
async def send_msg_status(admin: AdminClient, broker_name: str, size: int, count: int) -> Answer:
    """Send to the topic named after the broker (`brokerTopicEnable`), after one message that finds the route."""
    rows: list[tuple[object, ...]] = []
    async with _producer(admin) as producer:
        await _send_with(admin, producer, _greeting(broker_name, 16), None)
        for _ in range(count):
            begun_ns = time.perf_counter_ns()
            result = await _send_with(admin, producer, _greeting(broker_name, size), None)
            took_ms = (time.perf_counter_ns() - begun_ns) // 1_000_000
            queue = result.queue
            rows.append(
                (
                    took_ms,
                    result.status.value,
                    result.message_id,
                    result.offset_message_id,
                    queue.topic,
                    queue.broker_name,
                    queue.queue_id,
                    result.queue_offset,
                )
            )
    columns = ("rt", "sendStatus", "msgId", "offsetMsgId")
    return Table((*columns, "topic", "brokerName", "queueId", "queueOffset"), rows)


def _greeting(topic: str, size: int) -> Message:
    """Return RocketMQ's greeting, repeated until it is at least as long as asked."""
    return Message(topic=topic, body=GREETING * -(-size // len(GREETING)))


@admin_command(
    "clusterRT",
    "Measure how long sends to each broker take.",
    "-c DefaultCluster -a 100 -s 128",
    text_option("-c", "--cluster", "cluster", "Only this cluster."),
    int_option("-a", "--amount", "amount", "Number of messages.", low=1, high=100_000, default=100),
    int_option(
        "-s", "--size", "size", "Size of each message in bytes.", low=0, high=4 << 20, default=128
    ),
    ignored_option("-i", "--interval"),
    ignored_option("-m", "--machineRoom"),
    ignored_option("-p", "--printLog"),
    effect=Effect.CHANGES,
)
async def cluster_rt(admin: AdminClient, cluster: str | None, amount: int, size: int) -> Answer:
    """Send to the topic named after each broker. RT is the mean in milliseconds, without the first send.

    The command does one round; mqadmin repeats rounds until it is stopped.
    """
    rows: list[tuple[str, str, float, int, int]] = []
    async with _producer(admin) as producer:
        for broker in await admin.brokers(cluster):
            message = Message(topic=broker.broker_name, body=b"a" * size)
            times_ms, failed = [], 0
            for _ in range(amount):
                begun_ns = time.perf_counter_ns()
                try:
                    await _send_with(admin, producer, message, None)
                except AdminError:
                    failed += 1
                times_ms.append((time.perf_counter_ns() - begun_ns) / 1e6)
            counted = times_ms[1:] or times_ms
            mean_ms = sum(counted) / len(counted)
            rows.append((broker.cluster, broker.broker_name, mean_ms, amount - failed, failed))
    return Table(("clusterName", "brokerName", "RT", "successCount", "failCount"), rows)


COMMANDS = (send_message, check_msg_send_rt, send_msg_status, cluster_rt)
