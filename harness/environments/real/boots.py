"""Measures how long servers boot. Meanwhile the clock of a fault plan stands still.

Our broker serves within a second of its start. A broker in a Java VM needs 5 to 15 s, so a plan drawn for our broker
would strike it again before it has served a request.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

BOOT_BOUND_S = 60.0  # of one boot; after it the plan continues without the server
POLL_S = 0.25


class Boots:
    """Measures boots by `now_ns`, the clock of the run."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._watching: set[asyncio.Task[None]] = set()
        self._since_ns = 0  # begin of the present boots
        self._past_ns = 0

    def begin(self, is_alive: Callable[[], bool], answers: Callable[[], Awaitable[bool]]) -> None:
        """Note that a server was started. Its boot lasts until it answers, it ends, or `BOOT_BOUND_S` is over."""
        if not self._watching:
            self._since_ns = self._now_ns()
        task = asyncio.create_task(self._watch(is_alive, answers))
        self._watching.add(task)
        task.add_done_callback(self._end)

    def waited_ns(self) -> int:
        """Return the time during which at least one server was booting, so far, in nanoseconds."""
        going_on_ns = self._now_ns() - self._since_ns if self._watching else 0
        return self._past_ns + going_on_ns

    def stop(self) -> None:
        """End all measurements."""
        for task in self._watching:
            task.cancel()

    async def _watch(
        self, is_alive: Callable[[], bool], answers: Callable[[], Awaitable[bool]]
    ) -> None:
        until_ns = self._now_ns() + int(BOOT_BOUND_S * 1e9)
        while is_alive() and self._now_ns() < until_ns and not await answers():
            await asyncio.sleep(POLL_S)

    def _end(self, task: asyncio.Task[None]) -> None:
        self._watching.discard(task)
        if not self._watching:
            self._past_ns += self._now_ns() - self._since_ns
