"""The replication stream between brokers, which does not use remoting."""

from __future__ import annotations

import asyncio
import struct
from typing import NamedTuple

from staticfire.harness.conformance.wire import CannotConnect, NoAnswer
from staticfire.harness.conformance.wire_log import WireLog
from staticfire.system_under_test.remoting.address import parse_address

CONNECT_S = 5.0
_HEAD = struct.Struct(">qi")  # position in the log, size


class HaFrame(NamedTuple):
    """A range of the master's log; an empty one is a heartbeat."""

    position: int
    data: bytes


class HaStream(asyncio.Protocol):
    """A slave's side of the replication, driven by a case."""

    def __init__(self, address: str, log: WireLog) -> None:
        self._address = address
        self._log = log
        self._buffer = bytearray()
        self._arrived = asyncio.Event()
        self._ended = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    def report(self, end: int) -> None:
        """Report an end of the slave's log to the master."""
        self._log.note(self._address, f"-> report {end}")
        if self._transport is not None:
            self._transport.write(end.to_bytes(8, "big", signed=True))

    async def next_frame(self, *, wait_s: float) -> HaFrame:
        """Return the next frame. Raises NoAnswer."""
        try:
            async with asyncio.timeout(wait_s):
                while (frame := self._take()) is None:
                    if self._ended.done():
                        raise NoAnswer(f"{self._address} closed the replication")
                    self._arrived.clear()
                    await self._arrived.wait()
                return frame
        except TimeoutError:
            raise NoAnswer(f"{self._address} sent no frame in {wait_s:g} s") from None

    async def is_closed(self, *, wait_s: float) -> bool:
        """Whether the master ends the connection within this time."""
        done, _ = await asyncio.wait([self._ended], timeout=wait_s)
        return bool(done)

    def close(self) -> None:
        if self._transport is not None:
            self._transport.abort()

    def _take(self) -> HaFrame | None:
        if len(self._buffer) < _HEAD.size:
            return None
        position, size = _HEAD.unpack_from(self._buffer)
        end = _HEAD.size + size
        if len(self._buffer) < end:
            return None
        frame = HaFrame(position, bytes(self._buffer[_HEAD.size : end]))
        del self._buffer[:end]
        self._log.note(self._address, f"<- {size} bytes of the log at {position}")
        return frame

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        self._arrived.set()

    def connection_lost(self, exc: Exception | None) -> None:
        self._log.note(self._address, "the replication ended")
        if not self._ended.done():
            self._ended.set_result(None)
        self._arrived.set()


async def connect_ha(address: str, log: WireLog) -> HaStream:
    """Connect to a master's replication address. Raises CannotConnect."""
    host, port = parse_address(address)
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(CONNECT_S):
            _, stream = await loop.create_connection(lambda: HaStream(address, log), host, port)
    except (OSError, TimeoutError) as error:
        raise CannotConnect(f"cannot connect to {address}: {error}") from None
    return stream
