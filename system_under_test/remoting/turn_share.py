"""Limits the time that the requests of a node, on all its connections together, use of one turn of the event loop.

Hundreds of connections may have slow requests to read in the same turn. Once they have used up the share, the rest
waits for later turns, in order of arrival, one slice of each connection at a time.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable

TURN_S = 0.025  # time for requests in one turn of the loop, so that other work gets its turn
SLICE_S = 0.002  # time for one connection while others wait


class TurnShare:
    """Counts the time that a node's requests have used of this turn, and queues the rest for the next one.

    It cannot see where a turn begins, so it adds up the time of several short turns. Where turns are not shared, each
    connection has the full time in each turn, however much others have used.
    """

    __slots__ = ("_is_scheduled", "_is_shared", "_spent_s", "_waiting")

    def __init__(self, *, is_shared: bool = True) -> None:
        self._is_shared = is_shared
        self._spent_s = 0.0
        self._waiting: deque[Callable[[], None]] = deque()
        self._is_scheduled = False

    @property
    def is_over(self) -> bool:
        """Whether new requests have to wait for a later turn."""
        return self._spent_s >= TURN_S or bool(self._waiting)

    @property
    def slice_s(self) -> float:
        """How long, in seconds, one connection may go on now."""
        left_s = TURN_S - self._spent_s
        return min(SLICE_S, left_s) if self._waiting else left_s

    def spend(self, seconds: float, loop: asyncio.AbstractEventLoop) -> None:
        """Charge `seconds` of request time to this turn."""
        if not self._is_shared:
            return
        self._spent_s += seconds
        if self._spent_s >= TURN_S:
            self._schedule(loop)

    def wait(self, go_on: Callable[[], None], loop: asyncio.AbstractEventLoop) -> None:
        """Call `go_on` in a later turn."""
        if not self._is_shared:
            loop.call_soon(go_on)
            return
        self._waiting.append(go_on)
        self._schedule(loop)

    def _schedule(self, loop: asyncio.AbstractEventLoop) -> None:
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._begin_turn, loop)

    def _begin_turn(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        self._spent_s = 0.0
        waiting = self._waiting
        try:
            for _ in range(len(waiting)):
                waiting.popleft()()
                if self._spent_s >= TURN_S:
                    break
        finally:  # an error in one callback must not stop the others
            if waiting:
                self._schedule(loop)
