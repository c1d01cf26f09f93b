"""Makes long answers piece by piece, one piece a turn of the loop, so that other requests are served in between."""

from __future__ import annotations

import asyncio
from collections import deque

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand, size_of
from staticfire.system_under_test.remoting.connection import Connection, Handler

WAITING_MAX = 1_000
WAITING_SIZE_MAX = 64 << 20  # bytes, approximately, of the waiting requests


class Pieces:
    """A queue of requests whose answers are incomplete. True if it has any: then a new request must wait, too."""

    def __init__(self) -> None:
        self._waiting: deque[tuple[Connection, RemotingCommand, Handler]] = deque()
        self._size = 0
        self._is_scheduled = False

    def __bool__(self) -> bool:
        return bool(self._waiting)

    def go_on(
        self,
        connection: Connection,
        request: RemotingCommand,
        handler: Handler,
        *,
        first: bool = False,
    ) -> RemotingCommand | None:
        """Let `handler` go on with a request in a later turn; returns SYSTEM_BUSY if too many wait.

        `first`: before all other waiting requests, so that requests are answered in order.
        """
        size = size_of(request)
        if len(self._waiting) >= WAITING_MAX or self._size + size > WAITING_SIZE_MAX:
            text = f"{len(self._waiting)} long requests wait for their answers: try again later"
            return RemotingCommand.response(request, ResponseCode.SYSTEM_BUSY, text)
        one = (connection, request, handler)
        if first:
            self._waiting.appendleft(one)
        else:
            self._waiting.append(one)
        self._size += size
        self._schedule()
        return None

    def _schedule(self) -> None:
        if self._waiting and not self._is_scheduled:
            self._is_scheduled = True
            asyncio.get_running_loop().call_soon(self._step)

    def _step(self) -> None:
        self._is_scheduled = False
        connection, request, handler = self._waiting.popleft()
        self._size -= size_of(request)
        if not connection.closed:
            connection.serve(request, handler)
        self._schedule()
