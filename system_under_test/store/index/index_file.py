"""One index file: a hash table of slots, each of which leads to a chain of entries (RocketMQ, IndexFile).

Entries are only ever appended, so one sequential write serves many; slots lie anywhere in 20 MB. The growing file
therefore keeps its slots in memory and writes them when it is full or the store is closed. After any other end it
rebuilds them from the entries, which can be verified: an entry names the one that its slot pointed to before.

The file is sparse. It allocates the blocks of its slots, and of its entries in steps, before the send that needs them
is answered (`room`). A whole file of 420 MB at the first message would be more than most stores ever need.
"""

from __future__ import annotations

import errno
from array import array
from collections.abc import Callable, Iterator, Sequence

from staticfire.system_under_test.runtime.env import Storage
from staticfire.system_under_test.store.errors import NoSpace
from staticfire.system_under_test.store.index.index_layout import (
    HEADER_SIZE,
    INDEX_ENTRY,
    INDEX_ENTRY_SIZE,
    SECONDS_MAX,
    SLOT_SIZE,
    IndexEntry,
    IndexHeader,
    IndexLayout,
)
from staticfire.system_under_test.store.store_file import StoreFile

NewKey = tuple[int, int, int]  # its hash; physical offset and store time in ms of the record
TimeOf = Callable[
    [int], int
]  # physical offset -> store time of its record in ms; -1 if there is none

_ALLOCATED_ENTRIES = 1 << 16  # at a time: 1.25 MiB
_PENDING_MAX = 256 << 10
_READ_ENTRIES = 1 << 14
_SLOTS_CHUNK = 1 << 14  # slots that are written together
_IS_LITTLE_ENDIAN = array("i", [1]).tobytes()[0] == 1


