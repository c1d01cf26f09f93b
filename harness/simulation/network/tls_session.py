"""One side of a TLS session over a simulated connection: what asyncio's SSLProtocol does."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from staticfire.harness.simulation.network.transport import SimTransport

HANDSHAKE_TIMEOUT_S = 60.0  # asyncio: SSL_HANDSHAKE_TIMEOUT
SHUTDOWN_TIMEOUT_S = 30.0  # asyncio: SSL_SHUTDOWN_TIMEOUT
CHUNK_SIZE = 256 * 1024


class TlsSession(asyncio.Transport, asyncio.Protocol):
    """The transport of `protocol`, and the protocol of the transport below. `made` is done after the handshake.

    The client's side calls the protocol's connection_made; the server's does not, as asyncio's start_tls.
    """

    def __init__(
        self,
        loop: asyncio.AbstractEventLoop,
        protocol: asyncio.BaseProtocol,
        context: ssl.SSLContext,
        made: asyncio.Future[None],
        *,
        server_side: bool = False,
        handshake_timeout_s: float = HANDSHAKE_TIMEOUT_S,
    ) -> None:
        super().__init__()
        self._loop = loop
        self._protocol: Any = protocol
        self._made = made
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self._is_server = server_side
        self._handshake_timeout_s = handshake_timeout_s
        self._below: SimTransport | None = None
        self._timer: asyncio.TimerHandle | None = None
        self._is_ready = False  # the handshake is over
        self._is_closing = False

    # For the protocol

    def get_extra_info(self, name: str, default: object = None) -> object:
        return default if self._below is None else self._below.get_extra_info(name, default)

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if not self._is_closing:
            self._tls.write(data)
            self._send()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if self._below is not None:
            self._below.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return 0 if self._below is None else self._below.get_write_buffer_size()

    def close(self) -> None:
        """Send close_notify, and wait for the server's."""
        if self._is_closing:
            return
        self._is_closing = True
        if not self._is_ready:
            self._abort(None)
            return
        self._timer = self._loop.call_later(SHUTDOWN_TIMEOUT_S, self._abort, None)
        self._end_session()

    def abort(self) -> None:
        self._is_closing = True
        self._abort(None)

    # For the transport below

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._below = transport  # type: ignore[assignment]  # it is one of the simulated ones
        self._timer = self._loop.call_later(
            self._handshake_timeout_s,
            self._abort,
            ConnectionAbortedError("TLS handshake took too long"),
        )
        self._go_on()

    def data_received(self, data: bytes) -> None:
        self._incoming.write(data)
        self._go_on()

    def eof_received(self) -> bool | None:
        if not self._is_ready:
            self._abort(ConnectionResetError("connection closed during the TLS handshake"))
        return None

    def pause_writing(self) -> None:
        if self._is_ready:
            self._protocol.pause_writing()

    def resume_writing(self) -> None:
        if self._is_ready:
            self._protocol.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._is_closing = True
        self._cancel_timer()
        if self._is_ready:
            self._protocol.connection_lost(exc)
        else:
            self._fail(exc or ConnectionResetError("connection closed during the TLS handshake"))

    # Inside

    def _go_on(self) -> None:
        try:
            if not self._is_ready:
                self._tls.do_handshake()
                self._begin()
            if not self._is_closing:
                self._read()
            elif self._timer is not None:
                self._end_session()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError as error:
            self._send()
            self._abort(error)

    def _begin(self) -> None:
        self._is_ready = True
        self._cancel_timer()
        self._send()
        if not self._is_server:
            self._protocol.connection_made(self)
        if not self._made.done():
            self._made.set_result(None)

    def _read(self) -> None:
        """Pass decrypted bytes to the protocol. Raises SSLWantReadError when more are needed."""
        while not self._is_closing:
            data = self._tls.read(CHUNK_SIZE)
            if not data:  # the server sent close_notify
                self._protocol.eof_received()
                self.close()
                return
            self._protocol.data_received(data)

    def _end_session(self) -> None:
        try:
            self._tls.unwrap()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError as error:
            self._abort(error)
        else:
            self._send()
            self._cancel_timer()
            if self._below is not None:
                self._below.close()

    def _send(self) -> None:
        data = self._outgoing.read()
        if data and self._below is not None:
            self._below.write(data)

    def _abort(self, error: Exception | None) -> None:
        self._is_closing = True
        self._cancel_timer()
        if error is not None:
            self._fail(error)
        if self._below is not None:
            self._below.abort()

    def _fail(self, error: Exception) -> None:
        if not self._made.done():
            self._made.set_exception(error)

    def _cancel_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
