"""An asyncio loop whose clock jumps to the next timer: tests of timeouts take no time."""

from __future__ import annotations

import asyncio
import selectors
from collections.abc import Callable, Coroutine
from functools import wraps
from typing import Any, ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


class JumpingSelector(selectors.SelectSelector):
    """Never waits: the time that it should have waited is added to `waited_s`."""

    def __init__(self) -> None:
        super().__init__()
        self.waited_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        if timeout is None:
            raise RuntimeError("nothing will ever happen again: the test waits for ever")
        self.waited_s += max(timeout, 0.0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    def __init__(self) -> None:
        self._jumping = JumpingSelector()
        super().__init__(self._jumping)
        self._clock_resolution = 1e-9

    def time(self) -> float:
        return 1000.0 + self._jumping.waited_s


def run(main: Coroutine[Any, Any, T]) -> T:
    """Like asyncio.run, on virtual time."""
    loop = VirtualTimeLoop()
    try:
        return loop.run_until_complete(main)
    finally:
        for task in asyncio.all_tasks(loop):
            task.cancel()
            loop.run_until_complete(asyncio.gather(task, return_exceptions=True))
        loop.close()


def in_virtual_time(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Makes a test of a coroutine function, run on virtual time."""

    @wraps(test)
    def on_its_loop(*args: P.args, **kwargs: P.kwargs) -> None:
        run(test(*args, **kwargs))

    return on_its_loop


def now_s() -> float:
    return asyncio.get_running_loop().time() - 1000.0
