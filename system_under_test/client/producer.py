"""Sending messages (RocketMQ: DefaultMQProducerImpl, synchronous mode)."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import dataclass, replace

from system_under_test.acl.signature import Credentials
from system_under_test.client.client_instance import TEMPLATE_TOPIC, ClientInstance
from system_under_test.client.errors import ClientError
from system_under_test.client.latency_faults import (
    BROKEN_LATENCY_MS,
    REFUSED_LATENCY_MS,
    LatencyFaults,
)
from system_under_test.client.queue_choice import QueueChooser
from system_under_test.client.routes import TEMPLATE_QUEUES_MAX, Route
from system_under_test.client.send_rules import (
    is_definitely_not_stored,
    is_worth_retrying,
)
from system_under_test.env import Env
from system_under_test.protocol.batch import BatchEntry, encode_batch
from system_under_test.protocol.bodies import MessageQueue
from system_under_test.protocol.codes import SEND_STATUS_OF_CODE, RequestCode, SendStatus
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.headers import HeaderError, SendMessageHeader, SendMessageResponse
from system_under_test.protocol.message import Message, UniqueIdGenerator, encode_properties
from system_under_test.remoting import RemotingError, RemotingTimeout

UNIQUE_KEY = "UNIQ_KEY"  # RocketMQ: MessageConst.PROPERTY_UNIQ_CLIENT_MESSAGE_ID_KEYIDX


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """`client_id` is `ip@name` and unique in the cluster.

    `send_timeout_s` is the budget of one send over all attempts; an attempt may take `try_timeout_s` of it while
    there is another broker to turn to, and all that is left otherwise.
    """

    group: str
    name_servers: tuple[str, ...]
    client_id: str
    send_timeout_s: float = 3.0  # RocketMQ: sendMsgTimeout
    retries: int = 2  # RocketMQ: retryTimesWhenSendFailed
    try_timeout_s: float = 1.0
    credentials: Credentials | None = None  # RocketMQ: AclClientRPCHook


@dataclass(frozen=True, slots=True, kw_only=True)
class SendResult:
    """The message is stored; only SEND_OK says that it is as safe as the broker was configured to make it."""

    status: SendStatus
    message_id: str  # UNIQ_KEY: the same for all attempts
    offset_message_id: str
    queue: MessageQueue
    queue_offset: int
    attempts: int


class SendFailed(ClientError):
    """No attempt was answered with success.

    `definite` promises that the message is stored nowhere and never will be: every single attempt was refused before
    anything was stored, or never left this process. `code` is the last response code, None if the last attempt had
    no response.
    """

    def __init__(self, text: str, *, definite: bool, code: int | None, attempts: int) -> None:
        super().__init__(text)
        self.definite = definite
        self.code = code
        self.text = text
        self.attempts = attempts


@dataclass(slots=True)
class SendProgress:
    """One send while it lasts."""

    deadline_s: float
    attempts: int = 0
    definite: bool = True  # so far nothing can have been stored
    code: int | None = None
    text: str = "the time was up before the first attempt"
    failed_broker: str | None = None
    is_batch: bool = False

    def note_failure(self, broker_name: str, failure: int | RemotingError, text: str) -> None:
        self.definite = self.definite and is_definitely_not_stored(failure)
        self.code = None if isinstance(failure, RemotingError) else failure
        self.text = text
        self.failed_broker = broker_name

    def error(self) -> SendFailed:
        return SendFailed(
            f"{self.text} (attempts: {self.attempts})",
            definite=self.definite,
            code=self.code,
            attempts=self.attempts,
        )


class Producer:
    """Sends one message at a time or many at once; every `send` is independent."""

    def __init__(self, env: Env, config: ProducerConfig) -> None:
        self._env = env
        self._config = config
        self._client = ClientInstance(env, config)
        self._client.producer_group = config.group
        self._client.on_broker_back = self._broker_back
        self._faults = LatencyFaults()
        self._chooser = QueueChooser(
            self._faults, self._is_answering, start=env.random.randrange(1 << 16)
        )
        self._ids = UniqueIdGenerator(
            config.client_id.partition("@")[0],
            env.random.getrandbits(16),  # in place of the process id
            env.random.getrandbits(32),
        )

    async def start(self) -> None:
        self._client.start()

    async def stop(self) -> None:
        """Leave the group and close all connections; sends under way fail."""
        await self._client.stop()

    async def send(self, message: Message, queue: MessageQueue | None = None) -> SendResult:
        """Store one message and return where. A message without UNIQ_KEY gets one, here and for good.

        With `queue` there is one attempt, to that queue; otherwise other brokers are tried within the time allowed.

        Raises:
            SendFailed: see there for what may have been stored nevertheless.
        """
        self._identify(message)
        return await self._send(message, queue, self._begin())

    async def send_batch(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store messages of one topic in one queue, with one request (RocketMQ: send(Collection)).

        Raises:
            SendFailed: see there for what may have been stored nevertheless.
        """
        for message in messages:
            self._identify(message)
        entries = [BatchEntry(m.body, m.properties, m.flag) for m in messages]
        batch = Message(topic=messages[0].topic, body=encode_batch(entries), properties={})
        progress = self._begin()
        progress.is_batch = True
        result = await self._send(batch, None, progress)
        ids = result.offset_message_id.split(",")
        if len(ids) != len(messages):
            progress.text = f"{len(ids)} ids came back for {len(messages)} messages"
            progress.definite = False
            raise progress.error()
        return [
            replace(
                result,
                message_id=message.properties[UNIQUE_KEY],
                offset_message_id=offset_message_id,
                queue_offset=result.queue_offset + place,
            )
            for place, (message, offset_message_id) in enumerate(zip(messages, ids, strict=True))
        ]

    async def send_one_way(self, message: Message) -> None:
        """Send one message and ask for no answer: nobody says whether it was stored.

        Raises:
            SendFailed: nothing was sent.
        """
        self._identify(message)
        progress = self._begin()
        try:
            route = await self._client.publish_route(message.topic)
            queue, address = self._target(route, None, progress)
            command = self._command(message, queue, progress)
            await self._client.remoting.invoke_oneway(address, command)
        except (ClientError, RemotingError) as error:
            progress.text = str(error)
            raise progress.error() from error

    def _identify(self, message: Message) -> None:
        if UNIQUE_KEY not in message.properties:
            message.properties[UNIQUE_KEY] = self._ids.next(self._env.clock.wall_ms())

    def _begin(self) -> SendProgress:
        now_s = asyncio.get_running_loop().time()
        return SendProgress(deadline_s=now_s + self._config.send_timeout_s)

    async def _send(
        self, message: Message, queue: MessageQueue | None, progress: SendProgress
    ) -> SendResult:
        """Raises SendFailed."""
        attempts_max = 1 if queue is not None else 1 + self._config.retries
        while progress.attempts < attempts_max and self._left_s(progress) > 0:
            result = await self._attempt(message, queue, progress)
            if result is not None:
                return result
        raise progress.error()

    def _left_s(self, progress: SendProgress) -> float:
        return progress.deadline_s - asyncio.get_running_loop().time()

    async def _attempt(
        self, message: Message, wanted: MessageQueue | None, progress: SendProgress
    ) -> SendResult | None:
        """One attempt. None: another one may follow. Raises SendFailed if none may."""
        try:
            route = await self._client.publish_route(message.topic)
            queue, address = self._target(route, wanted, progress)
        except ClientError as error:
            progress.text = str(error)
            raise progress.error() from error
        started_ms = self._now_ms()
        progress.attempts += 1
        command = self._command(message, queue, progress)
        timeout_s = max(self._left_s(progress), 0.001)
        if wanted is None and self._has_alternative(route, queue.broker_name):
            timeout_s = min(self._config.try_timeout_s, timeout_s)
        try:
            response = await self._ask(address, command, timeout_s)
        except RemotingError as error:
            self._note_silence(queue.broker_name, error, started_ms)
            progress.note_failure(queue.broker_name, error, str(error))
            return None
        status = SEND_STATUS_OF_CODE.get(response.code)
        if status is None:
            self._note_refusal(response, queue.broker_name, progress)
            return None
        self._faults.record(queue.broker_name, self._now_ms() - started_ms, self._now_ms())
        return send_result(message, queue, status, response, progress)

    def _target(
        self, route: Route, wanted: MessageQueue | None, progress: SendProgress
    ) -> tuple[MessageQueue, str]:
        """The queue and the address of its master. Raises ClientError if there is none to send to."""
        queue = wanted
        if queue is None:
            if not route.publish_queues:
                raise ClientError(f"the topic {route.topic} has no queue that can be written now")
            queue = self._chooser.choose(
                route.publish_queues,
                failed_broker=progress.failed_broker,
                now_ms=self._now_ms(),
            )
        address = self._client.master(queue.broker_name)
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
        """Ask the broker; when it takes longer than one try, find out whether it is there at all.

        A broker that is not is silent from then on, which ends its requests: there is time for another attempt.
        """
        if timeout_s <= self._config.try_timeout_s:
            return await self._client.ask(address, command, timeout_s)
        ping = asyncio.get_running_loop().call_later(
            self._config.try_timeout_s, self._client.health.ping, address
        )
        try:
            return await self._client.ask(address, command, timeout_s)
        finally:
            ping.cancel()

    def _command(
        self, message: Message, queue: MessageQueue, progress: SendProgress
    ) -> RemotingCommand:
        header = SendMessageHeader(
            producer_group=self._config.group,
            topic=message.topic,
            default_topic=TEMPLATE_TOPIC,
            default_topic_queue_nums=TEMPLATE_QUEUES_MAX,
            queue_id=queue.queue_id,
            sys_flag=message.sys_flag,
            born_timestamp=self._env.clock.wall_ms(),
            flag=message.flag,
            properties=encode_properties(message.properties).decode(),
            batch=progress.is_batch,
        )
        code = RequestCode.SEND_BATCH_MESSAGE if header.batch else RequestCode.SEND_MESSAGE_V2
        return RemotingCommand.request(code, header.to_ext_v2(), message.body)

    # What sends teach about brokers

    def _note_silence(self, broker_name: str, error: RemotingError, started_ms: int) -> None:
        now_ms = self._now_ms()
        is_slow = isinstance(error, RemotingTimeout)
        latency_ms = now_ms - started_ms if is_slow else BROKEN_LATENCY_MS
        self._faults.record(broker_name, latency_ms, now_ms)

    def _note_refusal(
        self, response: RemotingCommand, broker_name: str, progress: SendProgress
    ) -> None:
        """Raises SendFailed if no other broker could do better."""
        text = f"{broker_name} refused the message with code {response.code}: {response.remark}"
        progress.note_failure(broker_name, response.code, text)
        if not is_worth_retrying(response.code):
            raise progress.error()
        self._faults.record(broker_name, REFUSED_LATENCY_MS, self._now_ms())

    def _broker_back(self, address: str) -> None:
        broker_name = self._client.routes.broker_name_of(address)
        if broker_name is not None and self._client.master(broker_name) == address:
            self._faults.lift(broker_name)

    def _is_answering(self, broker_name: str) -> bool:
        address = self._client.master(broker_name)
        return address is not None and self._client.health.is_answering(address)

    def _now_ms(self) -> int:
        return self._env.clock.monotonic_ns() // 1_000_000


def send_result(
    message: Message,
    queue: MessageQueue,
    status: SendStatus,
    response: RemotingCommand,
    progress: SendProgress,
) -> SendResult:
    """What a broker's answer says. Raises SendFailed if it says success and breaks the protocol."""
    try:
        header = SendMessageResponse.from_ext(response.ext_fields)
    except HeaderError as error:
        progress.note_failure(queue.broker_name, response.code, str(error))
        raise progress.error() from error
    return SendResult(
        status=status,
        message_id=message.properties.get(UNIQUE_KEY, ""),
        offset_message_id=header.msg_id,
        queue=MessageQueue(
            topic=queue.topic, broker_name=queue.broker_name, queue_id=header.queue_id
        ),
        queue_offset=header.queue_offset,
        attempts=progress.attempts,
    )
