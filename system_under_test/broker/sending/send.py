"""Handles sends: codes 10, 310 and 320 (RocketMQ, SendMessageProcessor)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from random import Random

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topic_redirection import (
    DELAY_PROPERTY,
    TRANSACTION_PROPERTY,
    TRANSACTION_TYPE_MASK,
    TopicRedirection,
    retry_limit,
)
from staticfire.system_under_test.broker.metadata.topics import (
    FORBIDDEN_TOPICS,
    PERM_WRITE,
    RETRY_PREFIX,
    Topics,
    topic_name_error,
)
from staticfire.system_under_test.broker.refusal import SendRefused, refusing_without_topic
from staticfire.system_under_test.broker.sending.batches import parts_of
from staticfire.system_under_test.broker.sending.large_batches import LargeBatch, LargeBatches
from staticfire.system_under_test.broker.sending.pending_sends import Answer
from staticfire.system_under_test.broker.sending.send_response import SendAnswer, SendAnswers
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.broker.text import time_text
from staticfire.system_under_test.protocol.bodies import TopicConfig
from staticfire.system_under_test.protocol.codes import FAQ, RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import SendMessageHeader
from staticfire.system_under_test.protocol.message import Message, decode_properties
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import PutResult, PutStatus

MULTI_TAGS_FLAG = 0x2  # RocketMQ, MessageSysFlag
WAIT_PROPERTY = "WAIT"
CLUSTER_PROPERTY = "CLUSTER"

PUT_CODES = {
    PutStatus.MESSAGE_ILLEGAL: ResponseCode.MESSAGE_ILLEGAL,
    PutStatus.SERVICE_NOT_AVAILABLE: ResponseCode.SERVICE_NOT_AVAILABLE,
    PutStatus.CREATE_MAPPED_FILE_FAILED: ResponseCode.SYSTEM_ERROR,
}

LONG_NAMED = frozenset((RequestCode.SEND_MESSAGE, RequestCode.SEND_REPLY_MESSAGE))

# (end offset of a stored message, callback that answers its sender, WAIT property)
Acknowledge = Callable[[int, Answer, bool], None]


class SendProcessor:
    """Checks a message, appends it, and leaves the answer to group commit.

    Args:
        is_ready: whether sends may be accepted (False during the catch-up of a master, and while stopping).
        acknowledge: gets every stored message; answers it at once or when it is safe.
        on_refusal: called when the store has refused a message: its disk may have failed.
        redirection: moves messages that are not stored in the topic to which they were sent.
        statistics: counts stored messages, and refusals of the store.
        now_ms: the wall clock, for `accept_sends_from_ms`.
        now_ns: the monotonic clock.
        share: how much of this loop turn the node's requests have used.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        random: Random,
        *,
        is_ready: Callable[[], bool],
        acknowledge: Acknowledge,
        on_refusal: Callable[[], None],
        redirection: TopicRedirection,
        statistics: BrokerStatistics,
        now_ms: Callable[[], int],
        now_ns: Callable[[], int],
        share: TurnShare,
    ) -> None:
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._random = random
        self._is_ready = is_ready
        self._acknowledge = acknowledge
        self._on_refusal = on_refusal
        self._redirection = redirection
        self._statistics = statistics
        self._now_ms = now_ms
        self._is_early = False
        self._large = LargeBatches(
            store,
            share,
            store_part=self._store_next_part,
            finish=self._finish_batch,
            send_again=self.handle,
            refuse=self.answer_refusal,
            now_ns=now_ns,
        )
        self._store_host = (config.listen_host, config.listen_port)
        self.answers = SendAnswers({})
        self.options_changed()

    def options_changed(self) -> None:
        """Apply changed options of a running broker: fields of answers, and the time from which sends are accepted."""
        config = self._config
        self._is_early = config.accept_sends_from_ms > 0  # becomes False when that time has come
        # In every answer to a send, including refusals.
        self._answer_ext = {
            "MSG_REGION": config.region_id,
            "TRACE_ON": "true" if config.trace_on else "false",
        }
        self.answers = SendAnswers(self._answer_ext)

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Store the message or batch of a request and answer later, or refuse at once.

        Raises HeaderError: a header field is missing or malformed.
        """
        try:
            header, message = self.read(connection, request)
            if self._store.held_queue and self._large.holds(message.topic, message.queue_id):
                self._large.defer(connection, request)
            elif header.batch:
                self._store_batch(connection, request, message)
            else:
                self._store_one(connection, request, header, message)
        except SendRefused as refusal:
            return self.answer_refusal(request, refusal)
        return None

    def read(
        self, connection: Connection, request: RemotingCommand
    ) -> tuple[SendMessageHeader, Message]:
        """The message of a request that has passed the checks of broker, topic and queue.

        Raises:
            HeaderError: a header field is missing or malformed.
            SendRefused: a check failed.
        """
        header = parse_header(request)
        topic = self._check(header)
        queue_id = self._choose_queue(header, topic)
        message = self._make_message(connection, request, header, queue_id)
        if topic.topic_filter_type == "MULTI_TAG":
            message.sys_flag |= MULTI_TAGS_FLAG
        return header, message

    def answer_refusal(self, request: RemotingCommand, refusal: SendRefused) -> RemotingCommand:
        ext = dict(self._answer_ext)
        return RemotingCommand.response(request, refusal.code, str(refusal), ext)

    def _make_message(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageHeader,
        queue_id: int,
    ) -> Message:
        properties = decode_properties(header.properties or "")
        properties[CLUSTER_PROPERTY] = self._config.cluster_name
        return Message(  # keyword arguments would take three times as long
            header.topic,
            request.body,
            properties,
            header.flag,
            header.sys_flag,
            queue_id,
            0,  # queue offset and physical offset: the store sets them
            0,
            header.born_timestamp,
            (connection.remote_host, connection.remote_port),
            0,  # store timestamp: the store sets it
            self._store_host,
            header.reconsume_times,
        )

    # Storing

    def _store_one(
        self,
        connection: Connection,
        request: RemotingCommand,
        header: SendMessageHeader,
        message: Message,
    ) -> None:
        properties = message.properties
        queue_id = message.queue_id
        waits = waits_for_store(properties)
        if message.topic.startswith(RETRY_PREFIX):
            self._check_retry(header, message, request.version)
        if (
            message.sys_flag & TRANSACTION_TYPE_MASK
            or DELAY_PROPERTY in properties
            or TRANSACTION_PROPERTY in properties
        ):
            self._check_transaction(properties)
            self._redirection.divert(message)
        if message.topic == header.topic:  # a redirected message keeps the property (RocketMQ)
            properties.pop(WAIT_PROPERTY, None)
        result = self._store.put(message)
        if result.status is not PutStatus.PUT_OK:
            raise self._refused(result)
        self._statistics.put(message.topic, message.queue_id, 1, result.size_bytes)
        answer = SendAnswer(
            self.answers, connection, request, result.message_id, queue_id, result.queue_offset
        )
        self._acknowledge(result.end_offset, answer, waits)

    def _store_batch(
        self, connection: Connection, request: RemotingCommand, message: Message
    ) -> None:
        """Store one record for each message of the batch (RocketMQ, CommitLog.asyncPutMessages)."""
        if message.topic.startswith(RETRY_PREFIX):
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"batch request does not support retry group {message.topic}",
            )
        properties = message.properties
        if message.sys_flag & TRANSACTION_TYPE_MASK or DELAY_PROPERTY in properties:
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL, "a batch can be neither delayed nor transactional"
            )
        if len(message.body) > self._config.message_size_max:
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"batch has {len(message.body)} bytes; message_size_max is {self._config.message_size_max}",
            )
        parts = parts_of(message)
        part = next(parts)
        if next(parts, None) is None:
            results = self._store_part(part)
            ids = ",".join([result.message_id for result in results])
            self._answer_batch(connection, request, message, ids, results[0], results[-1])
        else:
            self._large.add(LargeBatch(connection, request, message, parts))

    def _store_part(self, messages: Sequence[Message]) -> Sequence[PutResult]:
        """Store messages of a batch. Raises SendRefused."""
        results = self._store.put_batch(messages)
        last = results[-1]
        if last.status is not PutStatus.PUT_OK:
            raise self._refused(last)
        size_bytes = sum(result.size_bytes for result in results)
        self._statistics.put(messages[0].topic, messages[0].queue_id, len(results), size_bytes)
        return results

    def _store_next_part(self, messages: Sequence[Message]) -> Sequence[PutResult]:
        """Store a part of a batch that began in an earlier turn, and begin its flush. Raises SendRefused."""
        if not self._is_ready() or self._topics.get(messages[0].topic) is None:
            raise SendRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE, "this broker does not accept the batch any more"
            )
        results = self._store_part(messages)
        self._acknowledge(results[-1].end_offset, _unawaited, False)
        return results

    def _finish_batch(self, batch: LargeBatch) -> None:
        assert batch.first is not None
        assert batch.last is not None
        self._answer_batch(
            batch.connection,
            batch.request,
            batch.message,
            ",".join(batch.texts),
            batch.first,
            batch.last,
        )

    def _answer_batch(
        self,
        connection: Connection,
        request: RemotingCommand,
        message: Message,
        ids: str,
        first: PutResult,
        last: PutResult,
    ) -> None:
        answer = SendAnswer(
            self.answers, connection, request, ids, message.queue_id, first.queue_offset
        )
        self._acknowledge(last.end_offset, answer, waits_for_store(message.properties))

    def _refused(self, result: PutResult) -> SendRefused:
        self._statistics.failed_puts += 1
        self._on_refusal()
        return SendRefused(PUT_CODES[result.status], result.reason)

    # Checks, in RocketMQ's order

    def _check(self, header: SendMessageHeader) -> TopicConfig:
        """Checks 1 to 5 of RocketMQ's SendMessageProcessor.preSend and msgCheck. Raises SendRefused."""
        if not self._is_ready():
            raise SendRefused(
                ResponseCode.SERVICE_NOT_AVAILABLE, "this broker does not accept messages now"
            )
        if self._is_early:
            self._check_time()
        name = header.topic
        topic = self._topics.get(name)
        if topic is not None and topic.order and not self._config.broker_permission & PERM_WRITE:
            raise SendRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.listen_host}] sending message is forbidden",
            )
        if topic is None and (error := topic_name_error(name)) is not None:
            raise SendRefused(ResponseCode.SYSTEM_ERROR, error)
        if name in FORBIDDEN_TOPICS:
            raise SendRefused(
                ResponseCode.NO_PERMISSION, f"Sending message to topic[{name}] is forbidden."
            )
        if topic is None:
            topic = self._create(header)
        if topic is None:
            raise SendRefused(
                ResponseCode.TOPIC_NOT_EXIST, f"topic[{name}] not exist, apply first please!{FAQ}"
            )
        return topic

    def _create(self, header: SendMessageHeader) -> TopicConfig | None:
        """Create the topic from its template; None if that is not allowed. Raises SendRefused if that fails."""
        with refusing_without_topic(header.topic):
            return self._topics.create_on_send(
                header.topic,
                header.default_topic,
                header.default_topic_queue_nums,
                unit_mode=header.unit_mode,
            )

    def _check_time(self) -> None:
        start_ms = self._config.accept_sends_from_ms
        if self._now_ms() < start_ms:
            start = time_text(start_ms, self._config.utc_offset_s)
            raise SendRefused(
                ResponseCode.SYSTEM_ERROR,
                f"broker unable to service, until {start}",
            )
        self._is_early = False

    def _choose_queue(self, header: SendMessageHeader, topic: TopicConfig) -> int:
        limit = max(topic.read_queue_nums, topic.write_queue_nums)
        if header.queue_id >= limit:
            raise SendRefused(
                ResponseCode.SYSTEM_ERROR,
                f"request queueId[{header.queue_id}] is illegal, topic {topic.topic_name} has {limit} queues",
            )
        if header.queue_id >= 0:
            return header.queue_id
        return int(self._random.random() * topic.write_queue_nums)

    def _check_retry(self, header: SendMessageHeader, message: Message, version: int) -> None:
        """Checks 7 and 7b: the group must exist; a message that has used up its retries becomes a dead letter."""
        group_name = message.topic.removeprefix(RETRY_PREFIX)
        group = self._groups.find(group_name)
        if group is None:
            raise SendRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {group_name} {FAQ}",
            )
        if header.reconsume_times >= retry_limit(group, header.max_reconsume_times, version):
            self._redirection.dead_letter(message, group_name)

    def _check_transaction(self, properties: dict[str, str]) -> None:
        if (
            self._config.reject_transactions
            and properties.get(TRANSACTION_PROPERTY, "").lower() == "true"
        ):
            raise SendRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.listen_host}] sending transaction message is forbidden",
            )


def parse_header(request: RemotingCommand) -> SendMessageHeader:
    """The header of a send or a reply; only codes 10 and 324 use the long names. Raises HeaderError."""
    if request.code in LONG_NAMED:
        return SendMessageHeader.from_ext(request.ext_fields)
    return SendMessageHeader.from_ext_v2(request.ext_fields)


def waits_for_store(properties: dict[str, str]) -> bool:
    """Whether the answer waits for flush and replication (RocketMQ, Message.isWaitStoreMsgOK)."""
    wait = properties.get(WAIT_PROPERTY)
    return wait is None or wait.lower() == "true"


def _unawaited(_code: int) -> None:
    """Ignores the answer: the sender waits for the last part of its batch."""
