"""The index after a start as in RocketMQ (IndexService.load and buildIndex; issue 4463, bug R60).

What its checkpoint does not vouch for is thrown away after a kill, and what a proper end left is believed as it is,
although no such end has ever synced it. Only what a recovery walks through is indexed again: not even that after a
proper end. So queries by key miss messages that are there, and find the last one before a crash twice.
"""

from __future__ import annotations

from staticfire.system_under_test.store.index.index_recovery import IndexRecovery
from staticfire.system_under_test.store.record_scan import ScannedRecord


class JavaIndexRecovery(IndexRecovery):
    """Proves nothing and makes nothing that is missing. Only `finish` is ours: no entry leads beyond the log."""

    def prepare(self, first: int, start: int, *, clean: bool) -> None:
        if not self._hasher.is_on:
            return
        index = self._index
        for number, file in enumerate(index.files):
            if not file.load() or not (clean or file.header.end_ms <= self._checkpoint.index_ms):
                index.drop_from(number)
                break
        if index.files and not index.files[-1].is_full:
            index.files[-1].thaw()
        index.continue_at_last()
        self._walks = not clean
        self._next_offset = max(first, index.end_offset)

    def add(self, record: ScannedRecord) -> None:
        if self._walks:
            super().add(record)
