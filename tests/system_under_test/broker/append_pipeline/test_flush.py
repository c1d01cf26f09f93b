"""One flush in flight; whatever comes meanwhile shares the next; a failure ends it; two may keep a distance."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from random import Random
from typing import Any

from staticfire.harness.simulation.disk.disk import SimDisk
from staticfire.system_under_test.broker.append_pipeline.flush import Flusher
from staticfire.system_under_test.runtime.env import File, Worker
from staticfire.system_under_test.runtime.worker import ExecutorWorker
from tests.system_under_test.client.virtual_time import in_virtual_time, now_s


class Disk:
    """A log of `dirty` bytes. A flush task covers what was dirty when it was begun."""

    def __init__(
        self,
        *,
        error: OSError | None = None,
        worker: Worker | None = None,
        distance_s: float = 0.0,
    ) -> None:
        self.dirty = 0
        self.only_synced: File | None = None  # of its tasks
        self.flushed: list[int] = []
        self.failures: list[OSError] = []
        self._error = error
        self.flusher = Flusher(
            worker or ExecutorWorker(),
            self._begin,
            finish=self._finish,
            fail=self._fail,
            distance_s=distance_s,
        )

    def _begin(self) -> FlushOf | None:
        if not self.dirty:
            return None
        task = FlushOf(self.dirty, self._error)
        task.only_synced = self.only_synced
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
        self.only_synced: File | None = None
        self._error = error

    def run(self) -> None:
        if self._error is not None:
            raise self._error


class TimedWorker:
    """Each job takes the same time. `begun_s` are the times when they began."""

    def __init__(self, job_s: float) -> None:
        self._job_s = job_s
        self.begun_s: list[float] = []
        self.only_synced: list[File | None] = []

    def run(
        self,
        job: Callable[[], None],
        done: Callable[[BaseException | None], None],
        *,
        only_synced: File | None = None,
    ) -> None:
        self.begun_s.append(round(now_s(), 6))
        self.only_synced.append(only_synced)
        job()
        asyncio.get_running_loop().call_later(self._job_s, done, None)

    def close(self) -> None:
        pass


def on_a_loop(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    return lambda: asyncio.run(test())


@on_a_loop
async def test_writes_during_a_flush_share_the_next_one() -> None:
    disk = Disk()
    for size in (1, 10, 100):
        disk.write(size)
    await disk.flusher.drain()
    assert disk.flushed == [1, 110]


@on_a_loop
async def test_nothing_dirty_begins_nothing() -> None:
    disk = Disk()
    disk.flusher.wake()
    await disk.flusher.drain()
    assert disk.flushed == []


@on_a_loop
async def test_failure_is_reported_once_and_nothing_is_flushed_after_it() -> None:
    disk = Disk(error=OSError(5, "EIO"))
    disk.write(1)
    disk.write(2)
    await disk.flusher.drain()
    disk.write(3)
    await disk.flusher.drain()
    assert [error.errno for error in disk.failures] == [5]
    assert disk.flushed == []


@in_virtual_time
async def test_two_flushes_keep_their_distance_and_the_first_does_not_wait() -> None:
    worker = TimedWorker(job_s=0.001)
    disk = Disk(worker=worker, distance_s=0.0044)
    for _ in range(10):
        disk.write(1)
        await asyncio.sleep(0.001)
    await asyncio.sleep(1)
    disk.write(100)
    await asyncio.sleep(1)
    assert worker.begun_s == [0, 0.0044, 0.0088, 0.0132, 1.01]
    assert disk.flushed == [1, 4, 4, 1, 100]


@in_virtual_time
async def test_a_flush_that_lasts_longer_than_the_distance_is_followed_at_once() -> None:
    worker = TimedWorker(job_s=0.02)
    disk = Disk(worker=worker, distance_s=0.005)
    disk.write(1)
    await asyncio.sleep(0.001)
    disk.write(2)
    await asyncio.sleep(1)
    assert worker.begun_s == [0, 0.02]
    assert disk.flushed == [1, 2]


@in_virtual_time
async def test_a_drain_does_not_wait_for_the_distance() -> None:
    worker = TimedWorker(job_s=0.001)
    disk = Disk(worker=worker, distance_s=5.0)
    disk.write(1)
    await asyncio.sleep(0.01)
    disk.write(2)
    drain = asyncio.create_task(disk.flusher.drain())
    await asyncio.sleep(0)
    disk.write(4)  # while the flush of the drain is in flight
    await drain
    assert worker.begun_s == [0, 0.01, 0.011]
    assert disk.flushed == [1, 2, 4]


@in_virtual_time
async def test_the_worker_knows_which_file_is_the_only_one_to_be_synced() -> None:
    worker = TimedWorker(job_s=0.001)
    disk = Disk(worker=worker)
    disk.write(1)
    await asyncio.sleep(1)
    storage = SimDisk(random=Random(0), now_ns=lambda: 0, charge=lambda _ns: None)
    disk.only_synced = storage.open("/log", create=True)
    disk.write(1)
    await asyncio.sleep(1)
    assert worker.only_synced == [None, disk.only_synced]


@in_virtual_time
async def test_nothing_is_flushed_after_the_end() -> None:
    worker = TimedWorker(job_s=0.001)
    disk = Disk(worker=worker, distance_s=0.005)
    disk.write(1)
    await asyncio.sleep(0.002)
    disk.write(2)
    disk.flusher.close()
    await asyncio.sleep(1)
    assert disk.flushed == [1]
