"""Syncs by the kernel's io_uring, on this machine's kernel."""

from __future__ import annotations

import asyncio
import errno
import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from staticfire.system_under_test.runtime import io_uring
from staticfire.system_under_test.runtime.io_uring import IoUring
from staticfire.system_under_test.runtime.real_env import RealStorage
from staticfire.system_under_test.runtime.real_file import RealFile
from staticfire.system_under_test.runtime.real_worker import RealWorker


def has_io_uring() -> bool:
    async def try_it() -> None:
        IoUring(asyncio.get_running_loop()).close()

    try:
        asyncio.run(try_it())
    except OSError:
        return False
    return True


NEEDS_RING = pytest.mark.skipif(
    not has_io_uring(), reason="this kernel or container has no io_uring"
)


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RealFile]:
    file = RealStorage().open(str(tmp_path / "file"), create=True)
    assert isinstance(file, RealFile)
    yield file
    file.close()


async def outcome(ring: IoUring, descriptor: int) -> BaseException | None:
    future: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    ring.fdatasync(descriptor, future.set_result)
    return await future


@NEEDS_RING
def test_many_syncs_end_one_after_the_other(file: RealFile) -> None:
    async def story() -> None:
        ring = IoUring(asyncio.get_running_loop())
        for number in range(10):  # more than the ring has entries
            file.pwrite(b"record", 6 * number)
            assert await outcome(ring, file.fileno()) is None
        ring.close()

    asyncio.run(story())


@NEEDS_RING
def test_the_error_is_that_of_fdatasync(file: RealFile) -> None:
    async def story() -> None:
        ring = IoUring(asyncio.get_running_loop())
        reading, writing = os.pipe()
        for descriptor, expected in ((reading, errno.EINVAL), (1 << 20, errno.EBADF)):
            with pytest.raises(OSError, match=os.strerror(expected)):
                os.fdatasync(descriptor)
            error = await outcome(ring, descriptor)
            assert isinstance(error, OSError)
            assert (error.errno, error.strerror) == (expected, os.strerror(expected))
        os.close(reading)
        os.close(writing)
        assert await outcome(ring, file.fileno()) is None  # an error leaves nothing behind
        ring.close()

    asyncio.run(story())


@NEEDS_RING
def test_a_call_that_the_kernel_does_not_take_leaves_nothing_behind(
    file: RealFile, monkeypatch: pytest.MonkeyPatch
) -> None:
    def busy(*_arguments: object) -> int:
        raise OSError(errno.EAGAIN, "busy")

    async def story() -> None:
        ring = IoUring(asyncio.get_running_loop())
        with monkeypatch.context() as patch:
            patch.setattr(ring, "_enter", busy)
            with pytest.raises(OSError, match="busy"):
                ring.fdatasync(file.fileno(), lambda _error: pytest.fail("reported"))
        assert await outcome(ring, file.fileno()) is None
        ring.close()

    asyncio.run(story())


@NEEDS_RING
def test_a_call_in_flight_is_reported_after_close(file: RealFile) -> None:
    async def story() -> None:
        loop = asyncio.get_running_loop()
        ring = IoUring(loop)
        future: asyncio.Future[BaseException | None] = loop.create_future()
        ring.fdatasync(file.fileno(), future.set_result)
        ring.close()
        assert await future is None
        assert not loop.remove_reader(ring._descriptor)

    asyncio.run(story())


def sync_in(worker: RealWorker, file: RealFile) -> asyncio.Future[str]:
    """Let the worker sync the file; the result is the name of the thread that did, or "kernel"."""
    threads: list[str] = []
    future: asyncio.Future[str] = asyncio.get_running_loop().create_future()

    def job() -> None:
        threads.append(threading.current_thread().name)
        file.fdatasync()

    def done(error: BaseException | None) -> None:
        assert error is None
        future.set_result(threads[0] if threads else "kernel")

    worker.run(job, done, only_synced=file)
    return future


@NEEDS_RING
def test_a_worker_lets_the_kernel_sync_one_file(file: RealFile) -> None:
    async def story() -> None:
        worker = RealWorker("test ring")
        assert [await sync_in(worker, file) for _ in range(3)] == ["kernel"] * 3
        worker.close()

    asyncio.run(story())


def test_without_io_uring_a_thread_syncs(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_uring, "_SYS_IO_URING_SETUP", 1 << 20)  # a call that no kernel has

    async def story() -> None:
        worker = RealWorker("test thread")
        assert [await sync_in(worker, file) for _ in range(3)] == ["test thread"] * 3
        worker.close()

    asyncio.run(story())


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


@pytest.mark.parametrize("has_ring", [pytest.param(True, marks=NEEDS_RING), False])
def test_no_descriptor_is_left_open(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, has_ring: bool
) -> None:
    if not has_ring:
        monkeypatch.setattr(io_uring, "_SYS_IO_URING_SETUP", 1 << 20)

    async def story(is_awaited: bool) -> None:
        worker = RealWorker("test descriptors")
        future = sync_in(worker, file)
        if is_awaited:
            await future
        worker.close()

    before = open_descriptors()
    for is_awaited in (True, False):  # without it, the loop ends before the call
        asyncio.run(story(is_awaited))
        for thread in threading.enumerate():
            if thread.name == "test descriptors":
                thread.join(10)
        assert open_descriptors() == before
