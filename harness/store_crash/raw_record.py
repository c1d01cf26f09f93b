"""Derives the queue entry and the index keys from the bytes of a record.

It uses the layout of RocketMQ's files and no code of the system, so it cannot share the system's mistakes.
"""

from __future__ import annotations

import struct
from functools import lru_cache
from ipaddress import ip_address
from typing import NamedTuple

_MAGIC = 0xDAA320A7
_HEAD = struct.Struct(">IIIiiqqiq")  # up to the born time
_BORN_V6, _STORE_V6 = 0x10, 0x20
_TRANSACTION, _PREPARED, _ROLLED_BACK = 0x0C, 0x04, 0x0C
_QUEUE_ENTRY = struct.Struct(">qiq")


class RecordWrong(Exception):
    """The bytes are not a record at this position."""


Host = tuple[str, int]  # address and port


class IndexKey(NamedTuple):
    """A key of a message: its hash, the message's physical offset and store time."""

    key_hash: int
    physical_offset: int
    stored_ms: int


class RawRecord(NamedTuple):
    """The fields of a record that decide how it is found, and its hosts."""

    physical_offset: int
    size: int
    queue: tuple[str, int]
    queue_offset: int
    stored_ms: int
    sys_flag: int
    hosts: tuple[Host, Host]  # born, store
    body: range  # positions of its bytes in the record
    properties: dict[str, str]

    @property
    def has_queue_entry(self) -> bool:
        return self.sys_flag & _TRANSACTION not in (_PREPARED, _ROLLED_BACK)

    @property
    def queue_entry(self) -> bytes:
        tags = self.properties.get("TAGS", "")
        return _QUEUE_ENTRY.pack(self.physical_offset, self.size, _java_hash(tags) if tags else 0)

    @property
    def index_keys(self) -> list[IndexKey]:
        """The record's keys in the order of the index: the unique key, then the words."""
        if self.sys_flag & _TRANSACTION == _ROLLED_BACK:
            return []
        words = [self.properties.get("UNIQ_KEY", ""), *self.properties.get("KEYS", "").split(" ")]
        topic, offset, stored_ms = self.queue[0], self.physical_offset, self.stored_ms
        return [IndexKey(key_hash(topic, word), offset, stored_ms) for word in words if word]


def parse_record(raw: bytes, position: int) -> RawRecord:
    """Parse the record that begins at `position` of the log. Raises RecordWrong."""
    size, magic, _, queue_id, _, queue_offset, own_offset, sys_flag, _ = _HEAD.unpack_from(raw)
    born_host, at = _host(raw, _HEAD.size, is_v6=bool(sys_flag & _BORN_V6))
    (stored_ms,) = struct.unpack_from(">q", raw, at)
    store_host, at = _host(raw, at + 8, is_v6=bool(sys_flag & _STORE_V6))
    at += 4 + 8
    (body_size,) = struct.unpack_from(">i", raw, at)
    body = range(at + 4, at + 4 + body_size)
    at += 4 + body_size
    topic = raw[at + 1 : at + 1 + raw[at]].decode()
    at += 1 + raw[at]
    (properties_size,) = struct.unpack_from(">h", raw, at)
    at += 2
    parts = (magic, size, own_offset, at + properties_size)
    if parts != (_MAGIC, len(raw), position, len(raw)):
        raise RecordWrong(f"the record at {position} does not add up")
    pairs = [text.split("\x01") for text in raw[at:].decode().split("\x02") if text]
    properties = dict(pairs)
    return RawRecord(
        position,
        len(raw),
        (topic, queue_id),
        queue_offset,
        stored_ms,
        sys_flag,
        (born_host, store_host),
        body,
        properties,
    )


def _host(raw: bytes, at: int, *, is_v6: bool) -> tuple[Host, int]:
    """Return the address and port at this position, and the position behind them."""
    size = 16 if is_v6 else 4
    (port,) = struct.unpack_from(">i", raw, at + size)
    return (str(ip_address(raw[at : at + size])), port), at + size + 4


@lru_cache(maxsize=1 << 14)
def key_hash(topic: str, key: str) -> int:
    """Return the hash of a key in the index: Java's absolute value, with 0 for the smallest number, which has none."""
    value = _java_hash(f"{topic}#{key}")
    return 0 if value == -(1 << 31) else abs(value)


@lru_cache(maxsize=1 << 10)
def _java_hash(text: str) -> int:
    value = 0
    for (unit,) in struct.iter_unpack(">H", text.encode("utf-16-be")):
        value = (31 * value + unit) & 0xFFFF_FFFF
    return value - (1 << 32) if value >= 1 << 31 else value
