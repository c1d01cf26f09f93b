"""Tasks and futures that hash by creation number, so that a set of them has the same order in every run.

asyncio keeps tasks in sets (`wait`, `as_completed`, `TaskGroup`), and the inherited hash is the address: the order in
which a failing TaskGroup cancels its children would differ from run to run.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from contextlib import suppress
from contextvars import Context
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.harness.simulation.scheduling.run_queue import RunQueue


class SimTask(asyncio.Task[Any]):
    """A task with a number, which is its hash and its default name. `owner` is the process it belongs to."""

    __slots__ = ("number", "owner")

    def __init__(
        self,
        coroutine: Coroutine[object, object, object],
        number: int,
        owner: RunQueue,
        *,
        loop: asyncio.AbstractEventLoop,
        name: str | None,
        context: Context | None,
    ) -> None:
        # First, because the base class puts the task into a WeakSet, which hashes it.
        self.number = number
        self.owner = owner
        name = name or f"{getattr(coroutine, '__qualname__', 'coroutine')}#{number}"
        super().__init__(coroutine, loop=loop, name=name, context=context)

    def __hash__(self) -> int:
        return self.number

    def discard(self) -> None:
        """Close the coroutine of a task that will never run again. Exceptions of its `finally` blocks are ignored."""
        self._log_destroy_pending = False
        # An exception here is no error of the run: in its world the process ended before these lines.
        with suppress(BaseException):
            self.get_coro().close()


class SimFuture(asyncio.Future[Any]):
    """A future with a number, which is its hash. `owner` is the process that made it.

    `SimLoop.create_future` sets both: a constructor in Python doubles what a future costs.
    """

    __slots__ = ("number", "owner")

    number: int
    owner: RunQueue

    def __hash__(self) -> int:
        return self.number
