"""Sends messages (RocketMQ: DefaultMQProducerImpl)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from staticfire.system_under_test.acl.signature import Credentials
from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.message_properties import (
    DELAY_LEVEL,
    RETRY_PREFIX,
    SHARDING_KEY,
    UNIQUE_KEY,
    WAIT,
)
from staticfire.system_under_test.client.producer.async_send import AsyncSends, Done
from staticfire.system_under_test.client.producer.ordered_queues import OrderedQueues
from staticfire.system_under_test.client.producer.request_reply import (
    Reply,
    Requests,
)
from staticfire.system_under_test.client.producer.send_result import (
    SendFailed,
    SendProgress,
    SendResult,
)
from staticfire.system_under_test.client.producer.sender import (
    COMPRESS_OVER_BYTES,
    Sender,
    SendOptions,
)
from staticfire.system_under_test.client.producer.tracing import Tracing
from staticfire.system_under_test.client.producer.transactions import (
    AnswerCheck,
    Execute,
    TransactionResult,
    Transactions,
)
from staticfire.system_under_test.client.routing.client_instance import ClientInstance
from staticfire.system_under_test.protocol.batch import BatchEntry, encode_batch
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import Connection, RemotingError
from staticfire.system_under_test.remoting.connection import not_supported
from staticfire.system_under_test.runtime.env import Env

BATCH_COUNT_MAX = 25_000  # the ids in the answer fit a header of READ_HEADER_SIZE_MAX


@dataclass(frozen=True, slots=True, kw_only=True)
class ProducerConfig:
    """`client_id` is `ip@name` and unique in the cluster.

    `send_timeout_s` is the budget of one send over all attempts; an attempt may take `try_timeout_s` of it while there
    is another broker to try, and all that is left otherwise. Bodies of `compress_over_bytes` or more are compressed.
    `avoids_as_rocketmq` avoids slow and failing brokers for as long as RocketMQ does (see latency_faults).
    `retries_weak` tries another broker, within the same budget, also after a status other than SEND_OK: the message is
    then stored more than once.
    `trace` sends a record of each send to the trace topic (see tracing).
    """

    group: str
    name_servers: tuple[str, ...]
    client_id: str
    send_timeout_s: float = 3.0  # RocketMQ: sendMsgTimeout
    retries: int = 2  # RocketMQ: retryTimesWhenSendFailed
    try_timeout_s: float = 1.0
    compress_over_bytes: int = COMPRESS_OVER_BYTES
    avoids_as_rocketmq: bool = False  # RocketMQ: sendLatencyFaultEnable
    retries_weak: bool = False  # RocketMQ: retryAnotherBrokerWhenNotStoreOK
    trace: bool = False  # RocketMQ: enableMsgTrace
    credentials: Credentials | None = None  # RocketMQ: AclClientRPCHook

    def send_options(self) -> SendOptions:
        return SendOptions(
            group=self.group,
            send_timeout_s=self.send_timeout_s,
            retries=self.retries,
            try_timeout_s=self.try_timeout_s,
            compress_over_bytes=self.compress_over_bytes,
            avoids_as_rocketmq=self.avoids_as_rocketmq,
            retries_weak=self.retries_weak,
        )


class Producer:
    """Sends one message at a time or many at once; every `send` is independent.

    Args:
        check: answers brokers that ask for the outcome of a transaction (see `transactions`).
        ordered: the queues of keys, as learned by an earlier producer. A producer that starts without them while a
        broker is away would spread the keys over the other brokers.
    """

    def __init__(
        self,
        env: Env,
        config: ProducerConfig,
        *,
        check: AnswerCheck | None = None,
        ordered: OrderedQueues | None = None,
    ) -> None:
        self._env = env
        self._config = config
        self._client = ClientInstance(env, config)
        self._client.producer_group = config.group
        self._client.on_request = self._serve
        self._sender = Sender(self._client, config.send_options(), ordered)
        self._async_sends = AsyncSends(self._sender)
        self._transactions = Transactions(self._client, self._sender, config.group, check)
        self._requests = Requests(self._client, self._sender)
        self._tracing = Tracing(self._client, config.group) if config.trace else None
        if self._tracing is not None:
            self._sender.on_sent = self._tracing.sent
            self._transactions.on_ended = self._tracing.ended

    async def start(self) -> None:
        self._client.start()

    async def stop(self) -> None:
        """Leave the group and close all connections. Sends under way fail."""
        self._transactions.stop()
        if self._tracing is not None:
            await self._tracing.stop()
        self._async_sends.stop()
        await self._client.stop()

    async def send(
        self, message: Message, queue: MessageQueue | None = None, *, timeout_s: float | None = None
    ) -> SendResult:
        """Store one message and return its position. Adds a UNIQ_KEY to a message that has none.

        With `queue` there is one attempt, to that queue; otherwise it tries other brokers within the timeout.
        The property DELAY, 1 to 18, delays its delivery; TAGS is its tag.

        Raises SendFailed: see there for what may have been stored nevertheless.
        """
        self._sender.identify(message)
        return await self._sender.send(message, queue, self._sender.begin(timeout_s))

    async def send_ordered(self, message: Message, sharding_key: str) -> SendResult:
        """Store a message in the queue of its key, in one attempt; sent one by one, messages of a key stay in order.

        RocketMQ: send(message, SelectMessageQueueByHash, key). See ordered_queues for what a lost broker changes.

        Raises SendFailed: see there for what may have been stored nevertheless.
        """
        message.properties[SHARDING_KEY] = sharding_key
        self._sender.identify(message)
        progress = self._sender.begin()
        queue = await self._sender.ordered_queue(message.topic, sharding_key, progress)
        return await self._sender.send(message, queue, progress)

    async def send_batch(self, messages: Sequence[Message]) -> list[SendResult]:
        """Store messages of one topic in one queue, with one request (RocketMQ: send(Collection)).

        Raises SendFailed: see there for what may have been stored nevertheless; nothing if they are not a valid batch.
        """
        if reason := why_no_batch(messages):
            raise SendFailed(reason, definite=True, code=None, attempts=0)
        for message in messages:
            self._sender.identify(message)
        entries = [BatchEntry(m.body, m.properties, m.flag) for m in messages]
        # WAIT is a property of the whole batch.
        properties = {k: v for k, v in messages[0].properties.items() if k == WAIT}
        batch = Message(topic=messages[0].topic, body=encode_batch(entries), properties=properties)
        progress = self._sender.begin()
        progress.is_batch = True
        result = await self._sender.send(batch, None, progress)
        return split_result(messages, result, progress)

    async def send_one_way(self, message: Message) -> None:
        """Send one message one way: no answer says whether it was stored. Raises SendFailed: nothing was sent."""
        sender = self._sender
        sender.identify(message)
        progress = sender.begin()
        body = sender.body_of(message, progress)
        try:
            route = await sender.route(message.topic, progress)
            queue, address = sender.target(route, None, progress)
            command = sender.command(message, body, queue, progress)
            await self._client.remoting.invoke_oneway(address, command)
        except SendFailed:
            raise
        except (ClientError, RemotingError) as error:
            progress.text = str(error)
            raise progress.error() from error

    def send_async(self, message: Message, done: Done) -> None:
        """Send one message; `done` is called once, now or later, with the SendResult or with SendFailed.

        Raises SendFailed: too many messages are under way; nothing was sent, and `done` is not called.
        """
        self._async_sends.begin(message, done)

    async def send_in_transaction(
        self, message: Message, execute: Execute, *, check_after_s: int | None = None
    ) -> TransactionResult:
        """Store a half message, execute the local transaction, and report its outcome to the broker.

        Consumers see the message once the broker has got a COMMIT, from here or from `check`, which it asks if it gets
        no outcome; `check_after_s` is how long it waits before that. `execute` runs only after SEND_OK: weaker statuses
        end in a rollback. An exception of `execute` or `check` counts as UNKNOWN.

        Raises:
            SendFailed: nothing was executed. If it is not `definite`, a half message may exist, and brokers will call
            `check` for it.
        """
        return await self._transactions.send(message, execute, check_after_s)

    async def request(self, message: Message, *, timeout_s: float | None = None) -> Reply:
        """Send a message and wait for the reply of a consumer.

        Raises:
            SendFailed: see there for what may have been stored nevertheless.
            RequestTimeout: stored, but no reply came in time.
        """
        budget_s = self._config.send_timeout_s if timeout_s is None else timeout_s
        return await self._requests.ask(message, budget_s)

    def _serve(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Handle requests of brokers to producers. Raises ValueError."""
        match request.code:
            case RequestCode.CHECK_TRANSACTION_STATE:
                self._transactions.ask(connection, request)
                return None
            case RequestCode.PUSH_REPLY_MESSAGE_TO_CLIENT:
                return self._requests.replied(request)
            case _:
                return not_supported(request)


