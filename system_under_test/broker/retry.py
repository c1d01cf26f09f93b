"""Retries and dead letters: rules shared by code 36 and by clients that resend to a retry topic themselves.

RocketMQ, AbstractSendMessageProcessor.consumerSendMsgBack and SendMessageProcessor.handleRetryAndDLQ.
"""

from __future__ import annotations

from dataclasses import replace

from system_under_test.broker.diverting import DELAY_PROPERTY
from system_under_test.broker.topics import RETRY_PREFIX, Topics, make_topic
from system_under_test.protocol.bodies import SubscriptionGroupConfig, TopicConfig
from system_under_test.protocol.message import Message

DEAD_LETTER_PREFIX = "%DLQ%"
LIMIT_VERSION_MIN = 121  # MQVersion.V3_4_9: since then a consumer may name its own limit
FIRST_RETRY_LEVEL = 3  # 10 s


def dead_letter_topic(group: str) -> str:
    return DEAD_LETTER_PREFIX + group


def retry_limit(group: SubscriptionGroupConfig, asked: int | None, client_version: int) -> int:
    """How often a message of this group is redelivered before it is a dead letter."""
    if asked is not None and client_version >= LIMIT_VERSION_MIN:
        return asked
    return group.retry_max_times


def prepare_dead_letter_topic(topics: Topics, group: str) -> TopicConfig:
    """The dead-letter topic of a group, created if it is missing. Raises OSError."""
    name = dead_letter_topic(group)
    return topics.get(name) or topics.put(make_topic(name, 1))


def make_dead_letter(message: Message, group: str) -> Message:
    """The message where it waits for a human; at once, whatever delay it asks for (RocketMQ c09be5eea3)."""
    properties = message.properties | {DELAY_PROPERTY: "0"}
    return replace(message, topic=dead_letter_topic(group), queue_id=0, properties=properties)


def group_of_retry_topic(topic: str) -> str | None:
    """The consumer group whose retry topic this is; None for any other topic."""
    return topic.removeprefix(RETRY_PREFIX) if topic.startswith(RETRY_PREFIX) else None
