"""Finds messages by key, in a sequence of index files of which the last one grows (RocketMQ, IndexService).

A message gets its entries when it becomes visible. They reach the files with the flush of the consume queues, whose
time in the checkpoint covers both. The checkpoint's own time of the index means, as in RocketMQ, that full files are
durable as a whole: a Java broker that opens the store after a crash deletes newer files, and so never trusts slots that
were only in our memory.
"""

from __future__ import annotations

import errno
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime

from staticfire.system_under_test.runtime.env import Clock, Storage
from staticfire.system_under_test.store.errors import NoSpace, StoreError
from staticfire.system_under_test.store.index.index_file import IndexFile, NewKey, TimeOf
from staticfire.system_under_test.store.index.index_layout import IndexLayout

_NAME_DIGITS = 17  # yyyyMMddHHmmssSSS


class MessageIndex:
    """`reserved`: number of entries of records that are appended but not yet visible; their space is allocated.

    `repaired`: the key hashes of records repaired since the store was opened, by physical offset. Files that were
    rebuilt while a record was damaged lack its keys, and cannot take them later, as entries must be in log order.

    `removals`: how often entries were removed, so that a search in steps knows that its position is invalid.
    """

    __slots__ = (
        "_clock",
        "_current",
        "_layout",
        "_retired",
        "_room",
        "_storage",
        "files",
        "folder",
        "removals",
        "repaired",
        "reserved",
    )

    def __init__(self, storage: Storage, clock: Clock, folder: str, layout: IndexLayout) -> None:
        self._storage = storage
        self._clock = clock
        self._layout = layout
        self._current = 0  # position in `files` of the growing file
        # removed files whose handles a flush in flight may hold
        self._retired: list[IndexFile] = []
        self._room = 0  # free entries with allocated blocks, in all files
        self.folder = folder
        self.files: list[IndexFile] = []
        self.reserved = 0
        self.removals = 0
        self.repaired: dict[int, tuple[int, ...]] = {}

    def load(self) -> None:
        """Find the files without reading them. Raises StoreError."""
        for name in sorted(self._storage.listdir(self.folder)):
            if len(name) != _NAME_DIGITS or not name.isdecimal():
                raise StoreError(
                    f"{self.folder}/{name} is no index file: the name must be {_NAME_DIGITS} digits"
                )
            self.files.append(IndexFile(self._storage, f"{self.folder}/{name}", self._layout))

    def forget_cache(self) -> None:
        """Read from the disk alone (see MappedFileQueue.forget_cache)."""
        for file in self.files:
            file.forget_cache()

    # --- growing ---------------------------------------------------------------------------------------------------

    def continue_at_last(self) -> None:
        """Let the last file grow; call when all files have been opened."""
        self._current = max(0, len(self.files) - 1)
        self._count_room()

    def reserve(self, count: int) -> None:
        """Allocate space for `count` more entries than are reserved. Raises NoSpace, OSError."""
        if self.reserved + count > self._room:
            self.make_room(self.reserved + count)

    def make_room(self, count: int) -> None:
        """Allocate space for `count` entries. Raises NoSpace, OSError."""
        while self._room < count:
            last = self.files[-1] if self.files else None
            if last is None or not last.can_allocate:
                last = IndexFile(self._storage, self._next_path(), self._layout)
                last.create()
                self.files.append(last)
            else:
                last.allocate(count - self._room)
            self._count_room()

    def _count_room(self) -> None:
        self._room = sum(file.room for file in self.files[self._current :])

    def _next_path(self) -> str:
        """The path of a new file: its creation time (UTC; RocketMQ: local time), later than that of the file before."""
        moment = datetime.fromtimestamp(self._clock.wall_ms() // 1000, UTC)
        name = f"{moment:%Y%m%d%H%M%S}{self._clock.wall_ms() % 1000:03d}"
        if self.files:
            last = self.files[-1].path.rpartition("/")[2]
            name = max(name, f"{int(last) + 1:0{_NAME_DIGITS}d}")
        return f"{self.folder}/{name}"

    def add(self, keys: Sequence[NewKey]) -> None:
        """Append an entry for each key, in log order; `make_room` must have been called. Raises OSError."""
        self._room -= len(keys)
        while keys:
            file = self.files[self._current]
            if file.is_full:
                self._current += 1
                file = self.files[self._current]
            added = file.add(keys)
            keys = keys[added:]

    # --- flushing --------------------------------------------------------------------------------------------------

    def write_out(self, *, closing: bool = False) -> list[IndexFile]:
        """Write everything to the page cache, slots only of full files or when `closing`; return the files to sync.

        Raises NoSpace (it may work later), OSError.
        """
        self._close_retired()
        touched = [file for file in self.files if file.is_dirty or (closing and file.is_stale)]
        try:
            for file in touched:
                if file.is_full:
                    file.freeze()
                else:
                    file.write_out()
                    if closing:
                        file.write_slots()
        except OSError as error:
            if error.errno == errno.ENOSPC:
                raise NoSpace(f"no space in {self.folder}: {error}") from error
            raise
        for file in touched:
            file.is_dirty = False
        return touched

    @property
    def full_until_ms(self) -> int:
        """Store time of the last message in the newest full file; 0 if none is full."""
        return max((file.header.end_ms for file in self.files if file.is_full), default=0)

    def drop_spares(self) -> None:
        """Remove files without entries before the store closes. Raises OSError."""
        while self.files and self.files[-1].header.next_number == 1:
            self._remove(self.files.pop())

    def close(self) -> None:
        self._close_retired()
        for file in self.files:
            file.close()

    def _close_retired(self) -> None:
        for file in self._retired:
            file.close()
        self._retired.clear()

    def _remove(self, file: IndexFile) -> None:
        self.removals += 1
        self._storage.unlink(file.path)
        self._retired.append(file)

    # --- cutting and deleting --------------------------------------------------------------------------------------

    def cut(self, physical_offset: int, time_of: TimeOf) -> None:
        """Drop the entries of records at or beyond `physical_offset`; callers must reserve their entries again.

        The removal of files is durable: the log is about to get other records there. Raises OSError.
        """
        self.removals += 1
        self.drop_spares()
        count = len(self.files)
        while self.files:
            file = self.files[-1]
            if file.header.end_offset < physical_offset:
                break
            file.thaw()
            file.cut(physical_offset, time_of)
            if file.header.next_number > 1:
                break
            self._remove(self.files.pop())
        if len(self.files) < count:
            self._storage.fsync_dir(self.folder)
        self.continue_at_last()

    def drop_from(self, number: int) -> None:
        """Remove file `number` and those behind it. Raises OSError."""
        while len(self.files) > number:
            self._remove(self.files.pop())

    def delete_before(self, min_offset: int) -> int:
        """Remove files, never the last, whose messages are all deleted; return how many (RocketMQ, deleteExpiredFile).

        Raises OSError: the remaining files are unchanged, and the call can be repeated.
        """
        count = 0
        while self._current and self.files[0].header.end_offset < min_offset:
            self._remove(self.files[0])
            del self.files[0]  # one by one: if the next cannot be removed, it can be tried again
            self._current -= 1
            count += 1
        return count

    # --- reading ---------------------------------------------------------------------------------------------------

    @property
    def newest(self) -> IndexFile | None:
        """The last file that has entries."""
        used = (file for file in reversed(self.files) if file.header.next_number > 1)
        return next(used, None)

    @property
    def end_offset(self) -> int:
        """Physical offset of the last message in the index; -1 if there is none."""
        newest = self.newest
        return -1 if newest is None else newest.header.end_offset

    def newest_first(self) -> Iterator[IndexFile]:
        return reversed(tuple(self.files))
