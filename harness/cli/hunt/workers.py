"""Workers that run the seeds of a hunt in this process or in several. `spark_workers.py` has those on Spark."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from multiprocessing.connection import wait
from typing import NamedTuple, Protocol

from staticfire.harness.cli.hunt import seeds
from staticfire.harness.cli.hunt.seeds import Judging, SeedResult, failed_seed
from staticfire.harness.cli.progress import begin_shown
from staticfire.harness.worker_processes import WatchedWorker, WorkerLost


class Task(NamedTuple):
    """A seed to run."""

    seed: int
    given: dict[str, object]  # options of its campaign
    judging: Judging


class Workers(Protocol):
    """The interface of workers, which carry out seeds."""

    def results(self, tasks: Sequence[Task]) -> Iterator[SeedResult]:
        """Yield a result for each task, as they come; also for a seed that cannot be carried out."""


@contextmanager
def workers_here(jobs: int, limit_s: float | None = None) -> Iterator[Workers]:
    """Return workers on this machine. A single job without a limit runs in this process.

    Args:
        limit_s: wall time for a seed; None: no limit.
    """
    if jobs == 1 and limit_s is None:
        yield _InThisProcess()
        return
    watched = [WatchedWorker(_run, limit_s) for _ in range(jobs)]
    try:
        yield _Processes(watched)
    finally:
        for worker in watched:
            worker.end()


def carry_out(worker: WatchedWorker, task: Task) -> SeedResult:
    """Have a worker run one seed, and wait for it."""
    worker.begin(*task)
    return _result(worker, task)


def watched_worker(limit_s: float | None) -> WatchedWorker:
    """Return a process for `carry_out`."""
    return WatchedWorker(_run, limit_s)


class _InThisProcess:
    def results(self, tasks: Sequence[Task]) -> Iterator[SeedResult]:
        yield from map(_run_task, tasks)


class _Processes:
    def __init__(self, workers: Sequence[WatchedWorker]) -> None:
        self._idle = list(workers)

    def results(self, tasks: Sequence[Task]) -> Iterator[SeedResult]:
        left, busy = deque(tasks), dict[WatchedWorker, Task]()
        while left or busy:
            while left and self._idle:
                worker, task = self._idle.pop(), left.popleft()
                worker.begin(*task)
                busy[worker] = task
            begin_shown()
            for worker in _ended(busy):
                result = _result(worker, busy.pop(worker))
                self._idle.append(worker)
                yield result


def _ended(busy: dict[WatchedWorker, Task]) -> list[WatchedWorker]:
    """Wait for workers that end, or whose time is over; return them."""
    of = {handle: worker for worker in busy for handle in worker.waits_for}
    limits = [left_s for worker in busy if (left_s := worker.left_s) is not None]
    ready = {of[handle] for handle in wait(list(of), min(limits, default=None))}  # type: ignore[index]
    return [worker for worker in busy if worker in ready or worker.left_s == 0.0]


def _result(worker: WatchedWorker, task: Task) -> SeedResult:
    try:
        result: SeedResult = worker.result()
    except WorkerLost as error:
        return failed_seed(task.seed, task.given, str(error))
    return result


def _run_task(task: Task) -> SeedResult:
    return seeds.run_seed(*task)


def _run(seed: int, given: dict[str, object], judging: Judging) -> SeedResult:
    return seeds.run_seed(seed, given, judging)
