"""Handles Ctrl-C, SIGTERM and a closed terminal, for work that makes things which it must remove again."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import AsyncIterator, Coroutine, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager, contextmanager, suppress
from typing import Any, Protocol, TypeVar

Made = TypeVar("Made")
SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


class Load(Protocol):
    """A run that can end early and still be judged."""

    @property
    def is_under_load(self) -> bool: ...

    def cut_short(self) -> None: ...


class Interrupts:
    """Handles Ctrl-C, SIGTERM and a closed terminal.

    The first one during the load ends the load; one before the load, and any second one, cancels the run. The harness
    then removes everything that it made, and further signals do not interrupt that.
    """

    def __init__(self) -> None:
        self.run: Load | None = None  # while there is a load that can be ended
        self._seen = 0
        self._task = asyncio.current_task()
        self._before: dict[int, Any] = {}

    def __enter__(self) -> Interrupts:
        for number in SIGNALS:
            before = signal.getsignal(number)
            if number == signal.SIGHUP and before == signal.SIG_IGN:  # nohup
                continue
            self._before[number] = before
            asyncio.get_running_loop().add_signal_handler(number, self._interrupt)
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before.items():
            asyncio.get_running_loop().remove_signal_handler(number)
            signal.signal(number, before)

    def remove_now(self) -> None:
        """Note that the harness begins to remove what it made, which signals must not interrupt."""
        self._task = None

    def _interrupt(self) -> None:
        self._seen += 1
        if self._task is None:
            say(
                "the harness is removing what it made (after a kill -9, `staticfire clean` does it)"
            )
        elif self._seen == 1 and self.run is not None and self.run.is_under_load:
            self.run.cut_short()
            say("the load ends; faults are healed and the run is judged (Ctrl-C again gives up)")
        else:
            self._task.cancel()
            self.remove_now()


def say(text: str) -> None:
    """Print a line of the command on standard error."""
    with suppress(OSError):  # the terminal is closed
        print(f"staticfire: {text}", file=sys.stderr, flush=True)


def run_interruptibly(work: Coroutine[object, object, None]) -> None:
    """Run the work on an event loop of its own in the main thread. Only the first signal cancels it.

    Raises KeyboardInterrupt if a signal cancelled it, and any exception of the work.
    """

    async def run() -> None:
        with Interrupts():
            await work

    try:
        asyncio.run(run())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


@asynccontextmanager
async def left_whole(manager: AbstractAsyncContextManager[Made]) -> AsyncIterator[Made]:
    """Enter the manager; delay a cancellation during its exit until the exit has ended."""
    made = await manager.__aenter__()
    try:
        yield made
    except BaseException as error:
        await _to_the_end(manager.__aexit__(type(error), error, error.__traceback__))
        raise
    await _to_the_end(manager.__aexit__(None, None, None))


async def _to_the_end(leaving: Coroutine[object, object, object]) -> None:
    task = asyncio.ensure_future(leaving)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise


@contextmanager
def deaf() -> Iterator[None]:
    """Ignore signals during a short piece of work that must not be interrupted."""
    before = {number: signal.signal(number, signal.SIG_IGN) for number in SIGNALS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
