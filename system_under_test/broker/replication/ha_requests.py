"""Handles code 60001, which RocketMQ does not have: ends the catch-up of a master."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection


class HaRequests:
    """Handler of the request; `lift` ends the catch-up of a master and returns whether there was one."""

    def __init__(self, lift: Callable[[], Awaitable[bool]], *, is_slave: bool) -> None:
        self._lift = lift
        self._is_slave = is_slave
        self._lifting: list[asyncio.Task[None]] = []  # keeps tasks from being garbage-collected

    def lift_catch_up(
        self, connection: Connection, request: RemotingCommand
    ) -> RemotingCommand | None:
        """Let a master that waits for a replica accept sends; answer once it does.

        Messages that only that replica has are lost. The answer's field `lifted` is "false" if there was no catch-up.
        """
        if self._is_slave:
            text = "a slave accepts no sends, so it has no catch-up to lift"
            return RemotingCommand.response(request, ResponseCode.SYSTEM_ERROR, text)
        self._lifting = [task for task in self._lifting if not task.done()]
        task = asyncio.get_running_loop().create_task(self._answer(connection, request))
        self._lifting.append(task)
        return None

    async def _answer(self, connection: Connection, request: RemotingCommand) -> None:
        lifted = await self._lift()
        ext = {"lifted": str(lifted).lower()}
        connection.send(RemotingCommand.response(request, ResponseCode.SUCCESS, None, ext))
