"""The index of one message queue: 20 bytes a message, in queue order (RocketMQ, ConsumeQueue).

Entry i is at byte 20 * i of the queue's files: physical offset (8), record size (4), tags code (8). The queue is dense:
entry i belongs to the record whose queue offset is i.
"""

from __future__ import annotations

import errno
import struct
from collections.abc import Callable
from functools import partial
from operator import itemgetter
from typing import NamedTuple

from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import NoSpace
from staticfire.system_under_test.store.mapped_file import MappedFile, MappedFileQueue
from staticfire.system_under_test.store.queues.queue_extension import QueueExtension, is_address
from staticfire.system_under_test.store.record_filter import ExtensionUnit

ENTRY = struct.Struct(">qiq")
ENTRY_SIZE = ENTRY.size
# Fills the positions before the first entry of a queue that does not begin at 0 (RocketMQ, fillPreBlank).
FILLER_SIZE = 0x7FFFFFFF
_FILLER = ENTRY.pack(0, FILLER_SIZE, 0)

_CODES_AT_ONCE = 1000


class Entry(NamedTuple):
    """Position and size of one message's record in the log, and the hash of its tag."""

    physical_offset: int
    size: int
    tags_code: int


_make_entry = partial(tuple.__new__, Entry)  # Entry._make takes twice as long
_size_of = itemgetter(1)