class IndexFile(StoreFile):
    """One file. `open_slots` or `rebuild_slots` must be called before it can grow."""

    __slots__ = (
        "_allocated",
        "_has_stale_slots",
        "_layout",
        "_pending",
        "_slots",
        "_written",
        "header",
        "is_dirty",
    )

    def __init__(self, storage: Storage, path: str, layout: IndexLayout) -> None:
        super().__init__(storage, path)
        self._layout = layout
        self._slots: memoryview | None = None
        self._pending = bytearray()  # entries from number `_written` on
        self._written = 1
        self._allocated = 1  # entries below this number have blocks
        self.header = IndexHeader()
        self.is_dirty = False  # entries or header are not in the file
        self._has_stale_slots = False

    # --- files -----------------------------------------------------------------------------------------------------

    def create(self) -> None:
        """Make the file, without any entry. Raises NoSpace, and no part of it is left; OSError."""
        self._file = self._storage.open(self.path, create=True)
        self.is_new = self.is_dirty = True
        try:
            self._file.truncate(self._layout.file_size)
            self.allocate()
        except (OSError, NoSpace):
            self.remove()
            raise
        self._slots = memoryview(bytearray(self._layout.slots * SLOT_SIZE)).cast("i")

    def has_full_size(self) -> bool:
        return self.file.size() == self._layout.file_size

    def load(self) -> bool:
        """Read the header; False if this cannot be an index file of this layout that has entries."""
        if not self.has_full_size():
            return False
        self.header = IndexHeader.unpack(self.file.pread(HEADER_SIZE, 0))
        self._written = self._allocated = self.header.next_number
        return 1 < self.header.next_number <= self._layout.numbers

    # --- growing ---------------------------------------------------------------------------------------------------

    @property
    def room(self) -> int:
        """How many more entries have blocks on the disk."""
        return self._allocated - self.header.next_number

    @property
    def is_full(self) -> bool:
        return self.header.next_number >= self._layout.numbers

    @property
    def can_allocate(self) -> bool:
        return self._allocated < self._layout.numbers

    def allocate(self, count: int = 1) -> None:
        """Take blocks for at least `count` entries beyond `room`, if so many fit. Raises NoSpace, OSError."""
        allocated = min(self._allocated + max(count, _ALLOCATED_ENTRIES), self._layout.numbers)
        try:
            self.file.allocate(self._layout.position_of(allocated))
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise NoSpace(f"no space for entries of {self.path}: {error}") from error
            raise
        self._allocated = allocated

    def add(self, keys: Sequence[NewKey]) -> int:
        """Append entries for `keys`, at least one; return how many of them fitted. Raises OSError."""
        header, slots, pending = self.header, self._slots, self._pending
        assert slots is not None
        number = header.next_number
        if number == 1:
            _, header.begin_offset, header.begin_ms = keys[0]
        begin_ms, used_slots, slot_count = header.begin_ms, header.used_slots, len(slots)
        fitting = keys[: self._layout.numbers - number]
        for key_hash, physical_offset, stored_ms in fitting:
            slot = key_hash % slot_count
            previous = slots[slot]
            if not previous:
                used_slots += 1
            slots[slot] = number
            seconds = (stored_ms - begin_ms) // 1000
            if not 0 <= seconds <= SECONDS_MAX:
                seconds = 0 if seconds < 0 else SECONDS_MAX
            pending += INDEX_ENTRY.pack(key_hash, physical_offset, seconds, previous)
            number += 1
        header.next_number, header.used_slots = number, used_slots
        _, header.end_offset, header.end_ms = fitting[-1]
        self.is_dirty = self._has_stale_slots = True
        if len(pending) > _PENDING_MAX:
            self.write_entries()
        return len(fitting)

    def write_entries(self) -> None:
        """Write entries to the page cache. Raises OSError, and keeps them for another try."""
        if self._pending:
            self.file.pwrite(self._pending, self._layout.position_of(self._written))
            self._written = self.header.next_number
            self._pending = bytearray()

    def write_out(self) -> None:
        """Write entries and header to the page cache; the slots stay in memory. Raises OSError."""
        self.write_entries()
        self.file.pwrite(self.header.pack(), 0)

    def write_slots(self) -> None:
        """Write the slots to the page cache. Raises OSError."""
        if self._slots is None or not self._has_stale_slots:
            return
        for start in range(0, len(self._slots), _SLOTS_CHUNK):
            chunk = array("i")
            chunk.frombytes(self._slots[start : start + _SLOTS_CHUNK].tobytes())
            data = _big_endian(chunk).tobytes()
            position = HEADER_SIZE + start * SLOT_SIZE
            if data != self.file.pread(len(data), position):  # most of a young file is a hole
                self.file.pwrite(data, position)
        self._has_stale_slots = False

    def freeze(self) -> None:
        """Write everything and free the memory of the slots: the file does not grow any more. Raises OSError."""
        self.write_out()
        self.write_slots()
        self._slots = None

    def thaw(self) -> None:
        """Let a frozen file grow again."""
        if self._slots is None:
            self.open_slots()

    @property
    def is_stale(self) -> bool:
        """Whether closing the store has something to write."""
        return self.is_dirty or self._has_stale_slots

    # --- reading ---------------------------------------------------------------------------------------------------

    def slot(self, key_hash: int) -> int:
        """The number of the newest entry in the slot of this hash; 0 if there is none."""
        number = key_hash % self._layout.slots
        if self._slots is not None:
            return self._slots[number]
        data = self.file.pread(SLOT_SIZE, HEADER_SIZE + number * SLOT_SIZE)
        return int.from_bytes(data, "big", signed=True)

    def entry(self, number: int) -> IndexEntry:
        """Entry `number`, which must exist."""
        if number >= self._written:
            position = (number - self._written) * INDEX_ENTRY_SIZE
            return IndexEntry(*INDEX_ENTRY.unpack_from(self._pending, position))
        data = self.file.pread(INDEX_ENTRY_SIZE, self._layout.position_of(number))
        return IndexEntry(*INDEX_ENTRY.unpack(data))

    def chain(self, key_hash: int) -> Iterator[IndexEntry]:
        """The entries in the slot of this hash, newest first; ends at an entry that does not point backwards."""
        number, before = self.slot(key_hash), self.header.next_number
        while 0 < number < before:
            entry = self.entry(number)
            yield entry
            number, before = entry.previous, number

    # --- opening ---------------------------------------------------------------------------------------------------

    def open_slots(self) -> None:
        """Read the slots of a file that was closed properly."""
        slots = array("i")
        slots.frombytes(self.file.pread(self._layout.slots * SLOT_SIZE, HEADER_SIZE))
        self._slots = memoryview(_big_endian(slots))

    def rebuild_slots(self, limit: int, time_of: TimeOf) -> None:
        """Keep the valid leading entries of records below `limit`, and make the slots from them.

        Overwrites everything behind them with zeros: later entries must not mix with old bytes.
        """
        slots = memoryview(bytearray(self._layout.slots * SLOT_SIZE)).cast("i")
        header = IndexHeader(begin_ms=self.header.begin_ms)
        for entry in self._entries_of_file():
            key_hash, physical_offset, _, previous = entry
            slot = key_hash % len(slots)
            is_sound = header.end_offset <= physical_offset < limit and previous == slots[slot]
            if not is_sound or key_hash < 0 or not any(entry):
                break
            if header.next_number == 1:
                header.begin_offset = physical_offset
            if not previous:
                header.used_slots += 1
            slots[slot] = header.next_number
            header.end_offset = physical_offset
            header.next_number += 1
        self._slots, self.header = slots, header
        if header.next_number > 1:
            self._set_times(time_of)
        self._wipe()

    def _entries_of_file(self) -> Iterator[tuple[int, int, int, int]]:
        for first in range(1, self._layout.numbers, _READ_ENTRIES):
            count = min(_READ_ENTRIES, self._layout.numbers - first)
            data = self.file.pread(count * INDEX_ENTRY_SIZE, self._layout.position_of(first))
            yield from INDEX_ENTRY.iter_unpack(
                data[: len(data) // INDEX_ENTRY_SIZE * INDEX_ENTRY_SIZE]
            )

    def _set_times(self, time_of: TimeOf) -> None:
        begin_ms = time_of(self.header.begin_offset)
        if begin_ms >= 0:  # else its record has been deleted: keep the time of the header
            self.header.begin_ms = begin_ms
        self.header.end_ms = max(time_of(self.header.end_offset), self.header.begin_ms)

    def _wipe(self) -> None:
        number = self.header.next_number
        self.file.truncate(self._layout.position_of(number))
        self.file.truncate(self._layout.file_size)
        self._pending = bytearray()
        self._written = self._allocated = number
        self.is_dirty = self.is_new = self._has_stale_slots = True

    # --- cutting ---------------------------------------------------------------------------------------------------

    def cut(self, physical_offset: int, time_of: TimeOf) -> None:
        """Drop the entries of records at or beyond `physical_offset`, newest first, and restore what their slots held.

        Raises OSError. Frees the blocks of what was written; `allocate` takes them again.
        """
        header, slots = self.header, self._slots
        assert slots is not None
        number = header.next_number
        while number > 1:
            entry = self.entry(number - 1)
            if entry.physical_offset < physical_offset:
                break
            number -= 1
            slots[entry.key_hash % len(slots)] = entry.previous
            if not entry.previous:
                header.used_slots -= 1
        if number == header.next_number:
            return
        header.next_number = number
        if number < self._written:
            self._wipe()
        else:
            del self._pending[(number - self._written) * INDEX_ENTRY_SIZE :]
        if number > 1:
            header.end_offset = self.entry(number - 1).physical_offset
            self._set_times(time_of)
        self.is_dirty = self._has_stale_slots = True


def _big_endian(slots: array[int]) -> array[int]:
    if _IS_LITTLE_ENDIAN:
        slots.byteswap()
    return slots
