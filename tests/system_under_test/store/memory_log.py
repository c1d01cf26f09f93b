"""A commit log in memory, for the HA protocol: records of size, magic and payload; blanks at the end of files."""

from __future__ import annotations

import struct

from staticfire.system_under_test.protocol.message import MAGIC_BLANK, MAGIC_MESSAGE

FILE_SIZE = 1024


class MemoryLog:
    """A commit log in memory: records of size, magic and payload; blanks at the end of files of 1024 bytes."""

    def __init__(self) -> None:
        self.data = bytearray()
        self.flushed_offset = 0
        self.min_offset = 0

    @property
    def end_offset(self) -> int:
        return len(self.data)

    def put(self, payload: bytes) -> None:
        size = 8 + len(payload)
        left = FILE_SIZE - len(self.data) % FILE_SIZE
        if size + 8 > left:
            self.data += struct.pack(">ii", left, MAGIC_BLANK) + bytes(left - 8)
        self.data += struct.pack(">ii", size, MAGIC_MESSAGE) + payload

    def flush(self) -> None:
        self.flushed_offset = len(self.data)

    def power_cut(self) -> None:
        """Keep what was flushed, as far as it is whole records."""
        del self.data[self.flushed_offset :]
        self.truncate(self.record_start_before(self.end_offset))

    def read_raw(self, offset: int, size_max: int) -> bytes:
        left = FILE_SIZE - offset % FILE_SIZE
        return bytes(self.data[offset : offset + min(size_max, left)])

    def append_raw(self, offset: int, data: bytes) -> None:
        assert offset == len(self.data)
        self.data += data

    def mend_record(self, physical_offset: int, record: bytes) -> bool:
        """Replace a record by one of the same size."""
        self.data[physical_offset : physical_offset + len(record)] = record
        return True

    def truncate(self, offset: int) -> None:
        del self.data[offset:]
        self.flushed_offset = min(self.flushed_offset, offset)

    def begin_again(self, offset: int) -> None:
        assert offset % FILE_SIZE == 0
        self.data = bytearray(offset)
        self.min_offset = self.flushed_offset = offset

    def delete_before(self, offset: int) -> None:
        """What retention does: `offset` is the start of a file."""
        self.data[:offset] = bytes(offset)
        self.min_offset = offset

    def record_start_before(self, offset: int) -> int:
        start = self.min_offset
        while start + 4 <= len(self.data):
            (size,) = struct.unpack_from(">i", self.data, start)
            if start + size > min(offset, len(self.data)):
                return start
            start += size
        return start
