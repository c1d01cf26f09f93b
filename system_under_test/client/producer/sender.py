"""Stores one message on some broker within a timeout (RocketMQ: DefaultMQProducerImpl.sendDefaultImpl).

Producers use it, and so do consumers that have to send a message back themselves.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from staticfire.system_under_test.client.errors import ClientError, NoNameServer
from staticfire.system_under_test.client.message_properties import UNIQUE_KEY
from staticfire.system_under_test.client.producer.latency_faults import (
    BROKEN_LATENCY_MS,
    NOT_AVAILABLE_MS,
    NOT_AVAILABLE_OF_ROCKETMQ_MS,
    REFUSED_LATENCY_MS,
    LatencyFaults,
)
from staticfire.system_under_test.client.producer.ordered_queues import OrderedQueues
from staticfire.system_under_test.client.producer.queue_choice import QueueChooser
from staticfire.system_under_test.client.producer.send_command import (
    WireBody,
    send_command,
    wire_body,
)
from staticfire.system_under_test.client.producer.send_result import (
    SendFailed,
    SendProgress,
    SendResult,
    send_result,
)
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.client.routing.routes import Route
from staticfire.system_under_test.client.send_rules import is_worth_retrying
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SEND_STATUS_OF_CODE, SendStatus
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, RecordError, UniqueIdGenerator
from staticfire.system_under_test.remoting import RemotingError, RemotingTimeout

BODY_SIZE_MAX = 4 << 20  # RocketMQ: DefaultMQProducer.maxMessageSize
COMPRESS_OVER_BYTES = 4096  # RocketMQ: compressMsgBodyOverHowmuch


OnSent = Callable[[Message, SendResult | SendFailed, int], None]


@dataclass(frozen=True, slots=True, kw_only=True)
class SendOptions:
    """Options of sends. See ProducerConfig, which has the same fields."""

    group: str
    send_timeout_s: float = 3.0
    retries: int = 2
    try_timeout_s: float = 1.0
    compress_over_bytes: int = COMPRESS_OVER_BYTES
    avoids_as_rocketmq: bool = False
    retries_weak: bool = False


class Sender:
    """Sends messages over a client instance; every send is independent."""

    def __init__(
        self, client: ClientInstance, options: SendOptions, ordered: OrderedQueues | None = None
    ) -> None:
        env = client.env
        self.client = client
        self.options = options
        self._env = env
        durations_ms = (
            NOT_AVAILABLE_OF_ROCKETMQ_MS if options.avoids_as_rocketmq else NOT_AVAILABLE_MS
        )
        self.faults = LatencyFaults(durations_ms)
        self._chooser = QueueChooser(
            self.faults, self._is_answering, start=env.random.randrange(1 << 16)
        )
        self._ordered = OrderedQueues() if ordered is None else ordered
        self._ids: UniqueIdGenerator | None = None
        self.on_sent: OnSent | None = None  # called after each send, with its duration in ms
        client.on_broker_back.append(self._broker_back)

    def identify(self, message: Message) -> None:
        """Add a UNIQ_KEY to a message that has none: all its attempts and copies have the same."""
        if UNIQUE_KEY in message.properties:
            return
        if self._ids is None:
            random = self._env.random
            self._ids = UniqueIdGenerator(
                self.client.client_id.partition("@")[0],
                random.getrandbits(16),  # instead of the process id
                random.getrandbits(32),
            )
        message.properties[UNIQUE_KEY] = self._ids.next(self._env.clock.wall_ms())

    def begin(self, timeout_s: float | None = None) -> SendProgress:
        """Begin a send; all its attempts share `timeout_s` (None: the timeout of the options)."""
        now_s = asyncio.get_running_loop().time()
        budget_s = self.options.send_timeout_s if timeout_s is None else timeout_s
        return SendProgress(deadline_s=now_s + budget_s)

    async def send(
        self, message: Message, queue: MessageQueue | None, progress: SendProgress
    ) -> SendResult:
        """Store the message: in `queue`, with one attempt; if it is None, in any queue, with as many as allowed.

        Raises SendFailed.
        """
        if self.on_sent is None:
            return await self._send(message, queue, progress)
        started_ms = self.now_ms()
        outcome: SendResult | SendFailed
        try:
            outcome = await self._send(message, queue, progress)
        except SendFailed as error:
            self.on_sent(message, error, self.now_ms() - started_ms)
            raise
        self.on_sent(message, outcome, self.now_ms() - started_ms)
        return outcome

    async def _send(
        self, message: Message, queue: MessageQueue | None, progress: SendProgress
    ) -> SendResult:
        body = self.body_of(message, progress)
        attempts_max = 1 if queue is not None else 1 + self.options.retries
        weak: SendResult | None = None
        while progress.attempts < attempts_max and self.left_s(progress) > 0:
            try:
                result = await self._attempt(message, body, queue, progress)
            except SendFailed:
                if weak is None:
                    raise
                return weak
            if result is None:
                continue
            if result.status is SendStatus.SEND_OK or not self.options.retries_weak:
                return result
            weak = result
            progress.failed_broker = result.queue.broker_name
        if weak is None:
            raise progress.error()
        return weak

    async def ordered_queue(self, topic: str, key: str, progress: SendProgress) -> MessageQueue:
        """The queue of the key. Raises SendFailed: nothing was sent."""
        try:
            route = await self.route(topic, progress)
        except ClientError as error:
            progress.text = str(error)
            raise progress.error() from error
        queue = self._ordered.queue_of(key, route)
        if queue is None:
            progress.text = f"the topic {topic} has no queue that can be written now"
            raise progress.error()
        return queue

    async def route(self, topic: str, progress: SendProgress) -> Route:
        """The route for sends to `topic`, looked up within the time left of the send. Raises ClientError."""
        if (known := self.client.known_publish_route(topic)) is not None:
            return known
        try:
            async with asyncio.timeout(self.left_s(progress)):
                return await self.client.publish_route(topic)
        except TimeoutError as error:
            raise NoNameServer(
                f"no name server said in time where the topic {topic} can be sent to"
            ) from error

    def body_of(self, message: Message, progress: SendProgress) -> WireBody:
        """The body on the wire. Raises SendFailed for one that no broker accepts."""
        if len(message.body) > BODY_SIZE_MAX:
            progress.text = f"the body has {len(message.body)} bytes; allowed are {BODY_SIZE_MAX}"
            raise progress.error()
        if progress.is_batch:
            return WireBody(message.body, message.sys_flag)  # batches are not compressed
        return wire_body(message, self.options.compress_over_bytes)

    def left_s(self, progress: SendProgress) -> float:
        return progress.deadline_s - asyncio.get_running_loop().time()

    async def _attempt(
        self,
        message: Message,
        body: WireBody,
        wanted: MessageQueue | None,
        progress: SendProgress,
    ) -> SendResult | None:
        """Make one attempt. None: another one may follow. Raises SendFailed if none may follow."""
        try:
            route = await self.route(message.topic, progress)
            queue, address = self.target(route, wanted, progress)
        except ClientError as error:
            progress.text = str(error)
            raise progress.error() from error
        started_ms = self.now_ms()
        progress.attempts += 1
        command = self.command(message, body, queue, progress)
        timeout_s = max(self.left_s(progress), 0.001)
        if wanted is None and self._has_alternative(route, queue.broker_name):
            timeout_s = min(self.options.try_timeout_s, timeout_s)
        try:
            response = await self._ask(address, command, timeout_s)
        except RemotingError as error:
            self.note_silence(queue, error, started_ms, progress)
            return None
        return self.take_answer(message, queue, response, started_ms, progress)

    def take_answer(
        self,
        message: Message,
        queue: MessageQueue,
        response: RemotingCommand,
        started_ms: int,
        progress: SendProgress,
    ) -> SendResult | None:
        """The result in an answer; None if another broker may do better. Raises SendFailed if none may."""
        status = SEND_STATUS_OF_CODE.get(response.code)
        if status is None:
            self._note_refusal(response, queue.broker_name, progress)
            return None
        self.faults.record(queue.broker_name, self.now_ms() - started_ms, self.now_ms())
        return send_result(message, queue, status, response, progress)

    def target(
        self, route: Route, wanted: MessageQueue | None, progress: SendProgress
    ) -> tuple[MessageQueue, str]:
        """The queue to send to, and the address of its master. Raises ClientError if there is none."""
        queue = wanted
        if queue is None:
            if not route.publish_queues:
                raise ClientError(f"the topic {route.topic} has no queue that can be written now")
            queue = self._chooser.choose(
                route.publish_queues,
                failed_broker=progress.failed_broker,
                now_ms=self.now_ms(),
            )
        address = self.client.master(queue.broker_name)
        if address is None:
            raise ClientError(f"no route has a master of {queue.broker_name}")
        return queue, address

    def _has_alternative(self, route: Route, broker_name: str) -> bool:
        """Whether another broker could take the message."""
        return any(
            name != broker_name and broker.is_writable and self._is_answering(name)
            for name, broker in route.brokers.items()
        )

    async def _ask(
        self, address: str, command: RemotingCommand, timeout_s: float
    ) -> RemotingCommand:
        """Send the request; if the answer takes longer than one try may, ping the broker.

        A broker that does not answer the ping counts as silent. That ends its requests, in time for another attempt.
        """
        if timeout_s <= self.options.try_timeout_s:
            return await self.client.ask(address, command, timeout_s)
        ping = asyncio.get_running_loop().call_later(
            self.options.try_timeout_s, self.client.health.ping, address
        )
        try:
            return await self.client.ask(address, command, timeout_s)
        finally:
            ping.cancel()

    def command(
        self, message: Message, body: WireBody, queue: MessageQueue, progress: SendProgress
    ) -> RemotingCommand:
        """The request of a send. Raises SendFailed if the message cannot be encoded."""
        try:
            return send_command(
                message,
                body,
                group=self.options.group,
                queue_id=queue.queue_id,
                now_ms=self._env.clock.wall_ms(),
                is_batch=progress.is_batch,
            )
        except RecordError as error:
            progress.text = str(error)
            raise progress.error() from error

    # What sends show about brokers

    def note_silence(
        self, queue: MessageQueue, error: RemotingError, started_ms: int, progress: SendProgress
    ) -> None:
        now_ms = self.now_ms()
        is_slow = isinstance(error, RemotingTimeout) and not self.options.avoids_as_rocketmq
        latency_ms = now_ms - started_ms if is_slow else BROKEN_LATENCY_MS
        self.faults.record(queue.broker_name, latency_ms, now_ms)
        progress.note_failure(queue.broker_name, error, str(error))

    def _note_refusal(
        self, response: RemotingCommand, broker_name: str, progress: SendProgress
    ) -> None:
        """Record a refusal. Raises SendFailed if no other broker could do better."""
        text = f"{broker_name} refused the message with code {response.code}: {response.remark}"
        progress.note_failure(broker_name, response.code, text)
        if self.options.avoids_as_rocketmq:
            self.faults.record(broker_name, BROKEN_LATENCY_MS, self.now_ms())
        elif is_worth_retrying(response.code):
            self.faults.record(broker_name, REFUSED_LATENCY_MS, self.now_ms())
        if not is_worth_retrying(response.code):
            raise progress.error()

    def _broker_back(self, address: str) -> None:
        if self.options.avoids_as_rocketmq:
            return
        broker_name = self.client.routes.broker_name_of(address)
        if broker_name is not None and self.client.master(broker_name) == address:
            self.faults.lift(broker_name)

    def _is_answering(self, broker_name: str) -> bool:
        address = self.client.master(broker_name)
        return address is not None and self.client.health.is_answering(address)

    def now_ms(self) -> int:
        return self._env.clock.monotonic_ns() // 1_000_000
