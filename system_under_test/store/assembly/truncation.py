"""Cuts a store's log, with its queues and index (RocketMQ, DefaultMessageStore.truncateDirtyFiles)."""

from __future__ import annotations

from staticfire.system_under_test.store.assembly.flush_planner import Flushing
from staticfire.system_under_test.store.assembly.store_parts import StoreParts
from staticfire.system_under_test.store.errors import RecordInvalid, StoreError


class LogCutter:
    """Ends the log where it diverges from a master's, or forgets all of it."""

    __slots__ = ("_flushing", "_parts")

    def __init__(self, parts: StoreParts, flushing: Flushing) -> None:
        self._parts = parts
        self._flushing = flushing

    def truncate(self, offset: int) -> None:
        """End the log and the queues at `offset`, durably: nothing beyond it can ever be read again.

        Raises:
            StoreError: `offset` is no record boundary, or the store has stopped.
            OSError: a file operation failed, and the store has stopped.
        """
        log, health = self._parts.commit_log, self._parts.health
        health.attempt(log.commit)
        health.check()
        if log.record_start_before(offset) != offset:
            raise StoreError(
                f"{offset} is no record boundary of a log that ends at {log.end_offset}"
            )
        if offset == log.end_offset:
            return
        try:
            self._truncate(offset)
        except OSError as error:
            health.failed(error)
            raise

    def _truncate(self, offset: int) -> None:
        parts = self._parts
        self._flushing.begin_epoch()
        # First lower the checkpoint: what is appended next may be older than what is cut and must not count as durable.
        time_ms = parts.records.time_not_after(offset)
        parts.checkpoint.lower_to(time_ms)
        parts.raw_appender.drop_partial()
        parts.dispatcher.drop_from(offset, time_ms)
        for queue in parts.queues:
            if queue.cut_beyond(offset):
                parts.dispatcher.touch(queue)
        parts.dispatcher.restore_next_offsets()
        parts.index.cut(offset, parts.records.stored_ms)
        parts.commit_log.cut(offset)
        self._flushing.sync_after_cut()

    def begin_again(self, offset: int) -> None:
        """Forget the whole log, durably: an empty one begins at `offset`, where a file starts.

        For a slave that was away so long that its master has deleted everything that the slave has.

        Raises:
            RecordInvalid: no file can start at `offset`; nothing has changed.
            StoreError: the store has stopped.
            OSError: a file operation failed, and the store has stopped.
        """
        parts = self._parts
        log = parts.commit_log
        if offset % log.file_size:
            raise RecordInvalid(f"no log file starts at {offset}")
        self.truncate(log.min_offset)
        try:
            for queue in parts.queues:
                queue.begin_at(0)
                queue.files.cut(0)
            log.files.cut(0)
        except OSError as error:
            parts.health.failed(error)
            raise
        log.begin_at(offset)
        parts.dispatcher.begin_at(offset, 0, parts.queues)