def why_no_batch(messages: Sequence[Message]) -> str:
    """Why these messages are not a valid batch; "" if they are (RocketMQ: MessageBatch.generateFromList)."""
    if not messages:
        return "a batch needs a message"
    if len(messages) > BATCH_COUNT_MAX:
        return f"a batch has {len(messages)} messages; allowed: up to {BATCH_COUNT_MAX}"
    topics = dict.fromkeys(message.topic for message in messages)
    if len(topics) > 1:
        return f"a batch has messages of one topic; these have {', '.join(topics)}"
    if messages[0].topic.startswith(RETRY_PREFIX):
        return f"a batch cannot go to a retry topic; this one is {messages[0].topic}"
    if len({message.properties.get(WAIT, "true").lower() for message in messages}) > 1:
        return "the messages of a batch wait for flush and replica, or none does; WAIT differs here"
    if any(message.properties.get(DELAY_LEVEL, "0") != "0" for message in messages):
        return "a batch cannot be delayed; a message in it has a delay level"
    return ""


def split_result(
    messages: Sequence[Message], result: SendResult, progress: SendProgress
) -> list[SendResult]:
    """The results of the messages of a batch. Raises SendFailed if their number differs from that of the messages."""
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
            queue_offset=result.queue_offset + index,
        )
        for index, (message, offset_message_id) in enumerate(zip(messages, ids, strict=True))
    ]
