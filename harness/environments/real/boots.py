"""Measures how long servers boot. The clock of a fault plan stands still while they do.

A broker of ours serves within a second of its start. One that a Java VM runs needs 5 to 15 s, and a plan that was drawn
for the former would strike the latter again before it has done anything.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

BOOT_BOUND_S = 60.0  # for one boot; then the plan goes on without the server
POLL_S = 0.25


class Boots:
    """Times by `now_ns`, the clock of the run."""

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._watching: set[asyncio.Task[None]] = set()
        self._since_ns = 0  # of the boots that go on
        self._past_ns = 0

    def begin(self, is_alive: Callable[[], bool], answers: Callable[[], Awaitable[bool]]) -> None:
        """A server was started: it boots until it answers or has ended, or `BOOT_BOUND_S` is over."""
        if not self._watching:
            self._since_ns = self._now_ns()
        task = asyncio.create_task(self._watch(is_alive, answers))
        self._watching.add(task)
        task.add_done_callback(self._end)

    def waited_ns(self) -> int:
        """For how long, so far, at least one server was booting."""
        going_on_ns = self._now_ns() - self._since_ns if self._watching else 0
        return self._past_ns + going_on_ns

    def stop(self) -> None:
        """Watch no more."""
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
