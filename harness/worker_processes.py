"""Worker processes, which carry out parts of a command."""

from __future__ import annotations

import multiprocessing
import multiprocessing.connection
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from contextlib import contextmanager
from itertools import islice
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from types import TracebackType
from typing import Any, ParamSpec, TypeVar

EXIT_WITHOUT_PARENT = 255
SIGNALS = (signal.SIGINT, signal.SIGTERM)
P = ParamSpec("P")
A = TypeVar("A")
T = TypeVar("T")


class WorkerPool(ProcessPoolExecutor):
    """A pool of processes, forked at the first task or, with `prepare`, started as new interpreters.

    They ignore Ctrl-C and SIGTERM, which the command handles, and end with the command. `end`, or an exception that
    leaves the `with` statement, kills them.
    """

    def __init__(self, jobs: int, prepare: Callable[[], None] | None = None) -> None:
        """Make the pool; no process is started yet.

        Args:
            jobs: number of processes.
            prepare: called in each process before it imports anything else of ours; then none is forked.
        """
        self._jobs = jobs
        context = multiprocessing.get_context("spawn" if prepare else "fork")
        super().__init__(jobs, mp_context=context, initializer=_begin, initargs=(prepare,))

    def submit(self, fn: Callable[P, T], /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        with _signals_held():
            return super().submit(fn, *args, **kwargs)

    def results(self, call: Callable[[A], T], tasks: Iterable[A]) -> Iterator[T]:
        """Yield the result of each task as it comes. Few tasks are queued at a time.

        Raises any exception of `call`, and BrokenProcessPool.
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
        """End the processes without waiting for tasks under way."""
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


def ended_futures(futures: Iterable[Future[T]], until: float) -> Iterator[Future[T]]:
    """Yield futures as they end, up to a time of `time.monotonic`."""
    left = set(futures)
    while left and (left_s := until - time.monotonic()) > 0:
        done, left = wait(left, timeout=left_s, return_when=FIRST_COMPLETED)
        yield from done


class WorkerLost(Exception):
    """A call has no result; the text is one sentence with the reason."""


class WatchedWorker:
    """A forked process that carries out one call after the other. It is replaced if it ends or takes too long.

    Args:
        call: the function to call; it must not raise.
        limit_s: wall time allowed for a call; None: no bound.
    """

    def __init__(self, call: Callable[..., object], limit_s: float | None = None) -> None:
        self._call, self._limit_s = call, limit_s
        self._process: BaseProcess | None = None
        self._pipe: Connection | None = None
        self._ends_s: float | None = None

    def begin(self, *arguments: Any) -> None:
        """Begin a call. The previous one must have ended."""
        if self._process is not None and not self._process.is_alive():
            self.end()
        if self._process is None:
            self._fork()
        self._ends_s = None if self._limit_s is None else time.monotonic() + self._limit_s
        try:
            self._sends(arguments)
        except OSError:  # it was killed after its last result
            self.end()
            self._fork()
            self._sends(arguments)

    def _sends(self, arguments: tuple[object, ...]) -> None:
        assert self._pipe is not None
        self._pipe.send(arguments)

    @property
    def waits_for(self) -> tuple[Connection, int]:
        """Return arguments of `multiprocessing.connection.wait`, one of which is ready once the call has ended."""
        assert self._pipe is not None
        assert self._process is not None
        return self._pipe, self._process.sentinel

    @property
    def left_s(self) -> float | None:
        """Return the rest of the call's time, in seconds."""
        return None if self._ends_s is None else max(0.0, self._ends_s - time.monotonic())

    def result(self) -> Any:
        """Wait for the call; return its result. Raises WorkerLost."""
        pipe, sentinel = self.waits_for
        ready = multiprocessing.connection.wait([pipe, sentinel], self.left_s)
        try:
            if pipe in ready or pipe.poll():
                return pipe.recv()
        except EOFError:
            pass
        reason = self._reason() if ready else f"it took more than {self._limit_s:g} s"
        self.end()
        raise WorkerLost(reason)

    def end(self) -> None:
        """End the process without waiting for a call under way."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            process.join()
        if self._pipe is not None:
            self._pipe.close()

    def _reason(self) -> str:
        assert self._process is not None
        self._process.join()
        code = self._process.exitcode or 0
        if code < 0:
            return f"its process was ended by {signal.Signals(-code).name}"
        return f"its process ended with status {code}"

    def _fork(self) -> None:
        context = multiprocessing.get_context("fork")
        self._pipe, theirs = context.Pipe()
        process = context.Process(target=_serve, args=(self._call, theirs), daemon=True)
        with _signals_held():
            process.start()
            self._process = process
        theirs.close()


def _serve(call: Callable[..., object], pipe: Connection) -> None:
    _begin()
    while True:
        pipe.send(call(*pipe.recv()))


@contextmanager
def _signals_held() -> Iterator[None]:
    """Delay signals until after a fork, since Python drops exceptions in its hooks around a fork."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _begin(prepare: Callable[[], None] | None = None) -> None:
    if prepare is not None:
        prepare()
    for number in SIGNALS:
        signal.signal(number, signal.SIG_IGN)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)
    parent = multiprocessing.parent_process()
    assert parent is not None
    threading.Thread(target=_end_with, args=(parent,), daemon=True).start()


def _end_with(parent: BaseProcess) -> None:
    parent.join()
    os._exit(EXIT_WITHOUT_PARENT)
