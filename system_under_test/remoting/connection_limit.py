"""Descriptors are shared with the files of the store: peers may not take them all.

A broker that cannot open its next file for want of a descriptor must stop. RocketMQ leaves it to the host's ulimit.
"""

from __future__ import annotations

import asyncio

from staticfire.system_under_test.runtime.env import Log


class ConnectionLimit:
    """How many connections one port takes; the first refusal is logged, until there is room again."""

    __slots__ = ("_log", "_most", "_was_full")

    def __init__(self, most: int, log: Log) -> None:
        self._most = most
        self._log = log
        self._was_full = False

    def admits(self, count: int) -> bool:
        """Whether there may be one more than `count`."""
        is_full = count >= self._most
        if is_full and not self._was_full:
            self._log.warning("too many connections: no more are taken", most=self._most)
        self._was_full = is_full
        return not is_full


class TurnedAway(asyncio.Protocol):
    """A connection that is ended at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
