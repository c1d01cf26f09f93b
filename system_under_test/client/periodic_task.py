"""Runs a job at an interval, and at once when woken.

In Java one uncaught exception silently ends a scheduled job (RocketMQ issue #3861). Here it is logged, and the job runs
again.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Log


class PeriodicTask:
    """One job, never twice at the same time. Wakes during a round cause one more round afterwards.

    Args:
        interval_s: called before each pause, so that the interval can change.
    """

    def __init__(
        self,
        log: Log,
        name: str,
        action: Callable[[], Awaitable[None]],
        interval_s: Callable[[], float],
    ) -> None:
        self._log = log
        self._name = name
        self._action = action
        self._interval_s = interval_s
        self._is_woken = False
        self._pause: asyncio.Future[None] | None = None
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start; the first round comes after one interval, or when woken."""
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run())

    def wake(self) -> None:
        self._is_woken = True
        self._end_pause()

    async def stop(self) -> None:
        """Stop; no round runs after this has returned."""
        task, self._task = self._task, None
        if task is not None:
            await end_tasks([task])

    async def _run(self) -> None:
        while True:
            await self._wait()
            try:
                await self._action()
            except Exception as error:
                self._log.warning("periodic job failed", job=self._name, error=repr(error))

    async def _wait(self) -> None:
        if not self._is_woken:
            loop = asyncio.get_running_loop()
            self._pause = loop.create_future()
            timer = loop.call_later(self._interval_s(), self._end_pause)
            try:
                await self._pause
            finally:
                timer.cancel()
        self._is_woken = False

    def _end_pause(self) -> None:
        if self._pause is not None and not self._pause.done():
            self._pause.set_result(None)
