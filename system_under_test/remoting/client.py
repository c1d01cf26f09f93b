"""The connecting side: one connection for each address, shared by all callers (RocketMQ: NettyRemotingClient)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import NamedTuple

from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting.address import parse_address
from staticfire.system_under_test.remoting.connection import Connection, Handler, Sign
from staticfire.system_under_test.remoting.errors import (
    RemotingClosed,
    RemotingConnectError,
    RemotingError,
)
from staticfire.system_under_test.remoting.pending_requests import PendingRequest, PendingRequests
from staticfire.system_under_test.runtime.ending import until_ended
from staticfire.system_under_test.runtime.env import Env, TlsError

# time for written bytes to be delivered, and for both sides to send their TLS close_notify
GOODBYE_TIMEOUT_S = 1.0
CONNECT_TIMEOUT_S = 3.0  # RocketMQ: com.rocketmq.remoting.client.connect.timeout


class RemotingClient:
    """Calls other nodes by address (`host:port`). Connects at the first call, and again after a connection ended.

    `on_request` answers requests that the peer sends on the same connection; `sign` adds a signature to each request.
    `on_end` is called with the address after a connection has ended, except by `close_connection`.
    """

    def __init__(
        self,
        env: Env,
        *,
        on_request: Handler | None = None,
        connect_timeout_s: float = CONNECT_TIMEOUT_S,
        sign: Sign | None = None,
        on_end: Callable[[str], None] | None = None,
    ) -> None:
        self._env = env
        self._on_end = on_end
        self._on_request = on_request
        self._sign = sign
        self._connect_timeout_s = connect_timeout_s
        self._connections: dict[str, Connection] = {}
        self._connects: dict[str, PendingConnect] = {}
        self._open_ones: dict[int, OpenOne] = {}  # by key: connections that are not gone yet
        self._next_key = 0
        self._closed = False

    async def invoke(
        self,
        address: str,
        command: RemotingCommand,
        timeout_s: float,
        *,
        close_on_timeout: bool = False,
    ) -> RemotingCommand:
        """Send a request and return the response; connecting counts towards the timeout.

        Raises:
            RemotingConnectError: the request never left this process.
            RemotingTimeout: written, but not answered in time; the connection stays unless `close_on_timeout`.
            RemotingClosed: the connection ended first.
        """
        return await self.invoke_nowait(
            address, command, timeout_s, close_on_timeout=close_on_timeout
        )

    def invoke_nowait(
        self,
        address: str,
        command: RemotingCommand,
        timeout_s: float,
        *,
        close_on_timeout: bool = False,
    ) -> asyncio.Future[RemotingCommand]:
        """Like invoke, but returns the future of the response. The command belongs to the client from here on."""
        loop = asyncio.get_running_loop()
        request = PendingRequest(
            code=command.code,
            timeout_s=timeout_s,
            deadline_s=loop.time() + timeout_s,
            future=loop.create_future(),
            closes=close_on_timeout,
        )
        connection = self.connection(address)
        if connection is not None:
            connection.send_request(command, request)
        elif self._closed:
            request.fail(RemotingClosed("this client is closed"))
        else:
            self._pending_connect(address).add(command, request)
        return request.future

    async def invoke_oneway(self, address: str, command: RemotingCommand) -> None:
        """Send a one-way request. Raises RemotingConnectError."""
        (await self.connect(address)).invoke_oneway(command)

    async def connect(self, address: str) -> Connection:
        """Return the open connection to `address`, or make one. Raises RemotingConnectError."""
        connection = self.connection(address)
        if connection is not None:
            return connection
        if self._closed:
            raise RemotingClosed("this client is closed")
        # Shielded: a caller that gives up must not end the connect that others share.
        return await asyncio.shield(self._pending_connect(address).opened)

    def connection(self, address: str) -> Connection | None:
        """The open connection to `address`, if there is one."""
        connection = self._connections.get(address)
        return None if connection is None or connection.closed else connection

    def close_connection(self, address: str) -> None:
        """End the connection to `address`; its outstanding requests fail with RemotingClosed."""
        connection = self._connections.pop(address, None)
        if connection is not None:
            connection.close()

    async def close(self) -> None:
        """End everything; outstanding requests fail with RemotingClosed. No connection is left afterwards."""
        self._closed = True
        for address in list(self._connections):
            self.close_connection(address)
        connects = list(self._connects.values())
        for connect in connects:
            connect.task.cancel()
            connect.fail(RemotingClosed, "this client was closed")
        await until_ended(connect.task for connect in connects)
        await self._wait_until_gone()
        for one in list(self._open_ones.values()):
            one.connection.abort()

    async def _wait_until_gone(self) -> None:
        """Give the connections `GOODBYE_TIMEOUT_S` to end by themselves.

        It uses a timer of its own: a node closes its client while it is being cancelled, and there asyncio.timeout of
        Python 3.11.2 and older would cut the wait short.
        """
        ones = list(self._open_ones.values())

        def too_late() -> None:
            for one in ones:
                if not one.gone.done():
                    one.gone.set_result(None)

        timer = asyncio.get_running_loop().call_later(GOODBYE_TIMEOUT_S, too_late)
        try:
            for one in ones:
                await one.gone
        finally:
            timer.cancel()

    def _pending_connect(self, address: str) -> PendingConnect:
        connect = self._connects.get(address)
        if connect is None:
            connect = self._connects[address] = PendingConnect(address)
            connect.task = asyncio.get_running_loop().create_task(self._connect(address, connect))
        return connect

    async def _connect(self, address: str, connect: PendingConnect) -> None:
        try:
            connection = await self._open(address)
        except (OSError, ValueError, TimeoutError, TlsError) as error:
            reason = str(error) or f"no answer in {self._connect_timeout_s:g} s"
            connect.fail(RemotingConnectError, f"cannot connect to {address}: {reason}")
        else:
            self._connections[address] = connection
            connect.succeed(connection)
        finally:
            del self._connects[address]

    async def _open(self, address: str) -> Connection:
        host, port = parse_address(address)
        loop = asyncio.get_running_loop()
        self._next_key += 1
        connection = Connection(
            key=self._next_key,
            loop=loop,
            log=self._env.log,
            handler=self._on_request,
            on_close=lambda lost: self._lost(address, lost),
            sign=self._sign,
        )
        try:
            async with asyncio.timeout(self._connect_timeout_s):
                tls = self._env.tls.client_context() if self._env.tls is not None else None
                if tls is None:
                    await loop.create_connection(lambda: connection, host, port)
                else:
                    await loop.create_connection(lambda: connection, host, port, ssl=tls)
        except (asyncio.CancelledError, TimeoutError):
            connection.abort()  # it may have been opened in the same turn in which we gave up
            raise
        if connection.closed:
            raise ConnectionResetError("the peer closed the connection at once")
        self._open_ones[connection.key] = OpenOne(connection, loop.create_future())
        return connection

    def _lost(self, address: str, connection: Connection) -> None:
        one = self._open_ones.pop(connection.key, None)
        if one is not None and not one.gone.done():
            one.gone.set_result(None)
        if self._connections.get(address) is connection:
            del self._connections[address]
            if self._on_end is not None:
                self._on_end(address)


class OpenOne(NamedTuple):
    """A connection, and a future that is done once it is gone."""

    connection: Connection
    gone: asyncio.Future[None]


class PendingConnect:
    """A connect under way, and the requests that wait for it. A request that expires here was never sent."""

    __slots__ = ("_address", "_commands", "_loop", "_requests", "opened", "task")

    task: asyncio.Task[
        None
    ]  # set by the client right after construction: the task needs this object

    def __init__(self, address: str) -> None:
        self._address = address
        self._loop = asyncio.get_running_loop()
        self._commands: list[tuple[RemotingCommand, PendingRequest]] = []
        self._requests = PendingRequests(self._loop, self._timed_out)
        self.opened: asyncio.Future[Connection] = self._loop.create_future()

    def add(self, command: RemotingCommand, request: PendingRequest) -> None:
        self._requests.add(len(self._commands), request)
        self._commands.append((command, request))

    def succeed(self, connection: Connection) -> None:
        self._requests.take_all()
        for command, request in self._commands:
            if not request.future.done():
                connection.send_request(command, request)
        if not self.opened.done():
            self.opened.set_result(connection)

    def fail(self, error_type: type[RemotingError], text: str) -> None:
        self._requests.fail_all(error_type, text)
        if not self.opened.done():
            self.opened.set_exception(error_type(text))
            self.opened.exception()  # marked as retrieved: each request has got the error itself

    def _timed_out(self, request: PendingRequest) -> RemotingError:
        return RemotingConnectError(
            f"no connection to {self._address} in the {request.timeout_s:g} s of request {request.code}"
        )
