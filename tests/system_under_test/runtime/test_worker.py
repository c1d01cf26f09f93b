"""The contract of a Worker, in every implementation; a thread of its own starts late and ends."""

from __future__ import annotations

import asyncio
import gc
import os
import threading
from collections.abc import Callable
from functools import partial

import pytest

from staticfire.system_under_test.runtime.env import Worker
from staticfire.system_under_test.runtime.real_worker import RealWorker
from staticfire.system_under_test.runtime.worker import ExecutorWorker
from tests.system_under_test.store.store_on_disk import SilentLog


def make_real_worker() -> Worker:
    return RealWorker("test worker", SilentLog())


BOTH = pytest.mark.parametrize("make", [make_real_worker, ExecutorWorker])


def thread_count() -> int:
    return sum(thread.name == "test worker" for thread in threading.enumerate())


def wait_for(event: threading.Event) -> None:
    event.wait(10)


async def outcome(worker: Worker, job: Callable[[], None]) -> BaseException | None:
    """Wait for a job; `done` must be called in the loop's thread."""
    future: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    here = threading.get_ident()

    def done(error: BaseException | None) -> None:
        assert threading.get_ident() == here
        future.set_result(error)

    worker.run(job, done)
    return await future


@BOTH
def test_a_job_runs_elsewhere_and_its_end_is_reported_here(make: Callable[[], Worker]) -> None:
    threads: list[int] = []

    async def story() -> None:
        worker = make()
        assert await outcome(worker, lambda: threads.append(threading.get_ident())) is None
        worker.close()

    asyncio.run(story())
    assert len(threads) == 1
    assert threads != [threading.get_ident()]


@BOTH
def test_what_a_job_raises_is_reported_and_the_next_one_runs(make: Callable[[], Worker]) -> None:
    def fail() -> None:
        raise OSError(5, "EIO")

    async def story() -> None:
        worker = make()
        error = await outcome(worker, fail)
        assert isinstance(error, OSError)
        assert error.errno == 5
        assert await outcome(worker, lambda: None) is None
        worker.close()

    asyncio.run(story())


def test_a_thread_does_its_jobs_in_order_and_ends_after_them() -> None:
    done: list[int] = []

    async def story() -> None:
        worker = RealWorker("test worker", SilentLog())
        assert thread_count() == 0
        for number in range(20):
            worker.run(partial(done.append, number), lambda _error: None)
        await outcome(worker, lambda: None)
        assert thread_count() == 1
        worker.close()
        while thread_count():
            await asyncio.sleep(0)

    asyncio.run(story())
    assert done == list(range(20))


def test_a_loop_that_is_closed_meanwhile_gets_no_report() -> None:
    may_end = threading.Event()

    async def story() -> None:
        worker = RealWorker("test worker", SilentLog())
        worker.run(lambda: wait_for(may_end), lambda _error: None)
        worker.close()

    asyncio.run(story())
    may_end.set()
    for thread in threading.enumerate():
        if thread.name == "test worker":
            thread.join(10)
    assert thread_count() == 0


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


def test_a_worker_leaves_no_descriptor_open() -> None:
    gc.collect()  # what other tests have left would be closed in between
    before = open_descriptors()

    async def story(turns: int) -> None:
        worker = RealWorker("test worker", SilentLog())
        await outcome(worker, lambda: None)
        worker.close()
        while turns and thread_count():
            await asyncio.sleep(0)
        for _ in range(turns):
            await asyncio.sleep(0)

    for turns in (0, 2):  # the loop ends before the thread, and after it
        asyncio.run(story(turns))
        while thread_count():
            pass
        gc.collect()
        assert open_descriptors() == before


def test_what_one_end_raises_does_not_keep_the_next_from_its_report() -> None:
    heard: list[dict[str, object]] = []

    async def story() -> None:
        asyncio.get_running_loop().set_exception_handler(
            lambda _loop, reported: heard.append(reported)
        )
        worker = RealWorker("test worker", SilentLog())

        def fail(_error: BaseException | None) -> None:
            raise ZeroDivisionError

        worker.run(lambda: None, fail)
        assert await outcome(worker, lambda: None) is None
        worker.close()

    asyncio.run(story())
    assert [type(reported["exception"]) for reported in heard] == [ZeroDivisionError]


def test_closing_what_never_ran_begins_nothing() -> None:
    RealWorker("idle worker", SilentLog()).close()  # the threads of other tests may be about to end
    assert "idle worker" not in [thread.name for thread in threading.enumerate()]
