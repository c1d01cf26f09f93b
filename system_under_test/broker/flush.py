"""Flushes in the default executor: one in flight, woken by events, never by polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar


class StoreFailed(Exception):
    """A write or an fsync failed. The page cache can no longer be trusted: exit, and recover at the next start."""


class Task(Protocol):
    """FlushTask or QueueFlushTask of the store."""

    def run(self) -> None: ...


T = TypeVar("T", bound=Task)


class Flusher(Generic[T]):
    """Runs one kind of flush (RocketMQ, GroupCommitService, FlushRealTimeService, FlushConsumeQueueService).

    Whatever is written while a flush is in flight shares the next one: that is the group commit. Sync and async flush
    differ only in who waits for it.

    Args:
        begin: makes a task, or None if there is nothing to flush.
        finish: called on the loop after the task has run.
        fail: called on the loop when the task failed; no flush is begun any more.
    """

    def __init__(
        self,
        begin: Callable[[], T | None],
        *,
        finish: Callable[[T], None],
        fail: Callable[[T, OSError], None],
    ) -> None:
        self._begin = begin
        self._finish = finish
        self._fail = fail
        self._in_flight: asyncio.Future[None] | None = None
        self._failed = False

    def wake(self) -> None:
        """Begin a flush if there is something to flush and none is in flight."""
        if self._in_flight is not None or self._failed:
            return
        task = self._begin()
        if task is None:
            return
        future = asyncio.get_running_loop().run_in_executor(None, task.run)
        self._in_flight = future
        future.add_done_callback(lambda done: self._end(task, done))

    def _end(self, task: T, done: asyncio.Future[None]) -> None:
        self._in_flight = None
        if done.cancelled():
            return
        error = done.exception()
        if error is None:
            self._finish(task)
        elif isinstance(error, OSError):
            self._failed = True
            self._fail(task, error)
        else:
            raise error

    async def drain(self) -> None:
        """Flush what is there, and return when nothing is in flight any more."""
        self.wake()
        while self._in_flight is not None:
            await asyncio.gather(self._in_flight, return_exceptions=True)
