"""The process's side of a connection: what asyncio's _SelectorSocketTransport does, over a simulated socket."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextvars import copy_context
from typing import Any

from staticfire.harness.simulation.network.stream import WINDOW
from staticfire.harness.simulation.network.tcp import TcpSocket
from staticfire.harness.simulation.scheduling.executor import settle
from staticfire.harness.simulation.scheduling.handles import SimHandle
from staticfire.harness.simulation.scheduling.run_queue import OWNER

# Bytes in user space at which the transport pauses the protocol: asyncio's default.
HIGH_WATER = 64 * 1024
# Errors of a broken connection go to the protocol only; any other error is also reported to the loop.
EXPECTED_ERRORS = (ConnectionError, TimeoutError)


def open_transport(
    loop: asyncio.AbstractEventLoop,
    socket: TcpSocket,
    protocol: asyncio.BaseProtocol,
    made: asyncio.Future[None] | None = None,
) -> SimTransport:
    """Attach `protocol` to a connected socket; later turns call connection_made, begin to read, then call `made`."""
    transport = SimTransport(loop, socket, protocol)
    loop.call_soon(protocol.connection_made, transport)
    loop.call_soon(transport.start_reading)
    if made is not None:
        loop.call_soon(settle, made, None, None)
    return transport


class SimTransport(asyncio.Transport):
    """Implements `tcp.SocketUser`. Bytes that do not fit into the window wait in user space."""

    __deletable__ = ("_read_handle", "_write_handle")  # for mypyc: see `_let_go`

    def __init__(
        self, loop: asyncio.AbstractEventLoop, socket: TcpSocket, protocol: asyncio.BaseProtocol
    ) -> None:
        self._loop = loop
        self._socket = socket
        self._protocol: Any = protocol
        self._queue = OWNER.get()
        context = copy_context()
        self._read_handle = SimHandle(self._read, (), context)
        self._write_handle = SimHandle(self._write_buffered, (), context)
        self._is_read_pending = False
        self._is_write_pending = False
        self._is_reading = False
        self._is_paused = False
        self._is_closing = False
        self._is_lost = False  # connection_lost was called or will be
        self._is_eof_written = False
        self._is_protocol_paused = False
        self._buffer: list[bytes] = []
        self._buffer_size = 0
        self._high, self._low = HIGH_WATER, HIGH_WATER // 4
        socket.user = self

    # --- for the protocol ---------------------------------------------------------------------------

    def get_extra_info(self, name: str, default: object = None) -> object:
        if name == "peername":
            return self._socket.remote
        if name == "sockname":
            return self._socket.local
        return default

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol

    def is_closing(self) -> bool:
        return self._is_closing

    def is_reading(self) -> bool:
        return self._is_reading

    def pause_reading(self) -> None:
        self._is_paused = True
        self._is_reading = False

    def resume_reading(self) -> None:
        self._is_paused = False
        self.start_reading()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        if self._is_eof_written:
            raise RuntimeError("Cannot call write() after write_eof()")
        if self._is_lost or not data:
            return
        if type(data) is not bytes:
            data = bytes(data)
        socket = self._socket
        if socket.is_gone or socket.outbound is None:
            self._abandon(socket.error or BrokenPipeError("Broken pipe"))
        elif not self._buffer and socket.outbound.outstanding + len(data) <= WINDOW:
            socket.outbound.send(data)
        else:
            self._buffer_bytes(data)

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        self.write(b"".join(list_of_data))

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if self._is_closing or self._is_eof_written:
            return
        self._is_eof_written = True
        if not self._buffer:
            self._socket.shut_down()

    def get_write_buffer_size(self) -> int:
        return self._buffer_size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high!r}) must be >= low ({low!r}) must be >= 0")
        self._high, self._low = high, low
        self._pause_protocol_if_full()

    def close(self) -> None:
        """Deliver buffered bytes, then end."""
        if self._is_closing:
            return
        self._is_closing = True
        self._is_reading = False
        if not self._buffer:
            self._lose(None)

    def abort(self) -> None:
        """End now; bytes buffered in user space are lost."""
        self._abandon(None)

    # --- for the kernel -----------------------------------------------------------------------------

    def readable(self) -> None:
        if self._is_reading and not self._is_read_pending:
            self._is_read_pending = True
            queue = self._queue
            queue.ready.append(self._read_handle)
            if not queue.scheduled:
                queue.wake()

    def writable(self) -> None:
        if self._buffer and not self._is_write_pending:
            self._is_write_pending = True
            self._queue.enqueue(self._write_handle)

    def detach(self) -> None:
        self._is_closing = self._is_lost = True
        self._is_reading = False
        self._buffer = []

    # --- reading ------------------------------------------------------------------------------------

    def start_reading(self) -> None:
        if self._is_closing or self._is_paused or self._is_reading:
            return
        self._is_reading = True
        self._look_again()

    def _look_again(self) -> None:
        socket = self._socket
        if socket.buffer or socket.is_ended or socket.error is not None:
            self.readable()

    def _read(self) -> None:
        self._is_read_pending = False
        if not self._is_reading:
            return
        socket = self._socket
        if socket.buffer:
            data = socket.take()
            try:
                self._protocol.data_received(data)
            except Exception as error:
                self._report(error, "protocol.data_received() call failed")
                self._abandon(error)
            if socket.buffer or socket.is_ended or socket.error is not None:
                self.readable()
        elif socket.is_ended:  # also if a RST came behind it (Linux: SOCK_DONE)
            self._read_eof()
        elif socket.error is not None:
            self._abandon(socket.error)

    def _read_eof(self) -> None:
        try:
            keep_open = self._protocol.eof_received()
        except Exception as error:
            self._report(error, "protocol.eof_received() call failed")
            self._abandon(error)
            return
        self._is_reading = False
        if not keep_open:
            self.close()

    # --- writing ------------------------------------------------------------------------------------

    def _buffer_bytes(self, data: bytes) -> None:
        self._buffer.append(data)
        self._buffer_size += len(data)
        self._send_what_fits()
        self._socket.is_waiting = bool(self._buffer)
        self._pause_protocol_if_full()

    def _send_what_fits(self) -> None:
        outbound = self._socket.outbound
        assert outbound is not None
        room = WINDOW - outbound.outstanding
        if room <= 0:
            return
        data = b"".join(self._buffer)
        outbound.send(data[:room])
        self._buffer = [data[room:]] if len(data) > room else []
        self._buffer_size = max(0, len(data) - room)

    def _write_buffered(self) -> None:
        self._is_write_pending = False
        if self._is_lost or not self._buffer:
            return
        socket = self._socket
        if socket.is_gone:
            self._abandon(socket.error or BrokenPipeError("Broken pipe"))
            return
        self._send_what_fits()
        socket.is_waiting = bool(self._buffer)
        if self._is_protocol_paused and self._buffer_size <= self._low:
            self._is_protocol_paused = False
            self._protocol.resume_writing()
        if not self._buffer:
            self._finish_writing()

    def _finish_writing(self) -> None:
        if self._is_closing:
            self._lose(None)
        elif self._is_eof_written:
            self._socket.shut_down()

    def _pause_protocol_if_full(self) -> None:
        if self._buffer_size > self._high and not self._is_protocol_paused:
            self._is_protocol_paused = True
            self._protocol.pause_writing()

    # --- the end ------------------------------------------------------------------------------------

    def _abandon(self, error: Exception | None) -> None:
        if self._is_lost:
            return
        self._buffer, self._buffer_size = [], 0
        self._is_closing = True
        self._is_reading = False
        self._lose(error)

    def _lose(self, error: Exception | None) -> None:
        if not self._is_lost:
            self._is_lost = True
            self._loop.call_soon(self._call_connection_lost, error)

    def _call_connection_lost(self, error: Exception | None) -> None:
        try:
            self._protocol.connection_lost(error)
        finally:
            self._socket.user = None
            self._socket.close()
            self._let_go()

    def _let_go(self) -> None:
        """Drop references that lead back here, as asyncio does: no cycle is left to the garbage collector."""
        self._protocol = None
        del self._read_handle, self._write_handle

    def _report(self, error: Exception, message: str) -> None:
        if not isinstance(error, EXPECTED_ERRORS):
            self._loop.call_exception_handler({"message": message, "exception": error})
