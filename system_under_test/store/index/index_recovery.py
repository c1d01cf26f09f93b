"""Makes the index agree with the log when a store is opened (RocketMQ, IndexService.load and CommitLog.recover*).

RocketMQ throws away what its checkpoint does not vouch for, and dispatches again from a file of the log that it chose
without asking the index: what lay between is never found by key any more. Here each file proves itself first, and
whatever is missing up to the walk of the recovery is made again from the log. A store without an index folder, or
with one of which a power cut left a part, ends up with the index it would have had.
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
_RECORDS_TRIED = 1 << 12  # between two files; a log may have any number of records without a key
_ENTRIES_TRIED = 256  # as many damaged ones at the end are taken for those of another log


class _Looked(Exception):
    """Ends a scan early."""

    def __init__(self, has_key: bool) -> None:
        super().__init__()
        self.has_key = has_key


class IndexRecovery:
    """Recovers one index whose files are found: `prepare`, then `add` what a walk of the log meets, then `finish`.

    The walk may begin again, even earlier: what is in the index is not added twice.
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
        """`record_at`: the sound record at an offset; `scan(start, end, found)`: the records in a part of the log."""
        self._index = index
        self._hasher = hasher
        self._checkpoint = checkpoint
        self._record_at = record_at
        self._scan = scan
        self._log = log
        self._next_offset = 0  # records before it are in the index, or their keys are in `_keys`
        self._keys: list[NewKey] = []
        self._walks = True  # whether what a walk meets is added

    def prepare(self, first: int, start: int, *, clean: bool) -> None:
        """Let everything before `start`, where a walk is to begin, be in the index. The log begins at `first`.

        Entries of records beyond `start` stay only after a clean end. Raises StoreError, OSError.
        """
        if not self._hasher.is_on:
            return
        index = self._index
        is_whole = self._open_files(start, clean=clean)
        is_whole = self._is_gapless(first) and is_whole
        if index.files and not index.files[-1].is_full:
            index.files[-1].thaw()
        index.continue_at_last()
        # Beyond `start` the log is only known to be whole after a clean end.
        limit = _NO_LIMIT if clean else start
        is_own = first <= index.end_offset < limit and self._is_of_this_log()
        may_lack_key = not (is_whole and clean) or (index.files and index.files[-1].is_full)
        if may_lack_key and self._record_at(index.end_offset) is not None:
            self._cut(index.end_offset)  # a damaged last message keeps the keys that it has
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
        """The first offset of which the index may lack a record."""
        return self._index.end_offset + 1 if self._index.files else 0

    def add(self, record: ScannedRecord) -> None:
        """Index a record of the walk, unless it is in the index. Raises NoSpace, OSError."""
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
        """The log ends at `end`: nothing in the index may lie beyond, or what is put there would not be found."""
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
        """Drop what does not prove itself; return whether nothing had to be."""
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
        """Keep what adds up; return whether anything is left."""
        if not file.has_full_size():
            return False
        file.rebuild_slots(limit, self._time_of)
        return file.header.next_number > 1

    def _is_durable(self, file: IndexFile) -> bool:
        """Whether a flush has vouched for all of it: it was full, and later times were flushed.

        Its own last time may be that of the file before, if everything in it was stored in one millisecond.
        """
        header, until_ms = file.header, self._checkpoint.index_ms
        return file.is_full and (
            header.end_ms < until_ms or header.begin_ms < header.end_ms == until_ms
        )

    @staticmethod
    def _is_sound(file: IndexFile) -> bool:
        """Whether header, last entry and its slot agree; they are written last to first when a store is closed."""
        header = file.header
        last = file.entry(header.next_number - 1)
        return (
            last.physical_offset == header.end_offset >= header.begin_offset
            and last.key_hash >= 0
            and file.slot(last.key_hash) == header.next_number - 1
        )

    def _is_gapless(self, first: int) -> bool:
        """Drop what follows a file that was removed from outside, and return False.

        A record between two files shows that: it has a key, and is not in the index. So does a file that lacks keys of
        its first record, which are in no file before it.
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
        """Whether the file begins with keys of a record, and not with its first one; False for a damaged record."""
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
        """Whether one of the first records from `start`, up to `end`, has a key."""
        left = _RECORDS_TRIED

        def look(record: ScannedRecord) -> None:
            nonlocal left
            left -= 1
            if record.physical_offset >= end or left < 0:
                raise _Looked(False)
            if record_hashes(self._hasher, record):
                raise _Looked(True)

        try:
            self._scan(start, end, look)
        except _Looked as looked:
            return looked.has_key
        return False

    def _is_of_this_log(self) -> bool:
        """Whether the last message of the index that is not damaged lies where it says, under a key of its own.

        An index that was copied from another store may be as sound as any, and hides what this log holds.
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
