"""A dedicated thread for one kind of blocking job (RocketMQ: ServiceThread); the kernel, if a job only syncs a file.

asyncio's executor makes two futures and takes a dozen locks for each job: 50 us, which is what a flush itself costs on
a good disk. The thread announces results through its own pipe, because `call_soon_threadsafe` wakes the loop through a
socket with three system calls, one of which fails.
"""

from __future__ import annotations

import asyncio
import os
from collections import deque
from collections.abc import Callable
from queue import SimpleQueue
from threading import Thread

from staticfire.system_under_test.runtime.env import File, Log
from staticfire.system_under_test.runtime.io_uring import NOT_TRIED, IoUring
from staticfire.system_under_test.runtime.real_file import RealFile

Job = Callable[[], None]
Done = Callable[[BaseException | None], None]


class RealWorker:
    """Runs one job at a time. The first job starts the thread, which never keeps a process from ending.

    Jobs that only sync one file need no thread where the kernel has io_uring; many containers do not allow it.
    """

    def __init__(self, name: str, log: Log) -> None:
        self._name = name
        self._log = log
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._has_thread = False
        self._ring: IoUring | None = None
        self._may_have_ring = True

    def run(self, job: Job, done: Done, *, only_synced: File | None = None) -> None:
        """See Worker."""
        if not isinstance(only_synced, RealFile) or not self._is_taken(only_synced, job, done):
            self._run_in_thread(job, done)

    def _run_in_thread(self, job: Job, done: Done) -> None:
        if not self._has_thread:
            self._has_thread = True
            ended = _Ended(asyncio.get_running_loop())
            Thread(target=_work, args=(self._jobs, ended), name=self._name, daemon=True).start()
        self._jobs.put((job, done))

    def _is_taken(self, file: RealFile, job: Job, done: Done) -> bool:
        """Whether the kernel syncs the file and reports the end to `done`; otherwise the thread has to."""

        def ended(error: BaseException | None) -> None:
            if isinstance(error, OSError) and error.errno in NOT_TRIED:
                self._drop_ring(error)
                self._run_in_thread(job, done)
            else:
                done(error)

        if self._ring is None and self._may_have_ring:
            self._may_have_ring = False
            try:
                self._ring = IoUring(asyncio.get_running_loop())
            except OSError as error:
                self._log.info("a thread syncs", error=str(error))
            else:
                self._log.info("io_uring syncs")
        if self._ring is None:
            return False
        try:
            self._ring.fdatasync(file.fileno(), ended)
        except OSError:  # the kernel has no memory for the call
            return False
        return True

    def _drop_ring(self, error: OSError) -> None:
        if self._ring is not None:
            self._ring.close()
            self._ring = None
            self._log.warning("io_uring does not sync, a thread does", error=str(error))

    def close(self) -> None:
        """See Worker."""
        self._jobs.put(None)
        if self._ring is not None:
            self._ring.close()


class _Ended:
    """Queue of finished jobs: the thread adds them, the loop takes them, and a pipe holds one byte for each."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._results: deque[tuple[Done, BaseException | None]] = deque()
        self._read_end, self._write_end = os.pipe()
        loop.add_reader(self._read_end, self._take)

    def add(self, done: Done, error: BaseException | None) -> None:
        self._results.append((done, error))
        os.write(self._write_end, b"\0")

    def no_more(self) -> None:
        """Called by the thread when it ends."""
        os.close(self._write_end)

    def _take(self) -> None:
        # one at a time: an error in `done` must not affect the others
        if os.read(self._read_end, 1):
            done, error = self._results.popleft()
            done(error)
        else:
            self._loop.remove_reader(self._read_end)

    def __del__(self) -> None:
        """Runs when neither the thread nor the loop refers to this object any more; the loop may have ended first."""
        os.close(self._read_end)


def _work(jobs: SimpleQueue[tuple[Job, Done] | None], ended: _Ended) -> None:
    while (next_job := jobs.get()) is not None:
        job, done = next_job
        error: BaseException | None = None
        try:
            job()
        except BaseException as raised:  # `done` passes it on in the loop
            error = raised
        ended.add(done, error)
    ended.no_more()
