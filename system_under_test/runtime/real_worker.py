"""A thread of one's own for one kind of blocking job (RocketMQ: ServiceThread).

Handing a job to asyncio's executor and its result back makes two futures and takes a dozen locks: 50 us a job, which is
what a flush itself costs on a good disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextlib import suppress
from queue import SimpleQueue
from threading import Thread

__all__ = ["RealWorker"]

Job = Callable[[], None]
Done = Callable[[BaseException | None], None]


class RealWorker:
    """Runs jobs one after the other. The thread begins with the first job, and never keeps a process from ending."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._jobs: SimpleQueue[tuple[Job, Done] | None] = SimpleQueue()
        self._thread: Thread | None = None

    def run(self, job: Job, done: Done) -> None:
        """See Worker."""
        if self._thread is None:
            self._thread = Thread(
                target=_work,
                args=(self._jobs, asyncio.get_running_loop()),
                name=self._name,
                daemon=True,
            )
            self._thread.start()
        self._jobs.put((job, done))

    def close(self) -> None:
        """See Worker."""
        self._jobs.put(None)


def _work(jobs: SimpleQueue[tuple[Job, Done] | None], loop: asyncio.AbstractEventLoop) -> None:
    while (next_job := jobs.get()) is not None:
        job, done = next_job
        error: BaseException | None = None
        try:
            job()
        except BaseException as raised:  # whatever it is, the loop has to know
            error = raised
        with suppress(RuntimeError):  # the loop is closed: no caller waits any more
            loop.call_soon_threadsafe(done, error)
