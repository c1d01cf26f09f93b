"""Flushes the commit log and the consume queues: one flush in flight each, woken by events, never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from system_under_test.store.message_store import FlushTask, MessageStore, QueueFlushTask


class StoreFailed(Exception):
    """A write or an fsync failed. The page cache can no longer be trusted: exit and recover at the next start."""


class LogFlusher:
    """Flushes the commit log in the default executor (RocketMQ, GroupCommitService and FlushRealTimeService).

    A flush begins at once when the log is dirty and none is in flight; everything appended meanwhile shares the next
    one. Sync and async flush differ only in who waits for it.

    Args:
        on_flushed: called on the loop after `flushed_offset` has advanced.
        on_failure: called on the loop when the disk failed; no flush is begun any more.
    """

    def __init__(
        self,
        store: MessageStore,
        *,
        on_flushed: Callable[[], None],
        on_failure: Callable[[OSError], None],
    ) -> None:
        self._store = store
        self._on_flushed = on_flushed
        self._on_failure = on_failure
        self._in_flight: asyncio.Future[None] | None = None
        self._failed = False

    def wake(self) -> None:
        """Begin a flush if there is something to flush and none is in flight."""
        if self._in_flight is not None or self._failed:
            return
        task = self._store.begin_flush()
        if task is None:
            return
        future = asyncio.get_running_loop().run_in_executor(None, task.run)
        self._in_flight = future
        future.add_done_callback(lambda done: self._finish(task, done))

    def _finish(self, task: FlushTask, done: asyncio.Future[None]) -> None:
        self._in_flight = None
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, OSError):
            self._failed = True
            self._store.fail_flush(task, error)
            self._on_failure(error)
            return
        if error is not None:
            raise error
        self._store.finish_flush(task)
        self._on_flushed()
        self.wake()

    async def drain(self) -> None:
        """Return when everything appended so far is flushed, or the disk has failed."""
        self.wake()
        while self._in_flight is not None:
            await asyncio.gather(self._in_flight, return_exceptions=True)


class QueueFlusher:
    """Flushes the consume queues and the checkpoint now and then; they can be rebuilt from the log.

    Args:
        on_failure: called on the loop when the disk failed.
    """

    def __init__(self, store: MessageStore, *, on_failure: Callable[[OSError], None]) -> None:
        self._store = store
        self._on_failure = on_failure
        self._in_flight: asyncio.Future[None] | None = None

    def wake(self) -> None:
        """Begin a flush if there is something to flush and none is in flight."""
        if self._in_flight is not None:
            return
        task = self._store.begin_queue_flush()
        if task is None:
            return
        future = asyncio.get_running_loop().run_in_executor(None, task.run)
        self._in_flight = future
        future.add_done_callback(lambda done: self._finish(task, done))

    def _finish(self, task: QueueFlushTask, done: asyncio.Future[None]) -> None:
        self._in_flight = None
        if done.cancelled():
            return
        error = done.exception()
        if isinstance(error, OSError):
            self._on_failure(error)
        elif error is not None:
            raise error
        else:
            self._store.finish_queue_flush(task)

    async def drain(self) -> None:
        """Return when no flush is in flight any more."""
        if self._in_flight is not None:
            await asyncio.gather(self._in_flight, return_exceptions=True)
