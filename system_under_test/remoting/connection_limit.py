"""Limits the connections of a port, so that peers cannot take the descriptors that the store needs for its files.

A broker that cannot open its next file for want of a descriptor must stop. RocketMQ relies on the host's ulimit.
"""

from __future__ import annotations

import asyncio

from staticfire.system_under_test.runtime.env import Log


class ConnectionLimit:
    """Admits up to `most` connections; logs a refusal once, and again only after there has been room."""

    __slots__ = ("_log", "_most", "_was_full")

    def __init__(self, most: int, log: Log) -> None:
        self._most = most
        self._log = log
        self._was_full = False

    def admits(self, count: int) -> bool:
        """Whether a port with `count` open connections may accept one more."""
        is_full = count >= self._most
        if is_full and not self._was_full:
            self._log.warning("too many connections: no more are taken", most=self._most)
        self._was_full = is_full
        return not is_full


class TurnedAway(asyncio.Protocol):
    """The protocol of a connection over the limit: closes it at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        transport.abort()
