"""The server object that create_server returns."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from typing import Self

from staticfire.harness.simulation.network.kernel import Kernel, Listener
from staticfire.harness.simulation.network.tcp import Address
from staticfire.harness.simulation.network.transport import open_transport
from staticfire.harness.simulation.scheduling.handles import SimHandle
from staticfire.harness.simulation.scheduling.run_queue import OWNER


class BoundAddress:
    """Stands for a listening socket in `Server.sockets`."""

    def __init__(self, listener: Listener) -> None:
        self._listener = listener

    def getsockname(self) -> Address:
        return self._listener.address

    def dup(self) -> Self:
        """Return the same port, since there is no descriptor to copy."""
        return self

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        """Do nothing, since there is nothing to close."""

    def listen(self, backlog: int) -> None:
        """Set the size of the backlog; the port listens already."""
        self._listener.backlog = backlog


class SimServer(asyncio.AbstractServer):
    """Accepts what the kernel has put into the backlog of one port. Implements `kernel.Acceptor`."""

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        kernel: Kernel,
        protocol_factory: Callable[[], asyncio.BaseProtocol],
        host: str | None,
        port: int,
        backlog: int,
    ) -> None:
        self._loop = loop
        self._kernel = kernel
        self._protocol_factory = protocol_factory
        self._bind = (host, port, backlog)
        self._listener: Listener | None = None
        self._forever: asyncio.Future[None] | None = None
        self._queue = OWNER.get()
        self._handle = SimHandle(self._accept_all, (), copy_context())

    @property
    def sockets(self) -> tuple[BoundAddress, ...]:
        return () if self._listener is None else (BoundAddress(self._listener),)

    def get_loop(self) -> asyncio.AbstractEventLoop:
        return self._loop

    def is_serving(self) -> bool:
        return self._listener is not None

    async def start_serving(self) -> None:
        if self._listener is None:
            host, port, backlog = self._bind
            self._listener = self._kernel.listen(host, port, backlog, self)

    async def serve_forever(self) -> None:
        await self.start_serving()
        self._forever = self._loop.create_future()
        try:
            await self._forever
        finally:
            self._forever = None
            self.close()

    def close(self) -> None:
        """Stop listening; connections stay."""
        listener, self._listener = self._listener, None
        if listener is not None and self._queue.alive:
            self._kernel.close_listener(listener)
        if self._forever is not None and not self._forever.done():
            self._forever.cancel()

    async def wait_closed(self) -> None:
        """Return at once, as asyncio 3.11 does."""

    def acceptable(self) -> None:
        self._queue.enqueue(self._handle)

    def _accept_all(self) -> None:
        listener = self._listener
        while listener is not None and listener.waiting:
            socket = listener.waiting.popleft()
            if not socket.is_closed:
                open_transport(self._loop, socket, self._protocol_factory())
