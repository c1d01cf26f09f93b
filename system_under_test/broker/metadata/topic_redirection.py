"""Redirects messages to other topics than their own (RocketMQ, CommitLog.asyncPutMessage,
TransactionalMessageBridge.parseHalfMessageInner and SendMessageProcessor.handleRetryAndDLQ): delayed messages, half
messages of transactions, and messages that have used up their retries. The send path calls this only for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from staticfire.system_under_test.broker.metadata.topics import HALF_TOPIC, Topics, make_topic
from staticfire.system_under_test.broker.refusal import SendRefused, refusing_without_topic
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC

# RocketMQ, MessageSysFlag
TRANSACTION_TYPE_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC

DELAY_PROPERTY = "DELAY"
TRANSACTION_PROPERTY = "TRAN_MSG"
REAL_TOPIC_PROPERTY = "REAL_TOPIC"
REAL_QUEUE_PROPERTY = "REAL_QID"

DEAD_LETTER_PREFIX = "%DLQ%"
RETRY_LIMIT_VERSION_MIN = 121  # MQVersion.V3_4_9: since then a consumer may set its own limit


class TopicRedirection:
    """Rewrites topic, queue and properties of a message before it is stored.

    Args:
        level_max: number of delay levels; a larger DELAY means the last one.
        expect_delayed: called before a delayed message is put.
    """

    def __init__(
        self, topics: Topics, *, level_max: int, expect_delayed: Callable[[], None]
    ) -> None:
        self._topics = topics
        self._level_max = level_max
        self._expect_delayed = expect_delayed

    def divert(self, message: Message) -> None:
        """Redirect a message with a DELAY or TRAN_MSG property or transaction bits, before WAIT is removed from it.

        Raises SendRefused if the message cannot be stored.
        """
        try:
            level = delay_level(message.properties)
        except ValueError as error:
            raise SendRefused(ResponseCode.SYSTEM_ERROR, str(error)) from error
        if is_transactional(message):
            move_to(message, HALF_TOPIC, 0)
            message.sys_flag &= ~TRANSACTION_TYPE_MASK  # so that it gets a queue entry there
        elif message.sys_flag & TRANSACTION_PREPARED:  # 4 or 12: acknowledged, but never visible
            raise SendRefused(
                ResponseCode.MESSAGE_ILLEGAL,
                f"sysFlag is {message.sys_flag}, but property TRAN_MSG is not true",
            )
        elif level > 0:
            self.delay(message, level)

    def delay_committed(self, message: Message) -> None:
        """Redirect a committed transactional message with a DELAY property: its delay begins now."""
        try:
            level = delay_level(message.properties)
        except ValueError:
            return  # an invalid DELAY was refused when the message was sent
        if level > 0:
            self.delay(message, level)

    def delay(self, message: Message, level: int) -> None:
        """Redirect the message to the queue of its delay level, 1 being the first."""
        level = min(level, self._level_max)
        message.properties[DELAY_PROPERTY] = str(level)
        move_to(message, SCHEDULE_TOPIC, level - 1)
        self._expect_delayed()

    def dead_letter(self, message: Message, group: str) -> None:
        """Redirect a message to the dead-letter topic of a group, without its delay.

        Raises SendRefused if the topic cannot be made durable.
        """
        topic = DEAD_LETTER_PREFIX + group
        if self._topics.get(topic) is None:
            with refusing_without_topic(topic):
                self._topics.put(make_topic(topic, 1))
        message.topic = topic
        message.queue_id = 0
        message.properties[DELAY_PROPERTY] = "0"  # RocketMQ c09be5eea3


def move_to(message: Message, topic: str, queue_id: int) -> None:
    """Move the message to a system topic; two properties keep its real topic and queue id."""
    message.properties[REAL_TOPIC_PROPERTY] = message.topic
    message.properties[REAL_QUEUE_PROPERTY] = str(message.queue_id)
    message.topic = topic
    message.queue_id = queue_id


def real_destination(message: Message) -> tuple[str, int] | None:
    """The real topic and queue id of a redirected message; None if its properties lack them."""
    topic = message.properties.get(REAL_TOPIC_PROPERTY, "")
    queue_id = message.properties.get(REAL_QUEUE_PROPERTY, "")
    if not topic or not (queue_id.isascii() and queue_id.isdigit()):
        return None
    return topic, int(queue_id)


def delay_level(properties: Mapping[str, str]) -> int:
    """The DELAY property; 0 without one. Raises ValueError if it is not a number."""
    text = properties.get(DELAY_PROPERTY)
    if text is None:
        return 0
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"property DELAY is {text[:80]!r}; a number is needed") from None


def is_transactional(message: Message) -> bool:
    """Whether this is the first half of a transaction.

    A consumed transactional message that is sent again for a retry still has the property, but is not a half message
    (RocketMQ issue 1649).
    """
    says_so = message.properties.get(TRANSACTION_PROPERTY, "").lower() == "true"
    return says_so and message.reconsume_times <= 0


def retry_limit(group: SubscriptionGroupConfig, asked: int | None, client_version: int) -> int:
    """How often a message of this group is retried before it becomes a dead letter."""
    if asked is not None and client_version >= RETRY_LIMIT_VERSION_MIN:
        return asked
    return group.retry_max_times
