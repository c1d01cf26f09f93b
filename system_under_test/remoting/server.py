"""The listening side (RocketMQ: NettyRemotingServer)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial

from staticfire.system_under_test.remoting.connection import Connection, Handler, OnClose
from staticfire.system_under_test.remoting.connection_limit import ConnectionLimit, TurnedAway
from staticfire.system_under_test.remoting.errors import CannotListen
from staticfire.system_under_test.remoting.held_memory import HeldMemory
from staticfire.system_under_test.remoting.tls import FirstByte
from staticfire.system_under_test.remoting.turn_output import TurnOutput
from staticfire.system_under_test.remoting.turn_share import TurnShare
from staticfire.system_under_test.runtime.env import Env, TlsMode

BACKLOG = 1024  # RocketMQ: serverSocketBacklog
# a connection over the limit still holds a descriptor for some turns of the loop
ACCEPTS_A_TURN = 2
STOP_TIMEOUT_S = 1.0  # connections that are not gone by then are aborted


async def listen(
    accept: Callable[[], asyncio.Protocol], host: str, port: int, *, backlog: int = 100
) -> asyncio.Server:
    """asyncio's server on one address. Raises CannotListen.

    The kernel queues up to `backlog` connections. asyncio alone would also accept that many in one turn.
    """
    loop = asyncio.get_running_loop()
    try:
        server = await loop.create_server(accept, host, port, backlog=ACCEPTS_A_TURN)
        for bound in server.sockets:
            with bound.dup() as listening:
                listening.listen(backlog)
    except OSError as error:
        raise CannotListen(host, port, error) from error
    return server


class RemotingServer:
    """Accepts connections and hands their requests to one handler.

    `on_close` is called once for each accepted connection, after it has ended for any reason. Keys of connections
    count up from `first_key`. Servers of one node may share a `turn_output`.
    """

    def __init__(
        self,
        env: Env,
        host: str,
        port: int,
        handler: Handler,
        *,
        on_close: OnClose | None = None,
        first_key: int = 1,
        turn_output: TurnOutput | None = None,
    ) -> None:
        self.host = host
        self.port = port  # 0 until start() if the system is to choose
        self._env = env
        self._handler = handler
        self._on_close = on_close
        self._connections: dict[int, Connection] = {}
        self._next_key = first_key
        self._memory = HeldMemory()
        self._turn_output = turn_output or TurnOutput(TurnShare(is_shared=env.shares_turns))
        self._limit = ConnectionLimit(env.connections_max, env.log)
        self._server: asyncio.Server | None = None
        self._all_gone: asyncio.Future[None] | None = None

    @property
    def share(self) -> TurnShare:
        """How much of this loop turn the node's requests have used."""
        return self._turn_output.share

    @property
    def connections(self) -> list[Connection]:
        """The open connections, oldest first."""
        return [connection for connection in self._connections.values() if not connection.closed]

    async def start(self) -> None:
        """Listen. Raises CannotListen."""
        self._server = await listen(self._accepted, self.host, self.port, backlog=BACKLOG)
        if self.port == 0:
            self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        """Stop listening and close every connection; what was already sent is still delivered."""
        if self._server is None:
            return
        self._server.close()
        self._server = None
        for connection in list(self._connections.values()):
            connection.close()
        await self._wait_until_gone()
        for connection in list(self._connections.values()):
            connection.abort()

    def close_connection(self, key: int) -> None:
        """End one connection, if it still exists."""
        connection = self._connections.get(key)
        if connection is not None:
            connection.close()

    async def _wait_until_gone(self) -> None:
        if not self._connections:
            return
        loop = asyncio.get_running_loop()
        self._all_gone = loop.create_future()
        timer = loop.call_later(STOP_TIMEOUT_S, self._stop_waiting)
        try:
            await self._all_gone
        finally:
            timer.cancel()
            self._all_gone = None

    def _stop_waiting(self) -> None:
        if self._all_gone is not None and not self._all_gone.done():
            self._all_gone.set_result(None)

    def _accepted(self) -> asyncio.Protocol:
        if not self._limit.admits(len(self._connections)):
            return TurnedAway()
        connection = self._new_connection()
        tls = self._env.tls
        if tls is None or tls.mode is TlsMode.DISABLED:
            return connection
        return FirstByte(connection, tls, self._env.log)

    def _new_connection(self) -> Connection:
        connection = Connection(
            key=self._next_key,
            loop=asyncio.get_running_loop(),
            log=self._env.log,
            handler=self._handler,
            on_close=self._lost,
            memory=self._memory,
            turn_output=self._turn_output,
        )
        self._next_key += 1
        self._connections[connection.key] = connection
        return connection

    def _lost(self, connection: Connection) -> None:
        del self._connections[connection.key]
        if not self._connections:
            self._stop_waiting()
        if self._on_close is None:
            return
        loop, share = connection.loop, self.share
        if share.is_over:  # hundreds of connections may end in one turn
            share.wait(partial(self._clean_up, self._on_close, connection), loop)
        else:
            self._clean_up(self._on_close, connection)

    def _clean_up(self, on_close: OnClose, connection: Connection) -> None:
        began_s = connection.loop.time()
        on_close(connection)
        self.share.spend(connection.loop.time() - began_s, connection.loop)
