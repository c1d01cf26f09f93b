"""A forwarding consumer: sends a copy of each message that it gets to another topic, and does nothing else.

Forwarding is the remedy for a backlog in too few queues (RocketMQ: at most one member of a group works on a queue). A
few forwarders move the backlog into a topic with many queues, where many consumers work. Copies have keys of their own,
so the history has an ordinary send for each, and checkers judge it like any send. The listener succeeds only if the
copies are stored as safely as requested. Otherwise the group gets the messages again, and sends other copies of them.
So every message arrives at least once, and each repeated copy is another message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from itertools import groupby

from staticfire.checkers.op_kinds.producer import SEND_MANY
from staticfire.checkers.op_kinds.values import ForwardReport
from staticfire.harness.clients.port import ClientSide, Request
from staticfire.harness.clients.producer import invoke_many
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message

BATCH_BYTES_MAX = (
    48 << 10
)  # fits into the smallest drawn log file; brokers accept up to 4 MiB (maxMessageSize)
RECORD_BYTES = 256  # bytes of a stored message besides its body


def forwarder_config(config: ConsumerConfig) -> ProducerConfig:
    """Return the configuration of the producer inside a member of a group."""
    return ProducerConfig(
        group=f"{config.group}-forwarders",
        client_id=f"{config.client_id}-forwarder",
        name_servers=config.name_servers,
        credentials=config.credentials,
    )


class Forwarder:
    """Forwards one batch at a time, since every process of a history does one op at a time.

    Args:
        producer: sends the copies.
        group: the consumer group of the member.
        topic: the topic of the copies.
        process: the process number of this client in the history; keys are `p<process>-<n>`.
    """

    def __init__(
        self, producer: Producer, port: ClientSide, group: str, topic: str, process: int
    ) -> None:
        self._producer = producer
        self._port = port
        self._group = group
        self._topic = topic
        self._process = process
        self._sent = 0
        self._turn = asyncio.Lock()
        self._announced: tuple[str, asyncio.Future[bool]] | None = None
        self._is_over = False

    async def start(self) -> None:
        await self._producer.start()

    async def stop(self) -> None:
        await self._producer.stop()

    async def forward(self, messages: Sequence[Message], queue: MessageQueue) -> str | None:
        """Send a copy of each message of a queue, and report which copy belongs to which message.

        Returns the reason that not all copies are stored as safely as asked; None if they are.
        """
        async with self._turn:
            for batch in _batches(messages):
                first = f"p{self._process}-{self._sent}"
                error = await self._send(first, len(batch), len(batch[0].body))
                if error is not None:
                    return error
                reported: ForwardReport = {
                    "group": self._group,
                    "topic": queue.topic,
                    "broker": queue.broker_name,
                    "queue": queue.queue_id,
                    "originals": [[*one] for one in _ranges(batch)],
                    "key": first,
                }
                self._port.emit("ok", "forward", reported, None)
        return None

    def go_on(self, key: str) -> None:
        """Note that the history has the begin of this send."""
        if self._announced is not None and self._announced[0] == key:
            self._answer(goes_on=True)

    def end(self) -> None:
        """Note that the harness will release no further sends."""
        self._is_over = True
        self._answer(goes_on=False)

    def _answer(self, *, goes_on: bool) -> None:
        if self._announced is not None and not self._announced[1].done():
            self._announced[1].set_result(goes_on)

    async def _send(self, key: str, count: int, size: int) -> str | None:
        value: Request = {"topic": self._topic, "key": key, "count": count, "size": size}
        self._sent += count
        if not await self._announce(value):
            self._port.emit("fail", SEND_MANY, value, "the client ends")
            return "the client ends"
        outcome = await invoke_many(self._producer, value)
        self._port.emit(outcome.type, SEND_MANY, {**value, **outcome.value}, outcome.error)
        return None if outcome.type == "ok" else outcome.error or outcome.type

    async def _announce(self, value: Request) -> bool:
        """Report the begin of a send; return whether the send may continue."""
        recorded: asyncio.Future[bool] = asyncio.get_running_loop().create_future()
        self._announced = value["key"], recorded
        self._port.emit("invoke", SEND_MANY, value, None)
        if self._is_over:
            self._answer(goes_on=False)
        try:
            return await recorded
        finally:
            self._announced = None


def _batches(messages: Sequence[Message]) -> Iterator[Sequence[Message]]:
    """Split messages into batches of consecutive messages of one size."""
    for size, alike in groupby(messages, lambda message: len(message.body)):
        together = list(alike)
        most = max(1, BATCH_BYTES_MAX // (size + RECORD_BYTES))
        for first in range(0, len(together), most):
            yield together[first : first + most]


def _ranges(batch: Sequence[Message]) -> list[list[int]]:
    """Return the queue offsets of a batch as ranges: the first offset, and the number of consecutive ones."""
    found: list[list[int]] = []
    for message in batch:
        if found and message.queue_offset == sum(found[-1]):
            found[-1][1] += 1
        else:
            found.append([message.queue_offset, 1])
    return found
