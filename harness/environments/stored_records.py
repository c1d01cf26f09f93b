"""Finds the records in the bytes of a commit-log file: where each begins, and where its body lies."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from typing import NamedTuple
from zlib import crc32

MAGIC = struct.pack(">I", 0xDAA320A7)  # RocketMQ, MessageDecoder.MESSAGE_MAGIC_CODE
_KEYS = re.compile(rb"\x02KEYS\x01([^\x02]*)")
_IPV6_SIZE = 12  # more bytes for each of the two hosts


class StoredRecord(NamedTuple):
    """Positions in the file."""

    start: int
    body_start: int
    body_end: int
    end: int

    def is_sound(self, log: bytes) -> bool:
        """Whether the body matches its checksum."""
        expected = int.from_bytes(log[self.start + 8 : self.start + 12], "big")
        return crc32(log[self.body_start : self.body_end]) & 0x7FFFFFFF == expected

    def told(self, log: bytes) -> dict[str, str | int]:
        """The key of its message and its place in the whole log, as `checkers.facts.RottenRecord` has it."""
        place = int.from_bytes(log[self.start + 28 : self.start + 36], "big")
        properties_at = self.body_end + 1 + log[self.body_end] + 2
        found = _KEYS.search(b"\x02" + log[properties_at : self.end])
        key = found[1].decode("utf-8", "replace") if found else ""
        return {"key": key, "start": place, "end": place + self.end - self.start}


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
        yield StoredRecord(start, body_start, body_end, start + size)
        start += size
