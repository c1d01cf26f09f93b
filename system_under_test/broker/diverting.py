"""Messages that are not stored where they were sent: delayed ones, and the first half of a transaction.

Pure functions from a message to the one that is stored (RocketMQ, CommitLog.asyncPutMessage and
TransactionalMessageBridge.parseHalfMessageInner). Nearly every message is an ordinary one: ask `needs_diverting` first.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from system_under_test.broker.topics import HALF_TOPIC
from system_under_test.protocol.message import Message
from system_under_test.store.delay_levels import SCHEDULE_TOPIC

# RocketMQ, MessageSysFlag
TRANSACTION_MASK = 0xC
TRANSACTION_PREPARED = 0x4
TRANSACTION_COMMIT = 0x8
TRANSACTION_ROLLBACK = 0xC

DELAY_PROPERTY = "DELAY"
TRANSACTION_PROPERTY = "TRAN_MSG"
REAL_TOPIC_PROPERTY = "REAL_TOPIC"
REAL_QUEUE_PROPERTY = "REAL_QID"


def needs_diverting(sys_flag: int, properties: Mapping[str, str]) -> bool:
    """Whether the message may have to be rewritten: a cheap test for every send."""
    return (
        DELAY_PROPERTY in properties
        or TRANSACTION_PROPERTY in properties
        or sys_flag & TRANSACTION_MASK != 0
    )


def delay_level(properties: Mapping[str, str]) -> int:
    """The DELAY property; 0 without one. Raises ValueError if it is no number."""
    text = properties.get(DELAY_PROPERTY)
    if text is None:
        return 0
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"property DELAY is {text[:80]!r}; a number is needed") from None


def is_transactional(message: Message) -> bool:
    """Whether this is the first half of a transaction.

    A transactional message that was consumed and is sent back for a retry still says so, and is none any more
    (RocketMQ issue 1649).
    """
    if message.properties.get(TRANSACTION_PROPERTY, "").lower() != "true":
        return False
    return not (message.reconsume_times > 0 and delay_level(message.properties) > 0)


def divert(message: Message, level_max: int) -> Message:
    """The message as it is to be stored. Raises ValueError if its delay level is no number."""
    if is_transactional(message):
        return make_half(message)
    level = delay_level(message.properties)
    if level > 0 and message.sys_flag & TRANSACTION_MASK in (0, TRANSACTION_COMMIT):
        return make_delayed(message, min(level, level_max))
    return message


def make_delayed(message: Message, level: int) -> Message:
    """The message in the queue of its delay level, 1 being the first."""
    properties = message.properties | {
        DELAY_PROPERTY: str(level),
        REAL_TOPIC_PROPERTY: message.topic,
        REAL_QUEUE_PROPERTY: str(message.queue_id),
    }
    return replace(message, topic=SCHEDULE_TOPIC, queue_id=level - 1, properties=properties)


def make_half(message: Message) -> Message:
    """The message where no consumer sees it. Its type is cleared, so that it gets a queue entry there."""
    properties = message.properties | {
        REAL_TOPIC_PROPERTY: message.topic,
        REAL_QUEUE_PROPERTY: str(message.queue_id),
    }
    return replace(
        message,
        topic=HALF_TOPIC,
        queue_id=0,
        properties=properties,
        sys_flag=message.sys_flag & ~TRANSACTION_MASK,
    )


def real_destination(message: Message) -> tuple[str, int] | None:
    """Topic and queue id that a diverted message was sent to; None if it does not say."""
    topic = message.properties.get(REAL_TOPIC_PROPERTY, "")
    queue_id = message.properties.get(REAL_QUEUE_PROPERTY, "")
    if not topic or not (queue_id.isascii() and queue_id.isdigit()):
        return None
    return topic, int(queue_id)
