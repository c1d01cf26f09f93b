"""Walks raw commit-log bytes record by record, and validates each of them.

The body has a checksum; topic and properties have none. A sector lost in a power cut reads as zeros, so a record is
valid only if its lengths agree, its physical offset is its position, and neither topic nor properties hold a zero.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from enum import Enum, auto
from typing import NamedTuple
from zlib import crc32

from staticfire.system_under_test.protocol.message import MAGIC_BLANK, MAGIC_MESSAGE, tags_code
from staticfire.system_under_test.store.delay_levels import (
    DELAY_LEVELS_MS,
    SCHEDULE_TOPIC,
    due_time_ms,
)

BLANK_HEADER = struct.Struct(">Ii")  # remaining size, magic
BLANK_HEADER_SIZE = 8  # RocketMQ, CommitLog.END_FILE_MIN_BLANK_LENGTH

RECORD_HEADER_SIZE = 88  # up to the body, with IPv4 hosts
# sizes, checksum, queue offset, physical offset: two copies of a record must agree in them
KEPT_SIZE = 40
RECORD_SIZE_MIN = 91  # header and length fields, with empty body, topic and properties
# TOTALSIZE MAGICCODE BODYCRC QUEUEID FLAG QUEUEOFFSET PHYSICALOFFSET SYSFLAG BORNTIMESTAMP
_FIXED = struct.Struct(">IiIiiqqiq")
# what `is_sound` looks at, at once: TOTALSIZE MAGICCODE BODYCRC, PHYSICALOFFSET SYSFLAG, BODYLENGTH with IPv4 hosts
_unpack_checked = struct.Struct(">IiI16xqi44xi").unpack_from
_TIMESTAMP = struct.Struct(">q")
_LENGTH = struct.Struct(">i")
_IPV6_BORN = 0x10
_IPV6_STORE = 0x20
_IPV6 = _IPV6_BORN | _IPV6_STORE
_SYS_FLAG_AT = 36
_LENGTH_AT = 84  # of the body's length, with IPv4 hosts
_BODY_AT = _LENGTH_AT + _LENGTH.size
_TRANSACTION_MASK = 0x0C
_HAS_ENTRY = (0x00, 0x08)  # no transaction, or a committed one; not prepared, not rolled back
_TAGS = b"\x02TAGS\x01"

_SCHEDULE_TOPIC = SCHEDULE_TOPIC.encode()
_DELAY = b"\x02DELAY\x01"


class ScannedRecord(NamedTuple):
    """The fields of a record that dispatch needs."""

    topic: bytes
    queue_id: int
    queue_offset: int
    physical_offset: int
    size: int
    tags_code: int
    store_timestamp_ms: int
    has_entry: bool
    indexed: bytes  # 0x02 and the properties; b"" if the index gets no key of the record


class ScanEnd(Enum):
    """Why a scan stopped."""

    MORE = auto()  # the next record, or its first 8 bytes, are not complete
    BAD = auto()  # what follows is not a record


class RecordScanner:
    """Scans commit-log bytes; caches tags codes, since tags repeat and Java's hash is slow."""

    __slots__ = ("_delay_levels_ms", "_file_size", "_tags_codes")

    def __init__(self, file_size: int, delay_levels_ms: tuple[int, ...] = DELAY_LEVELS_MS) -> None:
        self._file_size = file_size
        self._delay_levels_ms = delay_levels_ms
        self._tags_codes: dict[bytes, int] = {}

    def scan(
        self,
        buffer: bytes | bytearray,
        physical_offset: int,
        found: Callable[[ScannedRecord], None],
    ) -> tuple[int, ScanEnd]:
        """Call `found` for each whole record of `buffer`, whose first byte lies at `physical_offset`.

        Returns:
            The size of the whole records and blanks in bytes, and why the scan stopped there.
        """
        position = 0
        available = len(buffer)
        file_size = self._file_size
        while position + BLANK_HEADER_SIZE <= available:
            size, magic = BLANK_HEADER.unpack_from(buffer, position)
            room = file_size - (physical_offset + position) % file_size
            if magic == MAGIC_MESSAGE:
                # The writer leaves room for the blank header behind every record.
                if not RECORD_SIZE_MIN <= size <= room - BLANK_HEADER_SIZE:
                    return position, ScanEnd.BAD
                if position + size > available:
                    break
                record = self._record(buffer, position, size, physical_offset + position)
                if record is None:
                    return position, ScanEnd.BAD
                found(record)
            elif magic != MAGIC_BLANK or size != room:
                return position, ScanEnd.BAD
            elif position + size > available:
                break
            position += size
        return position, ScanEnd.MORE

    def _record(
        self,
        buffer: bytes | bytearray,
        position: int,
        size: int,
        physical_offset: int,
        *,
        has_sound_body: bool = True,
    ) -> ScannedRecord | None:
        (_, _, body_crc, queue_id, _, queue_offset, own_offset, sys_flag, _) = _FIXED.unpack_from(
            buffer, position
        )
        if own_offset != physical_offset or queue_offset < 0 or queue_id < 0:
            return None
        end = position + size
        at = position + (68 if sys_flag & _IPV6_BORN else 56)
        (store_timestamp_ms,) = _TIMESTAMP.unpack_from(buffer, at)
        at += 40 if sys_flag & _IPV6_STORE else 28
        if at + 7 > end:
            return None
        (body_size,) = _LENGTH.unpack_from(buffer, at)
        body_at = at + 4
        topic_at = body_at + body_size + 1
        if body_size < 0 or topic_at + 2 > end:
            return None
        properties_at = topic_at + buffer[topic_at - 1] + 2
        if properties_at > end:
            return None
        # The length field of the properties must name exactly what is left (RocketMQ: TOTALSIZE against the parts).
        if (buffer[properties_at - 2] << 8) + buffer[properties_at - 1] != end - properties_at:
            return None
        topic = bytes(buffer[topic_at : properties_at - 2])
        properties = b"\x02" + buffer[properties_at:end]
        if not topic or 0 in topic or 0 in properties:
            return None
        checksum = crc32(memoryview(buffer)[body_at : topic_at - 1]) & 0x7FFFFFFF
        if (checksum == body_crc) is not has_sound_body:
            return None
        return ScannedRecord(
            topic,
            queue_id,
            queue_offset,
            physical_offset,
            size,
            self._entry_code(topic, properties, store_timestamp_ms),
            store_timestamp_ms,
            has_queue_entry(sys_flag),
            b"" if is_rolled_back(sys_flag) else properties,
        )

    def with_bad_body(
        self, buffer: bytes | bytearray, physical_offset: int
    ) -> ScannedRecord | None:
        """The record for `physical_offset` at the start of `buffer` if only its body's checksum is wrong, else None."""
        if len(buffer) < RECORD_SIZE_MIN:
            return None
        size, magic = BLANK_HEADER.unpack_from(buffer)
        if magic != MAGIC_MESSAGE or not RECORD_SIZE_MIN <= size <= len(buffer):
            return None
        return self._record(buffer, 0, size, physical_offset, has_sound_body=False)

    def has_bad_body(self, buffer: bytes | bytearray, physical_offset: int) -> bool:
        """Whether `buffer` begins with a record for `physical_offset` whose body does not match its checksum."""
        if len(buffer) < RECORD_SIZE_MIN:
            return False
        size, magic, _, _, _, _, own_offset, _, _ = _FIXED.unpack_from(buffer)
        if magic != MAGIC_MESSAGE or own_offset != physical_offset or size > len(buffer):
            return False
        return not is_sound(buffer[:size], physical_offset)

    def _entry_code(self, topic: bytes, properties: bytes, store_timestamp_ms: int) -> int:
        if topic == _SCHEDULE_TOPIC:
            due_ms = due_time_ms(
                property_value(properties, _DELAY), store_timestamp_ms, self._delay_levels_ms
            )
            if due_ms is not None:
                return due_ms
        tags = property_value(properties, _TAGS)
        code = self._tags_codes.get(tags)
        if code is None:
            code = tags_code(tags.decode("utf-8", "replace") or None)
            if len(self._tags_codes) < 10_000:
                self._tags_codes[tags] = code
        return code


