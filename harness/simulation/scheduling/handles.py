"""Handles of scheduled callbacks: asyncio's Handle and TimerHandle with an owner and without debug paths."""

from __future__ import annotations

from collections.abc import Callable
from contextvars import Context
from typing import TYPE_CHECKING, Any

from staticfire.harness.simulation.scheduling.scheduler import Event, Scheduler

if TYPE_CHECKING:
    from staticfire.harness.simulation.scheduling.run_queue import RunQueue


class SimHandle:
    """A callback in the ready queue of its owner."""

    __slots__ = ("args", "callback", "context", "is_cancelled")

    def __init__(
        self, callback: Callable[..., object], args: tuple[Any, ...], context: Context
    ) -> None:
        self.callback = callback
        self.args = args
        self.context = context
        self.is_cancelled = False

    def cancel(self) -> None:
        self.is_cancelled = True

    def cancelled(self) -> bool:
        return self.is_cancelled

    def __repr__(self) -> str:
        return f"<SimHandle {self.callback!r}>"


class SimTimerHandle:
    """A callback with a due time. It enters its owner's ready queue at that time."""

    __slots__ = ("args", "callback", "context", "is_cancelled", "owner", "when_ns")

    def __init__(
        self,
        when_ns: int,
        callback: Callable[..., object],
        args: tuple[Any, ...],
        context: Context,
        owner: RunQueue,
    ) -> None:
        self.when_ns = when_ns
        self.callback = callback
        self.args = args
        self.context = context
        self.owner = owner
        self.is_cancelled = False

    def when(self) -> float:
        return self.when_ns / 1e9

    def cancel(self) -> None:
        if not self.is_cancelled:
            self.is_cancelled = True
            self.owner.scheduler.forget_cancelled(is_cancelled_timer)

    def cancelled(self) -> bool:
        return self.is_cancelled

    def __repr__(self) -> str:
        return f"<SimTimerHandle at {self.when_ns} ns {self.callback!r}>"


def start_timer(scheduler: Scheduler, timer: SimTimerHandle) -> None:
    """Schedule `timer`: it enters its owner's ready queue at its due time."""
    scheduler.later(timer.when_ns, _fire, timer)


def _fire(timer: SimTimerHandle) -> None:
    if timer.is_cancelled:
        timer.owner.scheduler.cancelled -= 1
    else:
        timer.owner.enqueue_timer(timer)


def is_cancelled_timer(event: Event) -> bool:
    return event[2] is _fire and event[3].is_cancelled
