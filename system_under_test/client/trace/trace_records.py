"""Writes the records of message trace as text (RocketMQ: TraceDataEncoder).

Fields are joined by 0x01 and records end with 0x02; an unknown value is the text `null`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import IntEnum

from staticfire.system_under_test.client.message_properties import (
    DELAY_LEVEL,
    KEYS,
    REGION,
    TAGS,
    TRANSACTION,
)
from staticfire.system_under_test.protocol.message import Message

FIELD_END, RECORD_END = "\x01", "\x02"


class MessageType(IntEnum):
    """RocketMQ: MessageType, by its ordinal."""

    NORMAL = 0
    HALF = 1
    COMMITTED = 2
    DELAYED = 3


class ContextCode(IntEnum):
    """The outcome of a listener's call (RocketMQ: ConsumeReturnType)."""

    SUCCESS = 0
    TIME_OUT = 1
    EXCEPTION = 2
    RETURN_NULL = 3
    FAILED = 4


@dataclass(frozen=True, slots=True)
class TraceRecord:
    """One record, and the keys by which it can be found: the message's keys and id."""

    text: str
    keys: tuple[str, ...]


def record(kind: str, fields: Sequence[object], keys: Sequence[str]) -> TraceRecord:
    texts = [kind, *map(field_text, fields)]
    return TraceRecord(FIELD_END.join(texts) + RECORD_END, tuple(key for key in keys if key))


def field_text(value: object) -> str:
    """A value as Java prints it."""
    if value is None:
        return "null"
    return str(value).lower() if isinstance(value, bool) else str(value)


def keys_of(message: Message, message_id: str) -> tuple[str, ...]:
    return (*message.properties.get(KEYS, "").split(" "), message_id)


def message_type(message: Message) -> MessageType:
    if message.properties.get(TRANSACTION) == "true":
        return MessageType.HALF
    return MessageType.DELAYED if DELAY_LEVEL in message.properties else MessageType.NORMAL


def published(
    message: Message,
    *,
    now_ms: int,
    region: str | None,
    group: str,
    message_id: str,
    store_host: str | None,
    cost_ms: int,
    offset_message_id: str | None,
    succeeded: bool,
) -> TraceRecord:
    """The record of a send that has ended."""
    fields = (
        now_ms,
        region,
        group,
        message.topic,
        message_id,
        message.properties.get(TAGS, ""),
        message.properties.get(KEYS, ""),
        store_host,
        len(message.body),
        cost_ms,
        int(message_type(message)),
        offset_message_id,
        succeeded,
    )
    return record("Pub", fields, keys_of(message, message_id))


def consuming(
    message: Message, *, now_ms: int, group: str, request_id: str, message_id: str
) -> TraceRecord:
    """The record of a call of a listener that begins."""
    fields = (
        now_ms,
        message.properties.get(REGION),
        group,
        request_id,
        message_id,
        message.reconsume_times,
        message.properties.get(KEYS, ""),
    )
    return record("SubBefore", fields, keys_of(message, message_id))


def consumed(
    message: Message,
    *,
    now_ms: int,
    group: str,
    request_id: str,
    message_id: str,
    cost_ms: int,
    code: ContextCode,
    succeeded: bool,
) -> TraceRecord:
    """The record of a call of a listener that has ended; one that timed out may have succeeded nevertheless."""
    fields = (
        request_id,
        message_id,
        cost_ms,
        succeeded,
        message.properties.get(KEYS, ""),
        int(code),
        now_ms,
        group,
    )
    return record("SubAfter", fields, keys_of(message, message_id))


def transaction_ended(
    message: Message,
    *,
    now_ms: int,
    region: str | None,
    group: str,
    message_id: str,
    store_host: str | None,
    state: str,
    from_check: bool,
) -> TraceRecord:
    """The record of an outcome sent to a broker; `state` is COMMIT_MESSAGE, ROLLBACK_MESSAGE or UNKNOW."""
    fields = (
        now_ms,
        region,
        group,
        message.topic,
        message_id,
        message.properties.get(TAGS, ""),
        message.properties.get(KEYS, ""),
        store_host,
        int(MessageType.COMMITTED),
        message_id,
        state,
        from_check,
    )
    return record("EndTransaction", fields, keys_of(message, message_id))
