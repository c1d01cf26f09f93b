"""Jobs of run_in_executor: each runs atomically at a seeded instant, and its charges delay its completion.

Until then a disk fault may delay it further, or run it again so that it meets an error (`disk/calls.py`).
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import Context
from typing import Any

from staticfire.harness.simulation.disk.disk import PowerCut
from staticfire.harness.simulation.scheduling.handles import SimHandle
from staticfire.harness.simulation.scheduling.run_queue import RunQueue


class ExecutorJob:
    """One call in a thread of the process. The end or a pause of the process stops it, too."""

    __slots__ = (
        "_arguments",
        "_context",
        "_delay_ns",
        "_due_ns",
        "_function",
        "_next",
        "_owner",
        "future",
    )

    def __init__(
        self,
        owner: RunQueue,
        function: Callable[..., object],
        arguments: tuple[object, ...],
        context: Context,
        future: asyncio.Future[object],
        delay_ns: int,
    ) -> None:
        self._owner = owner
        self._function = function
        self._arguments = arguments
        self._context = context
        self._delay_ns = (
            delay_ns  # to the thread's first instruction, and from its last one to the loop
        )
        self._due_ns = -1
        self._next: Callable[[], None] = self._run
        self.future = future

    def submit(self) -> None:
        self._at(self._owner.scheduler.local_ns() + self._delay_ns, self._run)

    def put_off(self, by_ns: int) -> None:
        """Implements `Call` of `disk/calls.py`."""
        self._at(self._due_ns + by_ns, self._next)

    def run_again(self, when_ns: int) -> None:
        """Implements `Call` of `disk/calls.py`."""
        self._at(when_ns, self._run)

    def _at(self, when_ns: int, action: Callable[[], None]) -> None:
        """Schedule `action` at `when_ns` as the next step, in place of the one scheduled before."""
        self._due_ns, self._next = when_ns, action
        self._owner.scheduler.at(when_ns, self._arrive, when_ns)

    def _arrive(self, due_ns: int) -> None:
        if due_ns == self._due_ns:
            self._due_ns = -1
            self._next()

    def _run(self) -> None:
        owner = self._owner
        if not owner.alive or self.future.cancelled():
            return
        if owner.paused:
            owner.parked.append(self.submit)
            return
        result: object = None
        error: BaseException | None = None
        owner.scheduler.job = self
        try:
            result = self._context.run(self._function, *self._arguments)
        except PowerCut:
            owner.scheduler.debt_ns = 0
            return
        except (KeyboardInterrupt, SystemExit):
            raise
        except BaseException as raised:  # as concurrent.futures.thread._WorkItem.run does
            # Without this frame: it holds the future that will hold the error, a cycle that is not collected at once.
            error = raised.with_traceback(raised.__traceback__ and raised.__traceback__.tb_next)
        finally:
            owner.scheduler.job = None
        self._finish_later(result, error)

    def _finish_later(self, result: object, error: BaseException | None) -> None:
        owner, scheduler = self._owner, self._owner.scheduler
        cost_ns, scheduler.debt_ns = scheduler.debt_ns, 0
        handle = SimHandle(settle, (self.future, result, error), self._context)
        due_ns = scheduler.now_ns + cost_ns + self._delay_ns
        self._at(due_ns, lambda: owner.enqueue(handle))


def settle(future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
    """Set the outcome of `future`, unless it was cancelled meanwhile."""
    if future.done():
        return
    if error is None:
        future.set_result(result)
    else:
        future.set_exception(error)
