"""Runs flushes in another thread, one at a time; events start them, without polling."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

from staticfire.system_under_test.runtime.env import File, Worker


class StoreFailed(Exception):
    """A write or an fsync failed. The page cache cannot be trusted any more: exit, and recover at the next start."""


class Task(Protocol):
    """FlushTask or QueueFlushTask of the store."""

    @property
    def only_synced(self) -> File | None:
        """The file, if `run` does nothing but call its `fdatasync`."""
        ...

    def run(self) -> None: ...


T = TypeVar("T", bound=Task)


class Flusher(Generic[T]):
    """Runs one kind of flush (RocketMQ, GroupCommitService, FlushRealTimeService, FlushConsumeQueueService).

    All writes during a flush share the next one: that is the group commit. Sync and async flush differ in whether sends
    wait for it, and in the distance between two flushes.

    Args:
        worker: runs the tasks.
        begin: makes a task, or None if there is nothing to flush.
        finish: called on the loop after the task has run.
        fail: called on the loop when the task has failed; no further flush begins.
        distance_s: least time between the beginnings of two flushes.
    """

    def __init__(
        self,
        worker: Worker,
        begin: Callable[[], T | None],
        *,
        finish: Callable[[T], None],
        fail: Callable[[T, OSError], None],
        distance_s: float = 0.0,
    ) -> None:
        self._worker = worker
        self._begin = begin
        self._finish = finish
        self._fail = fail
        self._distance_s = distance_s
        # runs for `distance_s` after a flush has begun
        self._timer: asyncio.TimerHandle | None = None
        self._is_wanted = False  # begin a flush when the timer fires
        self._in_flight: T | None = None
        self._is_over = False  # failed or closed
        self._landed = asyncio.Event()  # set when no flush is in flight any more

    def wake(self) -> None:
        """Begin a flush if there is something to flush, once no other is in flight and the distance is kept."""
        if self._timer is None:
            self._begin_now()
        else:
            self._is_wanted = True

    def _begin_now(self) -> None:
        if self._in_flight is not None or self._is_over:
            return
        task = self._begin()
        if task is not None:
            self._in_flight = task
            self._landed.clear()
            self._keep_distance()
            self._worker.run(task.run, self._end, only_synced=task.only_synced)

    def _keep_distance(self) -> None:
        if self._distance_s and self._timer is None:
            loop = asyncio.get_running_loop()
            self._timer = loop.call_later(self._distance_s, self._distance_kept)

    def _distance_kept(self) -> None:
        self._timer = None
        if self._is_wanted:
            self._is_wanted = False
            self._begin_now()

    def _end(self, error: BaseException | None) -> None:
        task, self._in_flight = self._in_flight, None
        assert task is not None
        try:
            if error is None:
                self._finish(task)
            elif isinstance(error, OSError):
                self._is_over = True
                self._fail(task, error)
            else:
                raise error
        finally:
            self._note_landing()

    def _note_landing(self) -> None:
        """Wake `drain`, unless the end of one flush has begun the next."""
        if self._in_flight is None:
            self._landed.set()

    async def drain(self) -> None:
        """Flush everything, without keeping the distance; return when no flush is in flight any more."""
        self._begin_now()
        while self._in_flight is not None:
            await self._landed.wait()
            if self._is_wanted:  # for bytes written meanwhile
                self._begin_now()

    def close(self) -> None:
        """End the thread; no further flush begins."""
        self._is_over = True
        if self._timer is not None:
            self._timer.cancel()
        self._worker.close()
