"""Makes the index agree with the log when a store is opened (RocketMQ, IndexService.load and CommitLog.recover*).

RocketMQ deletes index files that its checkpoint does not cover, and dispatches again from a log file that it chooses
without regard to the index: queries by key never find what lies between. Here recovery first verifies each file, and
then rebuilds from the log whatever is missing before the walk begins. A store whose index folder is missing, or
incomplete after a power cut, ends up with the index that it would have had.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice

from staticfire.system_under_test.runtime.env import Log
from staticfire.system_under_test.store.checkpoint import Checkpoint
from staticfire.system_under_test.store.index.index_file import IndexFile, NewKey
from staticfire.system_under_test.store.index.index_layout import IndexEntry
from staticfire.system_under_test.store.index.message_index import MessageIndex
from staticfire.system_under_test.store.index_keys import KeyHasher, record_hashes
from staticfire.system_under_test.store.record_scan import ScannedRecord

RecordAt = Callable[[int], ScannedRecord | None]
Scan = Callable[[int, int, Callable[[ScannedRecord], None]], None]

_NO_LIMIT = 1 << 63
_KEYS_AT_ONCE = 1 << 12
# scanned for a key between two files; a log may have many records without one
_RECORDS_TRIED = 1 << 12
# if so many entries at the end lead to no sound record, the index is of another log
_ENTRIES_TRIED = 256


class _ScanEnded(Exception):
    """Ends a scan early, with its result."""

    def __init__(self, has_key: bool) -> None:
        super().__init__()
        self.has_key = has_key


class IndexRecovery:
    """Recovers one loaded index: `prepare`, then `add` each record of a walk of the log, then `finish`.

    The walk may begin again, even earlier: `add` skips what the index already has.
    """

    def __init__(
        self,
        *,
        index: MessageIndex,
        hasher: KeyHasher,
        checkpoint: Checkpoint,
        record_at: RecordAt,
        scan: Scan,
        log: Log,
    ) -> None:
        """`record_at(offset)`: the sound record there; `scan(start, end, found)` calls `found` for each record."""
        self._index = index
        self._hasher = hasher
        self._checkpoint = checkpoint
        self._record_at = record_at
        self._scan = scan
        self._log = log
        self._next_offset = 0  # records before it are in the index, or their keys are in `_keys`
        self._keys: list[NewKey] = []
        self._walks = True  # whether `add` adds the records of a walk

    def prepare(self, first: int, start: int, *, clean: bool) -> None:
        """Make the index complete up to `start`, where a walk is to begin. The log begins at `first`.

        Keeps entries of records beyond `start` only after a clean end. Raises StoreError, OSError.
        """
        if not self._hasher.is_on:
            return
        index = self._index
        is_whole = self._open_files(start, clean=clean)
        is_whole = self._is_gapless(first) and is_whole
        if index.files and not index.files[-1].is_full:
            index.files[-1].thaw()
        index.continue_at_last()
        # After an unclean end the log beyond `start` may not be whole.
        limit = _NO_LIMIT if clean else start
        is_own = first <= index.end_offset < limit and self._is_of_this_log()
        may_lack_key = not (is_whole and clean) or (index.files and index.files[-1].is_full)
        if may_lack_key and self._record_at(index.end_offset) is not None:
            # `add` indexes it again; the keys of a damaged last message stay
            self._cut(index.end_offset)
        position = index.end_offset if index.files else first
        if first <= position < limit and not (is_own or self._is_of_this_log()):
            self._log.warning("the index does not fit the log, rebuilding it", offset=position)
            index.drop_from(0)
            index.continue_at_last()
            position = first
        self._next_offset = max(first, self._next_missing())
        if self._next_offset < start:
            self._scan(max(first, position), start, self.add)

    def _next_missing(self) -> int:
        """The first offset whose record the index may lack."""
        return self._index.end_offset + 1 if self._index.files else 0

    def add(self, record: ScannedRecord) -> None:
        """Index a record of the walk, unless the index has it. Raises NoSpace, OSError."""
        if record.physical_offset < self._next_offset or not self._hasher.is_on:
            return
        offset, stored_ms = record.physical_offset, record.store_timestamp_ms
        self._keys += [(key, offset, stored_ms) for key in record_hashes(self._hasher, record)]
        self._next_offset = offset + 1
        if len(self._keys) >= _KEYS_AT_ONCE:
            self._write_keys()

    def _write_keys(self) -> None:
        keys, self._keys = self._keys, []
        self._index.make_room(len(keys))
        self._index.add(keys)

    def finish(self, end: int) -> None:
        """Drop entries of records at or beyond `end`, where the log ends: they would hide later records there."""
        self._write_keys()
        if self._index.end_offset >= end:
            self._cut(end)

    def _cut(self, offset: int) -> None:
        for file in self._index.files:
            if file.header.next_number > 1 and file.header.end_offset >= offset:
                self._checkpoint.lower_index_to(max(file.header.begin_ms - 1, 0))
                break
        self._index.cut(offset, self._time_of)

    # --- files -----------------------------------------------------------------------------------------------------

    def _open_files(self, start: int, *, clean: bool) -> bool:
        """Verify or rebuild each file, and drop what cannot be; return False if entries may be missing."""
        index = self._index
        for number, file in enumerate(index.files):
            has_header = file.load()
            if has_header and (self._is_durable(file) or (clean and self._is_sound(file))):
                continue
            if not self._rebuild(file, _NO_LIMIT if clean else start):
                index.drop_from(number)
                return False
            if not file.is_full:
                index.drop_from(number + 1)
                return False
        return True

    def _rebuild(self, file: IndexFile, limit: int) -> bool:
        """Keep the valid leading entries; return whether any are left."""
        if not file.has_full_size():
            return False
        file.rebuild_slots(limit, self._time_of)
        return file.header.next_number > 1

    def _is_durable(self, file: IndexFile) -> bool:
        """Whether the whole file was flushed: it is full, and the checkpoint has a later time.

        A checkpoint of the same time as its end does not prove it if the file holds only that one millisecond: the time
        may then come from the file before it.
        """
        header, until_ms = file.header, self._checkpoint.index_ms
        return file.is_full and (
            header.end_ms < until_ms or header.begin_ms < header.end_ms == until_ms
        )

    @staticmethod
    def _is_sound(file: IndexFile) -> bool:
        """Whether header, last entry and its slot agree; closing a store writes the slot first and the header last."""
        header = file.header
        last = file.entry(header.next_number - 1)
        return (
            last.physical_offset == header.end_offset >= header.begin_offset
            and last.key_hash >= 0
            and file.slot(last.key_hash) == header.next_number - 1
        )

    def _is_gapless(self, first: int) -> bool:
        """Whether no file is missing in between; drops the files behind a gap.

        Two things show that a file was removed from outside: a record between two files that has a key but is not in
        the index, and a file that lacks the first keys of its first record although no file before it has them.
        """
        index = self._index
        expected = first
        for number, file in enumerate(index.files):
            begin = file.header.begin_offset
            is_behind = expected < begin and self._is_key_between(expected, begin)
            if is_behind or (expected <= begin and self._begins_within_keys(file)):
                self._log.warning("index files are missing, rebuilding them", offset=expected)
                index.drop_from(number)
                return False
            end = self._record_at(file.header.end_offset)
            expected = max(expected, file.header.end_offset + (end.size if end else 0))
        return True

    def _begins_within_keys(self, file: IndexFile) -> bool:
        """Whether the file begins in the middle of the keys of a record; False for a damaged record."""
        begin = file.header.begin_offset
        record = self._record_at(begin)
        if record is None:
            return False
        hashes = list(record_hashes(self._hasher, record))
        entries = [file.entry(number) for number in range(1, file.header.next_number)]
        found = [
            entry.key_hash for entry in entries[: len(hashes)] if entry.physical_offset == begin
        ]
        return found != hashes[: len(found)] and set(found) <= set(hashes)

    def _is_key_between(self, start: int, end: int) -> bool:
        """Whether one of the first _RECORDS_TRIED records in [start, end) has a key."""
        left = _RECORDS_TRIED

        def look(record: ScannedRecord) -> None:
            nonlocal left
            left -= 1
            if record.physical_offset >= end or left < 0:
                raise _ScanEnded(False)
            if record_hashes(self._hasher, record):
                raise _ScanEnded(True)

        try:
            self._scan(start, end, look)
        except _ScanEnded as ended:
            return ended.has_key
        return False

    def _is_of_this_log(self) -> bool:
        """Whether the newest entry whose record is sound names a key of that record.

        An index copied from another store may be sound in itself, but would hide what this log holds.
        """
        if self._index.newest is None:
            return True
        for entry in islice(self._newest_entries(), _ENTRIES_TRIED):
            record = self._record_at(entry.physical_offset)
            if record is not None:
                return entry.key_hash in record_hashes(self._hasher, record)
        return False

    def _newest_entries(self) -> Iterator[IndexEntry]:
        for file in self._index.newest_first():
            for number in range(file.header.next_number - 1, 0, -1):
                yield file.entry(number)

    def _time_of(self, physical_offset: int) -> int:
        record = self._record_at(physical_offset)
        return -1 if record is None else record.store_timestamp_ms
