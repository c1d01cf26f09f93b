"""Detects commits that have overtaken a pull of the same client.

A pull carries its group's offset. It may wait in its queue while the broker already handles a later commit of the
client, because the two requests are of different classes. Such a pull must not set the offset back. In RocketMQ two
thread pools handle them, and either may be first.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection

COMMITS_MAX = (
    10_000  # bounds the memory for clients that commit for ever more queues while pulls wait
)

Entry = tuple[str, str, int]  # group, topic, queue id


class OvertakenPulls:
    """The last commit of each client and queue since pulls began to wait. `pulls_wait`: whether a pull waits now."""

    def __init__(self, pulls_wait: Callable[[], bool]) -> None:
        self._pulls_wait = pulls_wait
        self._last: dict[tuple[Connection, Entry], int] = {}  # opaque of the commit

    def committed(self, connection: Connection, request: RemotingCommand, entry: Entry) -> None:
        """Record that a client has committed an offset with `request`."""
        if not self._pulls_wait() or len(self._last) >= COMMITS_MAX:
            self._last.clear()
        if self._pulls_wait():
            self._last[connection, entry] = request.opaque

    def includes(self, connection: Connection, request: RemotingCommand, entry: Entry) -> bool:
        """Whether the broker has handled a later commit of the same client before this pull."""
        if not self._last:
            return False
        last = self._last.get((connection, entry))
        return last is not None and request.opaque < last
