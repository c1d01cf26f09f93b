"""Processes that do parts of a command."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import ParamSpec, TypeVar

EXIT_WITHOUT_PARENT = 255
SIGNALS = (signal.SIGINT, signal.SIGTERM)
P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")


class WorkerPool(ProcessPoolExecutor):
    """Forked processes, which begin with the first task.

    They ignore Ctrl-C and SIGTERM, which are for the command, and end with it. `end`, or an exception that leaves the
    `with` statement, kills them.
    """

    def __init__(self, jobs: int) -> None:
        """`jobs`: how many processes."""
        self._jobs = jobs
        context = multiprocessing.get_context("fork")
        super().__init__(jobs, mp_context=context, initializer=_begin)

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with _signals_held():
            return super().submit(fn, *args, **kwargs)

    def results(self, call: Callable[[A], T], tasks: Iterable[A]) -> Iterator[T]:
        """The result of each task as it comes. Few tasks wait at a time.

        Raises what `call` raises, and BrokenProcessPool.
        """
        left, under_way = iter(tasks), set[Future[T]]()
        while True:
            free = 2 * self._jobs - len(under_way)
            under_way |= {self.submit(call, task) for task in islice(left, free)}
            if not under_way:
                return
            done, under_way = wait(under_way, return_when=FIRST_COMPLETED)
            for future in done:
                yield future.result()

    def end(self) -> None:
        """Tasks under way are not waited for."""
        for worker in list((self._processes or {}).values()):
            worker.kill()
        self.shutdown(cancel_futures=True)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> bool | None:
        if kind is not None:
            self.end()
        return super().__exit__(kind, error, traceback)


@contextmanager
def _signals_held() -> Iterator[None]:
    """A signal that comes meanwhile is taken afterwards: Python drops exceptions in what it calls around a fork."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin() -> None:
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(EXIT_WITHOUT_PARENT)
