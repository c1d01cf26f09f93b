"""The layout of an index file (RocketMQ, IndexFile and IndexHeader)."""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import NamedTuple

HEADER_SIZE = 40
SLOT_SIZE = 4
SECONDS_MAX = (1 << 31) - 1
INDEX_ENTRY = struct.Struct(">iqii")
INDEX_ENTRY_SIZE = INDEX_ENTRY.size
_HEADER = struct.Struct(">qqqqii")


class IndexEntry(NamedTuple):
    """One key of one message. `previous` is the number of the entry before it in its slot; 0 if there is none."""

    key_hash: int
    physical_offset: int
    seconds: int  # since the first entry of the file was stored
    previous: int


@dataclass(slots=True)
class IndexHeader:
    """Store times (ms) and physical offsets of the first and the last entry; entries are numbered from 1."""

    begin_ms: int = 0
    end_ms: int = 0
    begin_offset: int = 0
    end_offset: int = 0
    used_slots: int = 0
    next_number: int = 1

    @staticmethod
    def unpack(data: bytes) -> IndexHeader:
        return IndexHeader(*_HEADER.unpack(data))

    def pack(self) -> bytes:
        return _HEADER.pack(
            self.begin_ms,
            self.end_ms,
            self.begin_offset,
            self.end_offset,
            self.used_slots,
            self.next_number,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class IndexLayout:
    """`slots`: maxHashSlotNum. `numbers`: maxIndexNum, one more than the entries of a file, as number 0 is not used."""

    slots: int
    numbers: int

    @property
    def entries_at(self) -> int:
        return HEADER_SIZE + self.slots * SLOT_SIZE

    @property
    def file_size(self) -> int:
        return self.position_of(self.numbers)

    def position_of(self, number: int) -> int:
        """The position of entry `number` in the file, in bytes."""
        return self.entries_at + number * INDEX_ENTRY_SIZE