class ConsumeQueue:
    """Queue offsets: `min_offset` <= `max_offset` (next entry to be written) <= `next_offset` (of the next put)."""

    __slots__ = (
        "_hidden_end",
        "_tags_code_at",
        "dirty_from",
        "extension",
        "files",
        "max_offset",
        "min_offset",
        "next_offset",
        "queue_id",
        "topic",
    )

    def __init__(
        self,
        storage: Storage,
        root: str,
        topic: str,
        queue_id: int,
        file_size: int,
        *,
        extension: QueueExtension | None = None,
        tags_code_at: Callable[[int], int] = lambda physical_offset: 0,
    ) -> None:
        """A queue without entries.

        Args:
            extension: the units that its entries may point to.
            tags_code_at: maps a physical offset to the tags code of the record, if a unit cannot be read.
        """
        self.extension = extension
        self._tags_code_at = tags_code_at
        topic_folder = f"{root}/{topic}"
        self.topic = topic
        self.queue_id = queue_id
        self.files = MappedFileQueue(
            storage, f"{topic_folder}/{queue_id}", file_size, parents=(topic_folder, root)
        )
        self.min_offset = 0
        self.max_offset = 0
        self.next_offset = 0
        self._hidden_end = 0  # later entries below this queue offset are hidden, too
        self.dirty_from: int | None = None  # position of the first byte not known to be durable

    def reserve_up_to(self, offset: int) -> None:
        """Make the files for all entries below `offset`. Raises NoSpace, OSError."""
        needed = offset * ENTRY_SIZE
        if needed <= self.files.end_of_files:  # nearly always
            return
        if not self.files.files:
            self._create_first_file()
        while needed > self.files.end_of_files:
            self.files.create_next(self.files.end_of_files)

    def _create_first_file(self) -> None:
        start = self.min_offset * ENTRY_SIZE
        base = start - start % self.files.file_size
        self.files.create_next(base)
        self.files.write(base, _FILLER * ((start - base) // ENTRY_SIZE))

    def begin_at(self, offset: int) -> None:
        """Set the end of the queue to `offset`, for recovery: entries before it count, later ones do not.

        If the files do not reach `offset`, the queue drops them and begins there without any.
        """
        if not self.files.first_offset <= offset * ENTRY_SIZE <= self.files.end_of_files:
            self.files.cut(0)
        self.min_offset = offset
        if self.files.files:
            self.min_offset = self.files.first_offset // ENTRY_SIZE
        self.max_offset = self.next_offset = offset

    def fill_before(self, offset: int) -> None:
        """Write fillers to empty positions right before `offset`, which an earlier process may not have synced.

        Raises OSError.
        """
        start, first = offset, self.files.first_offset // ENTRY_SIZE
        while start > first and self.files.files and self.probe(start - 1) is None:
            start -= 1
        if start < offset and self.files.files:
            self.files.write(start * ENTRY_SIZE, _FILLER * (offset - start))
            self._mark_dirty(start * ENTRY_SIZE)

    def correct_min(self, log_min_offset: int) -> None:
        """Move `min_offset` to the first entry whose record has not been deleted (RocketMQ, correctMinOffset)."""
        if log_min_offset:
            self.min_offset = self.first_at_or_beyond(log_min_offset)

    def hide(self) -> None:
        """Hide all messages put so far from readers, including those whose entries are still to come."""
        self._hidden_end = self.next_offset
        self.min_offset = self.max_offset

    def hide_below(self, offset: int) -> None:
        """Hide the entries below `offset` from readers, including those still to come of messages that were put."""
        self._hidden_end = max(self._hidden_end, min(offset, self.next_offset))
        self.min_offset = max(self.min_offset, min(offset, self.max_offset))

    def first_at_or_beyond(self, physical_offset: int) -> int:
        """The queue offset of the first entry whose record lies at or beyond `physical_offset`."""
        low, high = self.min_offset, self.max_offset
        while low < high:
            middle = (low + high) // 2
            data = self.files.read(middle * ENTRY_SIZE, ENTRY_SIZE)  # `read` ends before a hole
            if ENTRY.unpack(data)[0] < physical_offset:
                low = middle + 1
            else:
                high = middle
        return low

    def is_first_file_below(self, physical_offset: int) -> bool:
        """Whether the first of several files has only hidden entries, or entries of records below `physical_offset`."""
        files = self.files
        if len(files.files) < 2:
            return False
        end = files.files[1].base // ENTRY_SIZE
        if end <= self.min_offset:
            return True
        last = self.probe(end - 1)
        return last is not None and last.physical_offset < physical_offset

    def drop_first_file(self) -> MappedFile:
        """Let the queue begin with its second file; return the first, which the caller removes from the disk."""
        dropped = self.files.drop_first()
        self.files.retire(dropped)
        self.min_offset = max(self.min_offset, self.files.first_offset // ENTRY_SIZE)
        return dropped

    def holds(self, entries: bytes | bytearray) -> bool:
        """Whether the files already have these entries at the end of the queue."""
        position = self.max_offset * ENTRY_SIZE
        end = position + len(entries)
        if end > self.files.end_of_files:
            return False
        data = bytearray()
        while position + len(data) < end:
            part = self.files.read(position + len(data), end - position - len(data))
            if not part:
                return False
            data += part
        return data == entries or (self.extension is not None and _same_places(data, entries))

    def append(self, entries: bytes | bytearray) -> None:
        """Append packed entries. Raises NoSpace or OSError, and then none of them counts as appended."""
        count = len(entries) // ENTRY_SIZE
        self.reserve_up_to(self.max_offset + count)
        position = self.max_offset * ENTRY_SIZE
        try:
            self.files.write(position, entries)
        except OSError as error:
            # The file is sparse, or it has its full size but lost its blocks in a power cut.
            if error.errno == errno.ENOSPC:
                raise NoSpace(f"no space for entries of {self.files.folder}: {error}") from error
            raise
        self._mark_dirty(position)
        self.max_offset += count
        self.next_offset = max(self.next_offset, self.max_offset)
        if self.min_offset < self._hidden_end:
            self.hide_below(self._hidden_end)

    def read(self, offset: int, count: int) -> list[Entry]:
        """Up to `count` entries from `offset`; never across the end of a file or the end of the queue.

        Nor across a hole. The kernel drops pages that it cannot write: they read as zeros from then on, while the fsync
        that reports the failure, and stops the store, has not returned yet.
        """
        count = min(count, self.max_offset - offset)
        if count <= 0 or offset < self.min_offset:
            return []
        data = self.files.read(offset * ENTRY_SIZE, count * ENTRY_SIZE)
        entries = list(map(_make_entry, ENTRY.iter_unpack(data)))
        if not all(map(_size_of, entries)):
            hole = next(number for number, entry in enumerate(entries) if not entry.size)
            del entries[max(hole - 1, 0) :]  # the entry before a hole may have lost its last bytes
        return entries if self.extension is None else self._resolved(entries, self.extension)

    def _resolved(self, entries: list[Entry], extension: QueueExtension) -> list[Entry]:
        """The entries with tags codes instead of addresses of units."""
        units = extension.units(entry.tags_code for entry in entries)
        for number, (entry, unit) in enumerate(zip(entries, units, strict=True)):
            if unit is not None:
                entries[number] = entry._replace(tags_code=unit.tags_code)
            elif is_address(entry.tags_code):
                code = self._tags_code_at(entry.physical_offset)
                entries[number] = entry._replace(tags_code=code)
        return entries

    def has_file(self, offset: int) -> bool:
        """Whether a file holds the bytes of entry `offset`, lost or not."""
        return bool(self.files.read(offset * ENTRY_SIZE, 1))

    def extension_units(self, offset: int, count: int) -> list[ExtensionUnit | None]:
        """The extension's units of `count` entries from `offset`; [] without an extension."""
        if self.extension is None or count <= 0:
            return []
        return self.extension.units(self._codes(offset, count))

    def _codes(self, offset: int, count: int) -> list[int]:
        """The last fields of entries as the file has them: tags codes or addresses."""
        data = self.files.read(offset * ENTRY_SIZE, count * ENTRY_SIZE)
        return [code for _, _, code in ENTRY.iter_unpack(data)]

    def load_extension(self) -> None:
        """Continue the extension behind the last unit that an entry points to; call when the entries are recovered.

        Raises OSError.
        """
        if self.extension is None:
            return
        high, last = self.max_offset, None
        entries_a_file = self.files.file_size // ENTRY_SIZE
        while last is None and high > self.min_offset:
            # `_codes` never reads across files
            file_start = (high - 1) // entries_a_file * entries_a_file
            low = max(self.min_offset, file_start, high - _CODES_AT_ONCE)
            addresses = [code for code in self._codes(low, high - low) if is_address(code)]
            last = addresses[-1] if addresses else None
            high = low
        self.extension.begin_after(last)

    def drop_extension_file(self) -> MappedFile | None:
        """Like `drop_first_file`, for the extension; None if its first file is still needed."""
        if self.extension is None or self.min_offset >= self.max_offset:
            return None
        codes = self._codes(self.min_offset, 1)
        return self.extension.drop_file_before(codes[0]) if codes else None

    def probe(self, offset: int) -> Entry | None:
        """Entry `offset` as the files have it, even beyond the end; None if it is empty or has no file."""
        data = self.files.read(offset * ENTRY_SIZE, ENTRY_SIZE)
        if len(data) < ENTRY_SIZE:
            return None
        entry = Entry(*ENTRY.unpack(data))
        return entry if entry.physical_offset >= 0 and entry.size > 0 else None

    def cut(self, offset: int) -> None:
        """Drop the entries from `offset` on, and durably zero their bytes.

        An entry proves that its record was durable. It must not outlive its record: otherwise recovery would take a
        torn record written there later for a durable one (`damaged_records`). Raises OSError.
        """
        position = offset * ENTRY_SIZE
        self.files.cut(position)
        self.files.sync_new_files()
        self.max_offset = self.next_offset = offset
        self._hidden_end = min(self._hidden_end, offset)
        self.min_offset = min(self.min_offset, offset) if self.files.files else offset
        self._mark_dirty(position)

    def cut_beyond(self, physical_offset: int) -> bool:
        """Drop the entries of records at or beyond `physical_offset`; return whether there were any."""
        low = self.first_at_or_beyond(physical_offset)
        self.next_offset = self.max_offset
        self._hidden_end = min(self._hidden_end, self.max_offset)
        if low == self.max_offset:
            return False
        self.cut(low)
        return True

    def take_dirty_files(self) -> list[MappedFile]:
        """The files to be flushed; later changes belong to the next flush."""
        start = self.dirty_from
        self.dirty_from = None
        end = self.files.end_of_files
        return self.files.touched(end if start is None else start, end)

    def _mark_dirty(self, position: int) -> None:
        if self.dirty_from is None or self.dirty_from > position:
            self.dirty_from = position


def _same_places(data: bytes | bytearray, entries: bytes | bytearray) -> bool:
    """Whether two runs of entries point to the same records, and differ only where the first has addresses."""
    pairs = zip(ENTRY.iter_unpack(data), ENTRY.iter_unpack(entries), strict=True)
    return all(
        mine[:2] == other[:2] and (mine[2] == other[2] or is_address(mine[2]))
        for mine, other in pairs
    )
