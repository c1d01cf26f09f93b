"""Reports the contents of a delivered message, as the message itself states them.

`checkers/model/message_contents.py` has their order.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from staticfire.checkers.model.message_contents import (
    VALUE_MAX,
    digest_of_properties,
    digest_of_text,
)
from staticfire.harness.clients.payload import key_of
from staticfire.system_under_test.client.message_properties import (
    DEAD_LETTER_PREFIX,
    KEYS,
    ORIGIN_ID,
    RETRY_PREFIX,
    RETRY_TOPIC,
    SHARDING_KEY,
    TAGS,
    UNIQUE_KEY,
)
from staticfire.system_under_test.protocol.message import parse_offset_message_id

if TYPE_CHECKING:
    from staticfire.system_under_test.protocol.message import Message

ANSWERS: Final = "ANSWERS"  # property of a half message: the answers to checks, in order
# Reported as a property of a message whose born host is its broker.
BORN_AT_BROKER: Final = "BORN_AT_BROKER"
NO_HOST: Final = "0.0.0.0", 0  # of a message that does not come from a broker
SHARDED_BY: Final = "SHARDED_BY"  # property of a message sent in order: a copy of its sharding key
ANSWERS_TO: Final = "ANSWERS_TO"  # property of a reply: the key of the request
REPLY_TAG: Final = "reply"
# Properties that brokers and clients set (RocketMQ: MessageConst), and ours. All others are users' properties.
RESERVED: Final = frozenset(
    {
        TAGS,
        UNIQUE_KEY,
        ORIGIN_ID,
        ANSWERS,
        SHARDED_BY,
        SHARDING_KEY,
        "WAIT",
        "DELAY",
        RETRY_TOPIC,
        "REAL_TOPIC",
        "REAL_QID",
        "TRAN_MSG",
        "PGROUP",
        "MIN_OFFSET",
        "MAX_OFFSET",
        "BUYER_ID",
        "TRANSFER_FLAG",
        "CORRECTION_FLAG",
        "MQ2_FLAG",
        "RECONSUME_TIME",
        "MSG_REGION",
        "TRACE_ON",
        "EXTEND_UNIQ_INFO",
        "MAX_RECONSUME_TIMES",
        "CONSUME_START_TIME",
        "TRAN_PREPARED_QUEUE_OFFSET",
        "TRANSACTION_CHECK_TIMES",
        "CHECK_IMMUNITY_TIME_IN_SECONDS",
        "INSTANCE_ID",
        "CORRELATION_ID",
        "REPLY_TO_CLIENT",
        "TTL",
        "ARRIVE_TIME",
        "PUSH_REPLY_TIME",
        "CLUSTER",
        "MSG_TYPE",
        "POP_CK",
        "POP_CK_OFFSET",
        "1ST_POP_TIME",
        "INNER_NUM",
        "INNER_BASE",
        "DUP_INFO",
        "INNER_MULTI_DISPATCH",
        "INNER_MULTI_QUEUE_OFFSET",
        "TRACE_CONTEXT",
    }
)
# Instead of a physical offset, if ORIGIN_MESSAGE_ID holds no message id or RETRY_TOPIC not its topic.
NO_MESSAGE_ID: Final = VALUE_MAX


def contents_of(message: Message) -> list[object]:
    """Return message id, tag, properties, born and store time in ms, size of the body in bytes, origin."""
    properties = message.properties
    unique_id = properties.get(UNIQUE_KEY)
    users = users_properties(properties, key_of(message.body))
    if is_born_at_broker(message):
        users[BORN_AT_BROKER] = ""
    return [
        None if unique_id is None else digest_of_text(unique_id),
        properties.get(TAGS, ""),
        digest_of_properties(users),
        message.born_timestamp_ms,
        message.store_timestamp_ms,
        len(message.body),
        origin_of(properties.get(ORIGIN_ID), unique_id)
        if names_topic(properties)
        else NO_MESSAGE_ID,
    ]


def properties_of_reply(key: str) -> dict[str, str]:
    """Return the properties that listeners set in their reply to the request with this key."""
    return {KEYS: key, TAGS: REPLY_TAG, ANSWERS_TO: key}


def digest_of_reply(properties: dict[str, str]) -> int:
    """Return a digest of the properties that the listener set in a reply, including KEYS and TAGS."""
    return digest_of_properties(
        {name: value for name, value in properties.items() if name == TAGS or name not in RESERVED}
    )


def is_born_at_broker(message: Message) -> bool:
    """Whether the message's born host is the broker that stored it; no client has that address."""
    return message.born_host == message.store_host != NO_HOST


def names_topic(properties: dict[str, str]) -> bool:
    """Whether a copy names its original's topic, which the client passes to the listener.

    True for a message that is no copy.
    """
    if ORIGIN_ID not in properties:
        return True
    topic = properties.get(RETRY_TOPIC, "")
    return bool(topic) and not topic.startswith((RETRY_PREFIX, DEAD_LETTER_PREFIX))


def users_properties(properties: dict[str, str], key: str) -> dict[str, str]:
    """Return the properties that the sender set. KEYS is among them only if it differs from `key`.

    The sharding key is among them only if it differs from SHARDED_BY, where our producer also noted it.
    """
    users = {name: value for name, value in properties.items() if name not in RESERVED}
    sharding_key = properties.get(SHARDING_KEY, "")
    if properties.get(SHARDED_BY, sharding_key) != sharding_key:
        users[SHARDING_KEY] = sharding_key
    if users.get(KEYS) == key:
        del users[KEYS]
    else:
        users.setdefault(KEYS, "")
    return users


def origin_of(origin_id: str | None, unique_id: str | None) -> int | None:
    """Return the original of a copy: its physical offset, or the digest of its unique id; None for no copy."""
    if origin_id is None:
        return None
    if origin_id == unique_id:
        return digest_of_text(origin_id)
    try:
        offset = parse_offset_message_id(origin_id)[2]
    except ValueError:
        return NO_MESSAGE_ID
    return offset if offset >= 0 else NO_MESSAGE_ID
