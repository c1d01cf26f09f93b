"""TLS on the listening side; the first byte shows who uses it (RocketMQ: NettyRemotingServer.HandshakeHandler).

A plain connection then gets the transport directly, without a layer in between. One that begins with a handshake gets
a transport that encrypts through memory buffers, which works with any event loop.
"""

from __future__ import annotations

import asyncio
import ssl
from contextlib import suppress
from typing import Any, cast

from staticfire.system_under_test.remoting.connection import Connection
from staticfire.system_under_test.runtime.env import Log, Tls, TlsError, TlsMode

# the first byte of a TLS ClientHello; the length of a frame never begins with it
HANDSHAKE_BYTE = 0x16
CHUNK_SIZE = 256 * 1024


class FirstByte(asyncio.Protocol):
    """The protocol of a new connection until its first byte shows whether the peer uses TLS."""

    def __init__(self, connection: Connection, tls: Tls, log: Log) -> None:
        self._connection = connection
        self._tls = tls
        self._log = log
        self._transport: asyncio.Transport | None = None
        self._greeting = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._connection.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        assert self._transport is not None
        connection = self._connection
        if self._greeting:
            self._greeting += data
        elif data[0] == HANDSHAKE_BYTE:
            self._greeting = data
            self._prepare_tls(self._transport)
        elif self._tls.mode is TlsMode.ENFORCING:
            self._log.warning("peer does not speak TLS", peer=connection.address)
            connection.abort()
        else:
            self._transport.set_protocol(connection)
            connection.data_received(data)

    def _prepare_tls(self, transport: asyncio.Transport) -> None:
        if self._tls.is_prepared:
            self._start_tls(transport)
            return
        transport.pause_reading()
        prepared = self._connection.loop.run_in_executor(None, self._tls.prepare)
        prepared.add_done_callback(lambda _: self._go_on(transport))

    def _go_on(self, transport: asyncio.Transport) -> None:
        if not self._connection.closed:
            transport.resume_reading()
            self._start_tls(transport)

    def _start_tls(self, transport: asyncio.Transport) -> None:
        try:
            context = self._tls.server_context()
        except TlsError as error:
            self._log.error("no TLS", peer=self._connection.address, error=str(error))
            self._connection.abort()
            return
        session = TlsSession(transport, self._connection, context, self._log)
        transport.set_protocol(session)
        self._connection.use_transport(session)
        session.data_received(self._greeting)


class TlsSession(asyncio.Transport, asyncio.Protocol):
    """The transport of one connection that encrypts, and the protocol of the transport that it writes to."""

    def __init__(
        self,
        transport: asyncio.Transport,
        connection: Connection,
        context: ssl.SSLContext,
        log: Log,
    ) -> None:
        super().__init__()
        self._transport = transport
        self._connection = connection
        self._log = log
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._ready = False  # the handshake is over
        self._early = bytearray()  # written before the handshake was over
        self._late = b""  # handshake bytes put off to a later turn of the loop

    # What the connection calls

    def write(self, data: bytes | bytearray | memoryview[Any]) -> None:
        if not self._ready:
            self._early += data
            return
        view = memoryview(data)
        while view:
            written = self._tls.write(view)
            view = view[written:]  # with the call in the slice the compiled build would write twice
        self._send()

    def close(self) -> None:
        if self._ready:
            with suppress(ssl.SSLError):  # does not wait for the peer's close_notify
                self._tls.unwrap()
            self._send()
        self._transport.close()

    def abort(self) -> None:
        self._transport.abort()

    def is_closing(self) -> bool:
        return self._transport.is_closing()

    def pause_reading(self) -> None:
        self._transport.pause_reading()

    def resume_reading(self) -> None:
        self._transport.resume_reading()

    def get_extra_info(self, name: str, default: object = None) -> object:
        return self._transport.get_extra_info(name, default)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        self._transport.set_write_buffer_limits(high, low)

    def get_write_buffer_size(self) -> int:
        return self._transport.get_write_buffer_size()

    # What asyncio calls

    def data_received(self, data: bytes) -> None:
        if self._ready:
            self._receive(data)
        elif self._late or self._connection.share.is_over:
            if not self._late:
                self._transport.pause_reading()
                self._connection.share.wait(self._go_on, self._connection.loop)
            self._late += data
        else:
            self._greet(data)

    def pause_writing(self) -> None:
        self._connection.pause_writing()

    def resume_writing(self) -> None:
        self._connection.resume_writing()

    def connection_lost(self, exc: Exception | None) -> None:
        self._connection.connection_lost(exc)

    # Inside

    def _go_on(self) -> None:
        data, self._late = self._late, b""
        if not self._connection.closed:
            self._transport.resume_reading()
            self._greet(data)

    def _greet(self, data: bytes) -> None:
        """Do one step of the handshake, and charge its time to the turn: a signature takes as long as many requests."""
        loop = self._connection.loop
        began_s = loop.time()
        self._receive(data)
        self._connection.share.spend(loop.time() - began_s, loop)

    def _receive(self, data: bytes) -> None:
        self._incoming.write(data)
        try:
            if not self._ready:
                self._tls.do_handshake()
                self._ready = True
                self._log.info("TLS session", peer=self._connection.address)
                self.write(bytes(self._early))
                self._early.clear()
            self._read()
        except ssl.SSLWantReadError:
            self._send()
        except ssl.SSLError as error:
            self._log.warning("TLS failed", peer=self._connection.address, error=str(error))
            self._send()  # the TLS alert with the reason
            self._transport.close()

    def _read(self) -> None:
        """Pass decrypted data to the connection. Raises SSLWantReadError when more input is needed."""
        while not self._connection.closed:
            data = self._tls.read(CHUNK_SIZE)
            if not data:  # the peer sent close_notify
                self._connection.close()
                return
            self._connection.data_received(data)

    def _send(self) -> None:
        data = self._outgoing.read()
        if data:
            self._transport.write(data)
