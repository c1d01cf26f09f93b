"""Runs jobs at an interval, and goes on after an exception (RocketMQ, ScheduledExecutorService jobs).

In Java one uncaught exception silently ends a scheduled job. Here it is logged, and the job runs again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Log


class PeriodicJob:
    """A synchronous job on a timer, without a task of its own. It calls `interval_s` before each wait."""

    def __init__(
        self, log: Log, name: str, interval_s: Callable[[], float], job: Callable[[], None]
    ) -> None:
        self._log = log
        self._name = name
        self._interval_s = interval_s
        self._job = job
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        self._timer = asyncio.get_running_loop().call_later(self._interval_s(), self._run)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _run(self) -> None:
        self.start()
        try:
            self._job()
        except Exception as error:
            self._log.error("periodic job failed", job=self._name, error=repr(error))


class Schedule:
    """All periodic jobs of one node, stopped together."""

    def __init__(self, log: Log) -> None:
        self._log = log
        self._jobs: list[PeriodicJob] = []
        self._tasks: list[asyncio.Task[None]] = []

    def call(self, name: str, interval_s: float, job: Callable[[], None]) -> None:
        """Run a synchronous job every `interval_s`."""
        self.call_after(name, lambda: interval_s, job)

    def call_after(
        self, name: str, interval_s: Callable[[], float], job: Callable[[], None]
    ) -> None:
        """Run a synchronous job at an interval that may change."""
        periodic = PeriodicJob(self._log, name, interval_s, job)
        periodic.start()
        self._jobs.append(periodic)

    def await_job(
        self,
        name: str,
        interval_s: float,
        job: Callable[[], Awaitable[None]],
        *,
        first_s: float,
    ) -> None:
        """Await a job every `interval_s`, first after `first_s`."""
        work = _repeat(self._log, name, interval_s, job, first_s=first_s)
        self._tasks.append(asyncio.get_running_loop().create_task(work))

    async def stop(self) -> None:
        """Stop all jobs; none runs after this has returned."""
        for job in self._jobs:
            job.stop()
        await end_tasks(self._tasks)


async def _repeat(
    log: Log, name: str, interval_s: float, job: Callable[[], Awaitable[None]], *, first_s: float
) -> None:
    """Await `job` every `interval_s`, first after `first_s`, until cancelled."""
    delay_s = first_s
    while True:
        await asyncio.sleep(delay_s)
        delay_s = interval_s
        try:
            await job()
        except Exception as error:
            log.warning("periodic job failed", job=name, error=repr(error))