def is_sound(record: bytes | bytearray, physical_offset: int) -> bool:
    """Whether `record`, read at `physical_offset`, is a record for that offset whose body matches its checksum."""
    length = len(record)
    if length < RECORD_SIZE_MIN:
        return False
    fields: tuple[int, ...] = _unpack_checked(record)
    size, magic, crc, own_offset, sys_flag, body_size = fields
    if size != length or magic != MAGIC_MESSAGE or own_offset != physical_offset:
        return False
    if sys_flag & _IPV6:
        body = _body_of(record, sys_flag)
        return body is not None and crc32(record[body.start : body.stop]) & 0x7FFFFFFF == crc
    # `_body_of`, inlined because this runs for every message read.
    if not 0 <= body_size <= size - _BODY_AT:
        return False
    return crc32(record[_BODY_AT : _BODY_AT + body_size]) & 0x7FFFFFFF == crc


def with_body_of(record: bytes, other: bytes) -> bytes:
    """`record` with the body of `other`, which has the same size; `other` itself if the body does not fit."""
    sys_flag: int = _LENGTH.unpack_from(other, _SYS_FLAG_AT)[0]
    body = _body_of(other, sys_flag)
    if body is None or len(record) != len(other):
        return other
    return record[: body.start] + other[body.start : body.stop] + record[body.stop :]


def _body_of(record: bytes | bytearray, sys_flag: int) -> slice | None:
    """The position of a record's body; None if that is beyond the record's end."""
    at = _LENGTH_AT
    if sys_flag & _IPV6:
        at += 12 * bool(sys_flag & _IPV6_BORN) + 12 * bool(sys_flag & _IPV6_STORE)
    if at + _LENGTH.size > len(record):
        return None
    body_size: int = _LENGTH.unpack_from(record, at)[0]
    if not 0 <= body_size <= len(record) - at - 4:
        return None
    return slice(at + 4, at + 4 + body_size)


def has_queue_entry(sys_flag: int) -> bool:
    """Whether a record with this sys flag gets an entry in its consume queue."""
    return sys_flag & _TRANSACTION_MASK in _HAS_ENTRY


def is_rolled_back(sys_flag: int) -> bool:
    """Whether a record is of the rollback type, which is not indexed (RocketMQ, IndexService.buildIndex)."""
    return sys_flag & _TRANSACTION_MASK == _TRANSACTION_MASK


def stored_at_ms(record: bytes) -> int:
    """The store timestamp in ms, from at least RECORD_HEADER_SIZE first bytes of a record."""
    sys_flag: int = _LENGTH.unpack_from(record, _SYS_FLAG_AT)[0]
    time_ms: int = _TIMESTAMP.unpack_from(record, 68 if sys_flag & _IPV6_BORN else 56)[0]
    return time_ms


def property_value(properties: bytes, pattern: bytes) -> bytes:
    """The value of the last property that matches 0x02 NAME 0x01; b"" if there is none."""
    at = properties.rfind(pattern)
    if at < 0:
        return b""
    start = at + len(pattern)
    end = properties.find(b"\x02", start)
    return bytes(properties[start:] if end < 0 else properties[start:end])
