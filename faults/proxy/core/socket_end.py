"""One of the two sockets of a proxied connection."""

from __future__ import annotations

import asyncio
import contextlib
import socket
import struct
from typing import Protocol, cast

from staticfire.faults.proxy.core.flow import End
from staticfire.faults.proxy.rocketmq.addresses import Address

LINGER_NONE = struct.pack("ii", 1, 0)  # close() sends RST and discards undelivered data


class EndOwner(Protocol):
    """Takes the events of a socket."""

    def made(self, end: SocketEnd) -> None: ...

    def received(self, end: SocketEnd, data: bytes) -> None: ...

    def ended(self, end: SocketEnd) -> None: ...

    def lost(self, end: SocketEnd) -> None: ...

    def pump(self) -> None: ...


class SocketEnd(asyncio.Protocol):
    """A socket: an asyncio protocol, and a `flow.Sink`."""

    def __init__(self, proxied: EndOwner) -> None:
        self._proxied = proxied
        self._transport: asyncio.Transport | None = None
        self._is_paused = False
        self.is_lost = False

    @property
    def was_made(self) -> bool:
        """Whether the socket is connected or has been."""
        return self._transport is not None

    @property
    def is_writable(self) -> bool:
        return self._transport is not None and not self._is_paused

    def address(self, which: str) -> Address:
        """Return the address of the peer ("peername") or of this end ("sockname")."""
        assert self._transport is not None, "asked for when there is a connection"
        return Address.of_socket(self._transport.get_extra_info(which))

    def write(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def end(self, end: End) -> None:
        if end is End.RESET:
            self.reset()
        elif self._transport is not None and not self._transport.is_closing():
            try:
                self._transport.write_eof()
            except OSError:  # the peer has reset it, and asyncio has not reported it yet
                self.reset()

    def reset(self) -> None:
        """Close with RST."""
        if self._transport is not None and not self._transport.is_closing():
            found: socket.socket = self._transport.get_extra_info("socket")
            with contextlib.suppress(OSError):
                found.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, LINGER_NONE)
            self._transport.abort()

    def close(self) -> None:
        """Close the socket once everything is written."""
        if self._transport is not None:
            self._transport.close()

    def set_reading(self, wanted: bool) -> None:
        if self._transport is None or self._transport.is_closing():
            return
        if wanted:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()

    # asyncio calls these

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        self._proxied.made(self)

    def data_received(self, data: bytes) -> None:
        self._proxied.received(self, data)

    def eof_received(self) -> bool:
        self._proxied.ended(self)
        return True  # the other direction stays open

    def pause_writing(self) -> None:
        self._is_paused = True
        self._proxied.pump()

    def resume_writing(self) -> None:
        self._is_paused = False
        self._proxied.pump()

    def connection_lost(self, exc: Exception | None) -> None:
        self.is_lost = True
        self._proxied.lost(self)
