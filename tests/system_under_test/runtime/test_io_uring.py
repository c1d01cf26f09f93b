"""Syncs by the kernel's io_uring, on this machine's kernel."""

from __future__ import annotations

import asyncio
import errno
import gc
import os
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from staticfire.system_under_test.runtime import io_uring
from staticfire.system_under_test.runtime.io_uring import IoUring
from staticfire.system_under_test.runtime.real_env import RealStorage
from staticfire.system_under_test.runtime.real_file import RealFile
from staticfire.system_under_test.runtime.real_worker import RealWorker
from tests.support.io_uring_here import NEEDS_RING
from tests.system_under_test.store.store_on_disk import SilentLog


@pytest.fixture
def file(tmp_path: Path) -> Iterator[RealFile]:
    file = RealStorage().open(str(tmp_path / "file"), create=True)
    assert isinstance(file, RealFile)
    yield file
    file.close()


def open_descriptors() -> int:
    return len(os.listdir("/dev/fd"))


async def outcome(ring: IoUring, descriptor: int) -> BaseException | None:
    future: asyncio.Future[BaseException | None] = asyncio.get_running_loop().create_future()
    ring.fdatasync(descriptor, future.set_result)
    return await asyncio.wait_for(future, 10)


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
        with pytest.raises(OSError, match="Invalid argument"):
            os.fdatasync(reading)
        error = await outcome(ring, reading)
        assert isinstance(error, OSError)
        assert (error.errno, error.strerror) == (errno.EINVAL, "Invalid argument")
        with pytest.raises(OSError, match="Bad file descriptor"):
            await outcome(ring, 1 << 20)
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
            for answer in (busy, lambda *_arguments: 0):
                patch.setattr(ring, "_enter", answer)
                tail, descriptors = ring._words[ring._sq_tail], open_descriptors()
                with pytest.raises(OSError, match=r"busy|has not taken"):
                    ring.fdatasync(file.fileno(), lambda _error: pytest.fail("reported"))
                assert ring._words[ring._sq_tail] == tail
                assert open_descriptors() == descriptors
        assert await outcome(ring, file.fileno()) is None
        ring.close()

    asyncio.run(story())


@NEEDS_RING
def test_the_call_is_fdatasync(file: RealFile) -> None:
    """linux/io_uring.h: opcode at 0, fd at 4, fsync_flags at 28."""

    async def story() -> None:
        ring = IoUring(asyncio.get_running_loop())
        assert await outcome(ring, file.fileno()) is None
        call = ring._slot[:64]
        expected = bytearray(64)
        expected[0], expected[28] = 3, 1
        expected[4:8] = call[4:8]
        assert call == expected
        ring.close()

    asyncio.run(story())


@NEEDS_RING
def test_a_file_that_is_closed_in_flight_is_the_one_that_is_synced(tmp_path: Path) -> None:
    """The kernel looks its number up late, when it may be that of a pipe, which cannot be synced."""

    async def story() -> None:
        ring = IoUring(asyncio.get_running_loop())
        for number in range(20):
            file = os.open(tmp_path / "file", os.O_CREAT | os.O_RDWR)
            os.pwrite(file, b"record", 6 * number)
            synced = asyncio.ensure_future(outcome(ring, file))
            await asyncio.sleep(0)
            os.close(file)
            pipe = os.pipe()
            assert file in pipe
            assert await synced is None
            for end in pipe:
                os.close(end)
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
    asyncio.get_running_loop().call_later(10, future.cancel)
    return future


@NEEDS_RING
def test_a_worker_lets_the_kernel_sync_one_file(file: RealFile) -> None:
    async def story() -> None:
        worker = RealWorker("test ring", SilentLog())
        assert [await sync_in(worker, file) for _ in range(3)] == ["kernel"] * 3
        worker.close()

    asyncio.run(story())


@NEEDS_RING
@pytest.mark.parametrize("error", [errno.ECANCELED, errno.EAGAIN, errno.EINTR])
def test_a_thread_does_what_the_kernel_has_not_tried(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, error: int
) -> None:
    """As with a limit of processes: the kernel has no thread for the call."""

    def cancelled(
        self: IoUring, descriptor: int, done: Callable[[BaseException | None], None]
    ) -> None:
        asyncio.get_running_loop().call_soon(done, OSError(error, os.strerror(error)))

    async def story() -> None:
        worker = RealWorker("test limit", SilentLog())
        with monkeypatch.context() as patch:
            patch.setattr(IoUring, "fdatasync", cancelled)
            assert await sync_in(worker, file) == "test limit"
        assert await sync_in(worker, file) == "test limit"
        worker.close()

    asyncio.run(story())


def test_without_io_uring_a_thread_syncs(file: RealFile, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(io_uring, "_SYS_IO_URING_SETUP", 1 << 20)  # a call that no kernel has

    async def story() -> None:
        worker = RealWorker("test thread", SilentLog())
        assert [await sync_in(worker, file) for _ in range(3)] == ["test thread"] * 3
        worker.close()

    asyncio.run(story())


@pytest.mark.parametrize("has_ring", [pytest.param(True, marks=NEEDS_RING), False])
def test_no_descriptor_is_left_open(
    file: RealFile, monkeypatch: pytest.MonkeyPatch, has_ring: bool
) -> None:
    if not has_ring:
        monkeypatch.setattr(io_uring, "_SYS_IO_URING_SETUP", 1 << 20)

    async def story(is_awaited: bool) -> None:
        worker = RealWorker("test descriptors", SilentLog())
        future = sync_in(worker, file)
        if is_awaited:
            await future
        worker.close()

    gc.collect()  # what other tests have left would be closed in between
    before = open_descriptors()
    for is_awaited in (True, False):  # without it, the loop ends before the call
        asyncio.run(story(is_awaited))
        for thread in threading.enumerate():
            if thread.name == "test descriptors":
                thread.join(10)
        gc.collect()
        assert open_descriptors() == before
