"""One flush in flight; whatever comes meanwhile shares the next; a failure ends it."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from staticfire.system_under_test.broker.append_pipeline.flush import Flusher
from staticfire.system_under_test.runtime.worker import ExecutorWorker


class Disk:
    """A log of `dirty` bytes. A flush task covers what was dirty when it was begun."""

    def __init__(self, *, error: OSError | None = None) -> None:
        self.dirty = 0
        self.flushed: list[int] = []
        self.failures: list[OSError] = []
        self._error = error
        self.flusher = Flusher(ExecutorWorker(), self._begin, finish=self._finish, fail=self._fail)

    def _begin(self) -> FlushOf | None:
        if not self.dirty:
            return None
        task = FlushOf(self.dirty, self._error)
        self.dirty = 0
        return task

    def _finish(self, task: FlushOf) -> None:
        self.flushed.append(task.size)
        self.flusher.wake()

    def _fail(self, task: FlushOf, error: OSError) -> None:
        self.failures.append(error)

    def write(self, size: int) -> None:
        self.dirty += size
        self.flusher.wake()


class FlushOf:
    def __init__(self, size: int, error: OSError | None) -> None:
        self.size = size
        self._error = error

    def run(self) -> None:
        if self._error is not None:
            raise self._error


def run(story: Callable[[], Coroutine[Any, Any, None]]) -> None:
    asyncio.run(story())


def test_writes_during_a_flush_share_the_next_one() -> None:
    async def story() -> None:
        disk = Disk()
        for size in (1, 10, 100):
            disk.write(size)
        await disk.flusher.drain()
        assert disk.flushed == [1, 110]

    run(story)


def test_nothing_dirty_begins_nothing() -> None:
    async def story() -> None:
        disk = Disk()
        disk.flusher.wake()
        await disk.flusher.drain()
        assert disk.flushed == []

    run(story)


def test_failure_is_told_once_and_nothing_is_flushed_after_it() -> None:
    async def story() -> None:
        disk = Disk(error=OSError(5, "EIO"))
        disk.write(1)
        disk.write(2)
        await disk.flusher.drain()
        disk.write(3)
        await disk.flusher.drain()
        assert [error.errno for error in disk.failures] == [5]
        assert disk.flushed == []

    run(story)
