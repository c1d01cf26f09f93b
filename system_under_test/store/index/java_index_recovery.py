"""The index after a start as in RocketMQ (IndexService.load and buildIndex; issue 4463, bug R60).

After a kill it deletes the files that its checkpoint does not cover. After a proper end it trusts the files as they
are, although no such end has ever synced them. It indexes again only what recovery walks through, and after a proper
end not even that. So queries by key miss messages that exist, and find the last one before a crash twice.
"""

from __future__ import annotations

from staticfire.system_under_test.store.index.index_recovery import IndexRecovery
from staticfire.system_under_test.store.record_scan import ScannedRecord


class JavaIndexRecovery(IndexRecovery):
    """Verifies and rebuilds nothing. It keeps only our `finish`: no entry leads beyond the end of the log."""

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
