"""Stores what does not fit into a queue entry: bits of the groups that want a message (RocketMQ, ConsumeQueueExt).

The entry then holds, instead of its tags code, the address of a unit in files beside the queue: size (2), tags code
(8), store time in ms (8), size of the bit map (2), bit map. A size of -1 marks the end of a file, at least 4 bytes
before its last byte. Units only save work: if one cannot be read or written, the record has the same information.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable, Iterable

from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import NoSpace
from staticfire.system_under_test.store.mapped_file import MappedFile, MappedFileQueue
from staticfire.system_under_test.store.record_filter import ExtensionUnit
from staticfire.system_under_test.store.results import Dispatched

EXTENSION_FILE_SIZE = 48 << 20  # RocketMQ, mappedFileSizeConsumeQueueExt

_UNIT = struct.Struct(">hqqh")
_FILE_END = struct.pack(">h", -1)
_FILE_END_ROOM = 4  # RocketMQ, END_BLANK_DATA_LENGTH
_ADDRESS_BASE = -(1 << 63)
_ADDRESS_MAX = -(1 << 31) - 1  # below every tags code and every time
_UNIT_SIZE_MAX = (1 << 15) - 1
_WINDOW_SIZE = 64 << 10  # bytes read at once


def is_address(code: int) -> bool:
    """Whether this last field of a queue entry is the address of a unit, not a tags code."""
    return code <= _ADDRESS_MAX


class QueueExtension:
    """The units of one queue, in order of address.

    Args:
        bit_map_of: the bits of a message that is being dispatched.
        is_written: whether new entries get a unit; existing units can be read in any case.
    """

    __slots__ = ("_bit_map_of", "_dirty_from", "_end", "_is_written", "files")

    def __init__(
        self,
        storage: Storage,
        root: str,
        topic: str,
        queue_id: int,
        file_size: int,
        *,
        bit_map_of: Callable[[Dispatched], bytes],
        is_written: bool,
    ) -> None:
        topic_folder = f"{root}/{topic}"
        self.files = MappedFileQueue(
            storage, f"{topic_folder}/{queue_id}", file_size, parents=(topic_folder, root)
        )
        self._bit_map_of = bit_map_of
        self._is_written = is_written
        self._end = 0
        self._dirty_from: int | None = None

    def begin_after(self, address: int | None) -> None:
        """Drop everything behind the unit at `address`, the last one that an entry points to. Raises OSError."""
        files = self.files
        self._end = files.first_offset
        if address is not None:
            offset = address - _ADDRESS_BASE
            found = self._parse(files.read(offset, _WINDOW_SIZE))
            # If it cannot be read, skip the rest of its file: the entry would take a new unit there for its own.
            self._end = offset + (self._room_at(offset) if found is None else found[1])
        files.complete_last()
        if self._end <= files.end_of_files and not files.is_blank_from(self._end):
            files.cut(self._end)
            self._dirty_from = self._end

    def _room_at(self, offset: int) -> int:
        """How many bytes are left from `offset` to the end of its file."""
        return self.files.file_size - offset % self.files.file_size

    def code_for(self, message: Dispatched) -> int:
        """The last field of the message's entry: the address of its new unit, or its tags code. Raises OSError."""
        if not self._is_written:
            return message.tags_code
        bit_map = self._bit_map_of(message)
        size = _UNIT.size + len(bit_map)
        if size > min(_UNIT_SIZE_MAX, self.files.file_size - _FILE_END_ROOM):
            return message.tags_code
        unit = _UNIT.pack(size, message.tags_code, message.store_timestamp_ms, len(bit_map))
        try:
            return self._append(unit + bit_map)
        except NoSpace:
            return message.tags_code
        except OSError as error:
            if error.errno == errno.ENOSPC:
                return message.tags_code
            raise

    def _append(self, unit: bytes) -> int:
        room = self._room_at(self._end)
        if len(unit) + _FILE_END_ROOM > room:
            if room >= len(_FILE_END) and self._end < self.files.end_of_files:
                self._write(_FILE_END)
            self._end += room
        self._make_files()
        address = self._end + _ADDRESS_BASE
        self._write(unit)
        self._end += len(unit)
        return address

    def _make_files(self) -> None:
        """Make the file for the next unit, and missing files before it. Raises NoSpace, OSError."""
        files = self.files
        while not files.files or files.end_of_files <= self._end:
            start = files.end_of_files if files.files else self._end - self._end % files.file_size
            files.create_next(start)

    def _write(self, data: bytes) -> None:
        if self._dirty_from is None or self._dirty_from > self._end:
            self._dirty_from = self._end
        self.files.write(self._end, data)

    def units(self, codes: Iterable[int]) -> list[ExtensionUnit | None]:
        """The unit for each of these codes of entries; None for a code that is not an address or points to no unit."""
        found: list[ExtensionUnit | None] = []
        window, start = b"", 0
        for code in codes:
            if not is_address(code):
                found.append(None)
                continue
            offset = code - _ADDRESS_BASE
            if not start <= offset < start + len(window) - _UNIT_SIZE_MAX:
                start, window = offset, self.files.read(offset, _WINDOW_SIZE)
            parsed = self._parse(window[offset - start : offset - start + _UNIT_SIZE_MAX])
            found.append(None if parsed is None else parsed[0])
        return found

    @staticmethod
    def _parse(data: bytes) -> tuple[ExtensionUnit, int] | None:
        """The unit at the beginning of `data`, and its size; None if there is none."""
        if len(data) < _UNIT.size:
            return None
        size, code, time_ms, bits = _UNIT.unpack_from(data)
        if size != _UNIT.size + bits or bits < 0 or len(data) < size:
            return None
        return ExtensionUnit(code, time_ms, data[_UNIT.size : size]), size

    def drop_file_before(self, code: int) -> MappedFile | None:
        """Drop the first file if the unit of `code` lies in a later one; return it, for the caller to remove."""
        files = self.files
        if len(files.files) < 2 or not is_address(code):
            return None
        if code - _ADDRESS_BASE < files.files[1].base:
            return None
        dropped = files.drop_first()
        files.retire(dropped)
        return dropped

    def take_dirty_files(self) -> list[MappedFile]:
        """The files to be flushed; later changes belong to the next flush."""
        start, self._dirty_from = self._dirty_from, None
        end = self.files.end_of_files
        return self.files.touched(end if start is None else start, end)
