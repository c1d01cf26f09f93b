"""Fields that several kinds of op share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from staticfire.checkers.op_kinds.fields import (
    FLAG,
    OBJECT,
    TEXT,
    TEXT_OR_NULL,
    WHOLE,
    WHOLE_OR_NULL,
    Field,
    Fields,
)

SIZE_MAX: Final = 64 << 20  # bytes of a body; brokers accept 4 MiB
PADDING_MAX: Final = 1 << 20
DELAY_LEVELS: Final = range(1, 19)
OFFSET_MAX: Final = 1 << 62
MANY_MAX: Final = 1 << 20  # messages of one op; a history with more in an op is refused
TRANSACTION_STATES: Final = ("commit", "rollback", "unknown")

TOPIC = Field(TEXT, "the topic")
GROUP = Field(TEXT, "the consumer group")
KEY = Field(TEXT, "the message's key, unique in a history")
BROKER = Field(TEXT, "the name of the broker")
QUEUE = Field(WHOLE, "the number of the queue at that broker", least=0)
SCOPE: Fields = {"group": GROUP, "topic": TOPIC}
PLACE: Fields = {"broker": BROKER, "queue": QUEUE}

SIZE = Field(WHOLE, "size of the body in bytes", least=0, most=SIZE_MAX)
DELAY_LEVEL = Field(WHOLE, "the message's delay level", True, DELAY_LEVELS[0], DELAY_LEVELS[-1])
MESSAGE: Fields = {"key": KEY, "size": SIZE}
MESSAGE_OPTIONAL: Fields = {
    "tag": Field(TEXT, "the message's one tag", True),
    "delay_level": DELAY_LEVEL,
    "properties": Field(
        OBJECT, "user properties by name", True, item=Field(TEXT, "a property's value")
    ),
}

QUEUE_OFFSET = Field(
    WHOLE, "the message's offset in the queue; -1 if it is stored elsewhere at first", least=-1
)
PHYSICAL_OFFSET = Field(
    WHOLE, "the record's offset in the commit log; -1 if the library does not report it", least=-1
)
STORED: Fields = {
    "physical_offset": replace(PHYSICAL_OFFSET, is_optional=True),
    "status": Field(TEXT, "the broker's status, such as SEND_OK", True),
    "attempts": Field(WHOLE, "number of sends that went out", True, least=0),
    "id": Field(WHOLE, "the digest of the unique message id (docs/history.md)", True, least=0),
}
SENT: Fields = {**PLACE, "queue_offset": QUEUE_OFFSET, **STORED}

REPLY_PROPERTIES = Field(
    WHOLE,
    "the digest of the properties that the listener set in its reply, TAGS and KEYS included. All replies to a request "
    "have the same",
    True,
    least=0,
)

_DIGEST_OR_NULL = Field(WHOLE_OR_NULL, "a digest", least=0)
CONTENTS: Mapping[str, Field] = {
    "message_id": replace(_DIGEST_OR_NULL, about="the digest of the unique message id"),
    "tag": Field(TEXT_OR_NULL, "the tag; empty for a message without a tag"),
    "properties": replace(_DIGEST_OR_NULL, about="the digest of the user's properties; 0: none"),
    "born_ms": replace(_DIGEST_OR_NULL, about="the born timestamp, ms since 1970"),
    "stored_ms": replace(_DIGEST_OR_NULL, about="the store timestamp, ms since 1970"),
    "size": replace(_DIGEST_OR_NULL, about="size of the body in bytes"),
    "origin": replace(_DIGEST_OR_NULL, about="the physical offset in ORIGIN_MESSAGE_ID"),
}
INTACT = Field(FLAG, "whether the body is intact")
TRIED = Field(WHOLE, "number of earlier attempts", least=0)
DELIVERED: Mapping[str, Field] = {
    "key": KEY,
    "queue_offset": QUEUE_OFFSET,
    "physical_offset": PHYSICAL_OFFSET,
    "intact": INTACT,
    "tried": TRIED,
}
RANGE_START: Mapping[str, Field] = {
    "key": Field(TEXT, "the first key"),
    "queue_offset": Field(WHOLE, "the first queue offset", least=0, most=OFFSET_MAX - 1),
    "physical_offset": Field(WHOLE, "the first physical offset"),
}
RANGE_LENGTH: Mapping[str, Field] = {
    "count": Field(WHOLE, "number of messages", least=1, most=MANY_MAX),
    "stride": Field(WHOLE, "bytes from one record to the next"),
}
