"""Commits that have overtaken a pull of the same client.

A pull carries the offset of its group, and may wait for its turn while the broker already handles a later commit of the
client: the two are requests of different classes. Such a pull must not set the offset back. In RocketMQ two pools of
threads handle them, and either may be first.
"""

from __future__ import annotations

from collections.abc import Callable

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection

COMMITS_MAX = (
    10_000  # a client that commits for ever more queues while pulls wait gets no more memory
)

Entry = tuple[str, str, int]  # group, topic, queue id


class OvertakenPulls:
    """The last commit of each client and queue since pulls began to wait. `pulls_wait`: whether any waits now."""

    def __init__(self, pulls_wait: Callable[[], bool]) -> None:
        self._pulls_wait = pulls_wait
        self._last: dict[tuple[Connection, Entry], int] = {}  # the number of the request

    def committed(self, connection: Connection, request: RemotingCommand, entry: Entry) -> None:
        """A client has committed an offset by a request of its own."""
        if not self._pulls_wait() or len(self._last) >= COMMITS_MAX:
            self._last.clear()
        if self._pulls_wait():
            self._last[connection, entry] = request.opaque

    def includes(self, connection: Connection, request: RemotingCommand, entry: Entry) -> bool:
        """Whether a later commit of the same client has been handled before this pull."""
        if not self._last:
            return False
        last = self._last.get((connection, entry))
        return last is not None and request.opaque < last
