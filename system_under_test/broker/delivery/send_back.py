"""Stores messages that consumers send back because they could not consume them: code 36 (consumerSendMsgBack)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from random import Random

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.subscription_groups import SubscriptionGroups
from staticfire.system_under_test.broker.metadata.topic_redirection import (
    DEAD_LETTER_PREFIX,
    TopicRedirection,
    retry_limit,
)
from staticfire.system_under_test.broker.metadata.topics import PERM_WRITE, Topics, retry_topic
from staticfire.system_under_test.broker.refusal import SendRefused, refusing_without_topic
from staticfire.system_under_test.broker.sending.internal_copies import InternalCopies
from staticfire.system_under_test.broker.statistics.statistics import BrokerStatistics
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from staticfire.system_under_test.protocol.codes import FAQ, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import ConsumerSendMsgBackHeader
from staticfire.system_under_test.protocol.message import (
    Message,
    RecordError,
    decode_record,
    offset_message_id,
)
from staticfire.system_under_test.remoting import Connection
from staticfire.system_under_test.store.assembly.message_store import MessageStore
from staticfire.system_under_test.store.results import PutStatus

RETRY_TOPIC_PROPERTY = "RETRY_TOPIC"
ORIGIN_ID_PROPERTY = "ORIGIN_MESSAGE_ID"
WAIT_PROPERTY = "WAIT"
FIRST_RETRY_LEVEL = 3  # 10 s

# With these codes the copy is durable on this broker. A refused consumer sends the message itself once more, so while a
# replica is away each retry would double. The promise is the weaker one that code 11 means for sends.
GOOD_ENOUGH = (ResponseCode.SUCCESS, ResponseCode.SLAVE_NOT_AVAILABLE)


# An ext field in the answer to a copy that is less safe than it could be. Java's clients ignore it.
STATUS_FIELD = "sendStatus"

# (retry topic, settings of the group) -> number of queues of which one is drawn for a retry.
RetryQueues = Callable[[TopicConfig, SubscriptionGroupConfig], int]


def queues_of_topic(topic: TopicConfig, _group: SubscriptionGroupConfig) -> int:
    """All queues of the retry topic."""
    return topic.write_queue_nums


def queues_of_group(_topic: TopicConfig, group: SubscriptionGroupConfig) -> int:
    """As in RocketMQ: the topic may have fewer, and no consumer reads the others (issue 3953, bug R48)."""
    return group.retry_queue_nums


class SendBackProcessor:
    """Stores a copy of a message for its group: as a delayed retry, or as a dead letter.

    Args:
        is_ready: whether messages may be stored now.
    """

    def __init__(
        self,
        config: BrokerConfig,
        store: MessageStore,
        topics: Topics,
        groups: SubscriptionGroups,
        copies: InternalCopies,
        redirection: TopicRedirection,
        random: Random,
        statistics: BrokerStatistics,
        *,
        is_ready: Callable[[], bool],
        retry_queues: RetryQueues,
    ) -> None:
        self._retry_queues = retry_queues
        self._config = config
        self._store = store
        self._topics = topics
        self._groups = groups
        self._copies = copies
        self._redirection = redirection
        self._random = random
        self._statistics = statistics
        self._is_ready = is_ready

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Store the copy and answer when it is safe, or refuse at once.

        Raises HeaderError: a header field is missing or malformed.
        """
        header = ConsumerSendMsgBackHeader.from_ext(request.ext_fields)
        try:
            copy = self._make_copy(header, request.version)
        except SendRefused as refusal:
            return refusal.answer(request)
        if copy is None:
            return RemotingCommand.response(request, ResponseCode.SUCCESS)
        result = self._copies.put_for(copy, partial(answer_send_back, connection, request))
        if result.status is not PutStatus.PUT_OK:
            return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, result.reason)
        topic = copy.properties[RETRY_TOPIC_PROPERTY]
        self._statistics.send_back(header.group, topic)
        if copy.topic.startswith(DEAD_LETTER_PREFIX):
            self._statistics.dead_letter(header.group, topic)
        return None

    def _make_copy(self, header: ConsumerSendMsgBackHeader, version: int) -> Message | None:
        """The copy to store; None if the group wants no retries. Raises SendRefused."""
        group = self._groups.find(header.group)
        if group is None:
            raise SendRefused(
                ResponseCode.SUBSCRIPTION_GROUP_NOT_EXIST,
                f"subscription group not exist, {header.group} {FAQ}",
            )
        if not self._config.broker_permission & PERM_WRITE:
            raise SendRefused(
                ResponseCode.NO_PERMISSION,
                f"the broker[{self._config.listen_host}] sending message is forbidden",
            )
        if group.retry_queue_nums <= 0:
            return None
        if not self._is_ready():
            raise SendRefused(ResponseCode.SYSTEM_ERROR, "this broker does not accept messages now")
        with refusing_without_topic(retry_topic(header.group)):
            topic = self._topics.create_retry_topic(
                header.group, group.retry_queue_nums, unit_mode=header.unit_mode
            )
        if not topic.perm & PERM_WRITE:
            raise SendRefused(
                ResponseCode.NO_PERMISSION,
                f"the topic[{topic.topic_name}] sending message is forbidden",
            )
        queue_id = int(self._random.random() * max(self._retry_queues(topic, group), 1))
        copy = self._retry_copy(self._find(header.offset), topic.topic_name, queue_id)
        limit = retry_limit(group, header.max_reconsume_times, version)
        if copy.reconsume_times > limit or header.delay_level < 0:
            self._redirection.dead_letter(copy, header.group)
        else:
            level = header.delay_level or FIRST_RETRY_LEVEL + copy.reconsume_times - 1
            self._redirection.delay(copy, level)
        return copy

    def _find(self, offset: int) -> Message:
        record = self._store.look_up(offset)
        try:
            if record is not None:
                return decode_record(record)
        except RecordError:
            pass  # no consumer can have received such a record
        raise SendRefused(ResponseCode.SYSTEM_ERROR, f"look message by offset failed, {offset}")

    def _retry_copy(self, message: Message, topic: str, queue_id: int) -> Message:
        """The copy for a retry; born time and born host stay those of the first sender."""
        properties = dict(message.properties)
        properties.setdefault(RETRY_TOPIC_PROPERTY, message.topic)
        properties.setdefault(
            ORIGIN_ID_PROPERTY, offset_message_id(*message.store_host, message.physical_offset)
        )
        properties[WAIT_PROPERTY] = "false"
        return replace(
            message,
            topic=topic,
            queue_id=queue_id,
            properties=properties,
            store_host=(self._config.listen_host, self._config.listen_port),
            reconsume_times=message.reconsume_times + 1,
            prepared_transaction_offset=0,
        )


def answer_send_back(connection: Connection, request: RemotingCommand, code: ResponseCode) -> None:
    """Answer a stored copy: success for the codes in GOOD_ENOUGH, with STATUS_FIELD if `code` is not SUCCESS."""
    if request.is_oneway:
        return
    if code in GOOD_ENOUGH:
        ext = {} if code == ResponseCode.SUCCESS else {STATUS_FIELD: code.name}
        connection.send(RemotingCommand.response(request, ResponseCode.SUCCESS, None, ext))
    else:
        ext = {STATUS_FIELD: code.name}
        connection.send(
            RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, code.name, ext)
        )
