"""Splits a batch into parts that one turn of the loop can store (RocketMQ, MessageExtEncoder.encode)."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.system_under_test.broker.refusal import SendRefused
from staticfire.system_under_test.protocol.batch import BatchEntry, decode_batch
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.message import (
    PROPERTIES_SIZE_MAX,
    PROPERTY_END,
    Message,
    RecordError,
    encode_properties,
)
from staticfire.system_under_test.store.index_keys import USER_KEYS

# Cost of a message, of each of its properties and of each further key, in units of about 1.5 us.
MESSAGE_WEIGHT, PROPERTY_WEIGHT, KEY_WEIGHT = 8, 1, 2
PART_WEIGHT = 4_000  # 500 messages without properties: about 6 ms
# Characters of the batch's own properties, times its messages, because each message gets a copy.
SHARED_PROPERTIES_SIZE_MAX = 4 << 20
CHARACTER_SIZE_MAX = 4  # bytes


def parts_of(batch: Message) -> Iterator[list[Message]]:
    """The messages of a batch, each with the batch's properties appended to its own; WAIT stays (RocketMQ).

    Raises SendRefused: the batch is malformed, empty or too large. Parts yielded before that are sound.
    """
    part: list[Message] = []
    weight = count = 0
    try:
        batch_text = encode_properties(batch.properties).decode()
        for entry in decode_batch(batch.body):
            if weight >= PART_WEIGHT:
                yield part
                part, weight = [], 0
            count += 1
            _check_shared(len(batch_text) * count)
            part.append(_message(batch, entry, batch_text))
            weight += MESSAGE_WEIGHT + PROPERTY_WEIGHT * len(entry.properties)
            weight += KEY_WEIGHT * entry.properties.get(USER_KEYS, "").count(" ")
    except RecordError as error:
        raise SendRefused(ResponseCode.MESSAGE_ILLEGAL, str(error)) from error
    if not part:
        raise SendRefused(ResponseCode.MESSAGE_ILLEGAL, "a batch holds no message")
    yield part


def _check_shared(characters: int) -> None:
    if characters > SHARED_PROPERTIES_SIZE_MAX:
        raise SendRefused(
            ResponseCode.MESSAGE_ILLEGAL,
            f"properties of a batch are {characters} characters or more in all its messages;"
            f" allowed: up to {SHARED_PROPERTIES_SIZE_MAX}",
        )


def _message(batch: Message, entry: BatchEntry, batch_text: str) -> Message:
    """Make one message. Raises RecordError: its properties and those of the batch are too long together."""
    text = _joined(entry.property_text, batch_text)
    if len(text) * CHARACTER_SIZE_MAX > PROPERTIES_SIZE_MAX:
        size_bytes = len(text.encode())
        if size_bytes > PROPERTIES_SIZE_MAX:
            raise RecordError(
                f"properties are {size_bytes} bytes; allowed: up to {PROPERTIES_SIZE_MAX}"
            )
    return Message(
        topic=batch.topic,
        body=entry.body,
        properties={**entry.properties, **batch.properties},
        property_text=text,
        flag=entry.flag,
        sys_flag=batch.sys_flag,
        queue_id=batch.queue_id,
        born_timestamp_ms=batch.born_timestamp_ms,
        born_host=batch.born_host,
        store_host=batch.store_host,
        reconsume_times=batch.reconsume_times,
    )


def _joined(own: str, batch: str) -> str:
    """The text of a message's properties and its batch's, joined; it may have WAIT twice (RocketMQ)."""
    if not own or not batch:
        return own or batch
    return own.removesuffix(PROPERTY_END) + PROPERTY_END + batch
