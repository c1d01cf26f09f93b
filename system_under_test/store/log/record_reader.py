"""Reads single records, and the times at which they were stored, by physical offset."""

from __future__ import annotations

from collections.abc import Callable, Set

from staticfire.system_under_test.store.log.commit_log import CommitLog
from staticfire.system_under_test.store.record_scan import (
    BLANK_HEADER,
    BLANK_HEADER_SIZE,
    RECORD_HEADER_SIZE,
    RecordScanner,
    ScannedRecord,
    stored_at_ms,
)


class RecordReader:
    """Reads written records; returns None where there is none.

    `on_damage` gets the offset of a record whose body does not match its checksum, unless it is in `lost`.
    """

    __slots__ = ("_commit_log", "_lost", "_scanner", "on_damage")

    def __init__(
        self, commit_log: CommitLog, scanner: RecordScanner, lost: Set[int] = frozenset()
    ) -> None:
        self._lost = lost
        self.on_damage: Callable[[int], None] = lambda _: None
        self._commit_log = commit_log
        self._scanner = scanner

    def read(self, offset: int) -> bytes | None:
        """The record at `offset`, which comes from an entry of the store; None if it is damaged or gone."""
        log = self._commit_log
        if not log.min_offset <= offset < log.end_offset:
            return None
        header = log.read(offset, BLANK_HEADER_SIZE)
        if len(header) < BLANK_HEADER_SIZE:
            return None
        size = BLANK_HEADER.unpack(header)[0]
        record = log.read(offset, size)
        if self.parse(record, offset) is not None:
            return record
        if offset not in self._lost and self._scanner.has_bad_body(record, offset):
            self.on_damage(offset)
        return None

    def find(self, offset: int) -> bytes | None:
        """Like `read`, for an offset named by a client: None also inside a record, as a body may look like a record."""
        return self.read(offset) if self._commit_log.may_start_at(offset) else None

    def parse(self, record: bytes, offset: int) -> ScannedRecord | None:
        """The fields of `record` if it is one sound record for `offset`, else None."""
        found: list[ScannedRecord] = []
        self._scanner.scan(record, offset, found.append)
        return found[0] if found and found[0].size == len(record) else None

    def tags_code(self, offset: int) -> int:
        """The tags code for the queue entry of the record at `offset`; 0 if no record starts there."""
        found: list[ScannedRecord] = []
        record = self.read(offset)
        if record is not None:
            self._scanner.scan(record, offset, found.append)
        return found[0].tags_code if found else 0

    def stored_ms(self, offset: int) -> int:
        """Store time in ms of the record that starts at `offset`; -1 if none can be there."""
        header = self._commit_log.read(offset, RECORD_HEADER_SIZE)
        return stored_at_ms(header) if len(header) == RECORD_HEADER_SIZE else -1

    def time_not_after(self, offset: int) -> int:
        """A store time in ms, not later than that of the last record before `offset`: of its file's first record."""
        log = self._commit_log
        if offset <= log.min_offset:
            return 0
        return max(self.stored_ms(offset - 1 - (offset - 1) % log.file_size), 0)
