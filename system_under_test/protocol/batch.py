"""The body of a batch send: several messages of one topic and queue (RocketMQ, MessageDecoder.encodeMessages).

Each is: total size (4), magic 0 (4), checksum 0 (4), flag (4), body length (4), body, properties length (2),
properties. The broker stores one record for each; the records do not show that they came in one batch.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator
from typing import NamedTuple

from staticfire.system_under_test.protocol.message import (
    PROPERTIES_SIZE_MAX,
    RecordError,
    decode_properties,
    encode_properties,
)

_HEAD = struct.Struct(">iiiii")
_SHORT = struct.Struct(">h")
_OVERHEAD = _HEAD.size + _SHORT.size


class BatchEntry(NamedTuple):
    """One message of a batch."""

    body: bytes
    properties: dict[str, str]
    flag: int = 0
    property_text: str = ""  # `properties` as received


def encode_batch(entries: Iterable[BatchEntry]) -> bytes:
    """The body of request 320. Raises RecordError if the properties of an entry are too long."""
    return b"".join(_encode(entry) for entry in entries)


def _encode(entry: BatchEntry) -> bytes:
    properties = encode_properties(entry.properties)
    if len(properties) > PROPERTIES_SIZE_MAX:
        raise RecordError(
            f"properties are {len(properties)} bytes; allowed: up to {PROPERTIES_SIZE_MAX}"
        )
    size = _OVERHEAD + len(entry.body) + len(properties)
    head = _HEAD.pack(size, 0, 0, entry.flag, len(entry.body))
    return b"".join((head, entry.body, _SHORT.pack(len(properties)), properties))


def decode_batch(data: bytes) -> Iterator[BatchEntry]:
    """The messages of a batch, in order. Raises RecordError: the lengths do not agree, or properties are not text."""
    position = 0
    while position < len(data):
        entry, position = _decode(data, position)
        yield entry


def _decode(data: bytes, position: int) -> tuple[BatchEntry, int]:
    left = len(data) - position
    if left < _OVERHEAD:
        raise RecordError(f"a batch ends with {left} bytes; a message has at least {_OVERHEAD}")
    size, _, _, flag, body_size = _HEAD.unpack_from(data, position)
    if not _OVERHEAD <= size <= left or not 0 <= body_size <= size - _OVERHEAD:
        raise RecordError(
            f"message at {position} of a batch says {size} bytes with a body of {body_size}; {left} are there"
        )
    body_at = position + _HEAD.size
    properties_at = body_at + body_size + _SHORT.size
    (properties_size,) = _SHORT.unpack_from(data, properties_at - _SHORT.size)
    end = position + size
    if properties_at + properties_size != end:
        raise RecordError(
            f"message at {position} of a batch ends at {properties_at + properties_size}, not {end}"
        )
    try:
        text = data[properties_at:end].decode()
    except UnicodeDecodeError as error:
        raise RecordError(f"properties are not UTF-8: {error}") from error
    body = data[body_at : body_at + body_size]
    return BatchEntry(body, decode_properties(text), flag, text), end
