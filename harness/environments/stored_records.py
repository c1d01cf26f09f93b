"""Finds the records in the bytes of a commit-log file: where each begins, and where its body lies."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

MAGIC = struct.pack(">I", 0xDAA320A7)  # RocketMQ, MessageDecoder.MESSAGE_MAGIC_CODE
_IPV6_SIZE = 12  # more bytes for each of the two hosts


class StoredRecord(NamedTuple):
    """Positions in the file."""

    start: int
    body_start: int
    body_end: int

    def is_sound(self, log: bytes) -> bool:
        """Whether the body matches its checksum."""
        expected = int.from_bytes(log[self.start + 8 : self.start + 12], "big")
        return crc32(log[self.body_start : self.body_end]) & 0x7FFFFFFF == expected


def stored_records(log: bytes) -> Iterator[StoredRecord]:
    """The records from the beginning, up to the first bytes that are none."""
    start = 0
    while log[start + 4 : start + 8] == MAGIC:
        size = int.from_bytes(log[start : start + 4], "big")
        flags = int.from_bytes(log[start + 36 : start + 40], "big")
        length_at = start + 84 + _IPV6_SIZE * (bool(flags & 0x10) + bool(flags & 0x20))
        body_start = length_at + 4
        body_end = body_start + int.from_bytes(log[length_at:body_start], "big")
        if not body_start <= body_end <= start + size <= len(log):
            return
        yield StoredRecord(start, body_start, body_end)
        start += size
