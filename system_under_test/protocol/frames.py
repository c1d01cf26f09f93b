"""Bytes to frames: a 4-byte length, then that many bytes (RocketMQ: NettyDecoder)."""

from __future__ import annotations

import struct

LENGTH_SIZE = 4
FRAME_SIZE_MAX = 16_777_216  # com.rocketmq.remoting.frameMaxLength; counts the length field, too
FRAME_SIZE_MIN = 4  # the word that holds serialize type and header length

_unpack_length = struct.Struct(">i").unpack_from


class RemoteProtocolError(ValueError):
    """The peer broke the protocol: the connection must be closed."""


class FrameDecoder:
    """Collects bytes and hands out whole frames, without their length field.

    Never holds more than one unfinished frame.
    """

    def __init__(self, frame_size_max: int = FRAME_SIZE_MAX) -> None:
        self._size_max = frame_size_max - LENGTH_SIZE
        self._buffer = bytearray()

    @property
    def held_size(self) -> int:
        """Bytes of a frame that is not complete yet."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[bytes]:
        """Add what was received and return the frames that are complete now.

        Raises RemoteProtocolError: a length is below 4 or above the limit.
        """
        buffer: bytes | bytearray = data
        if self._buffer:  # mostly nothing is left over: whole frames are copied once
            self._buffer += data
            buffer = self._buffer
        frames: list[bytes] = []
        position = 0
        available = len(buffer)
        while available - position >= LENGTH_SIZE:
            start = position + LENGTH_SIZE
            (size,) = _unpack_length(buffer, position)
            if not FRAME_SIZE_MIN <= size <= self._size_max:
                raise RemoteProtocolError(
                    f"frame length {size} is outside {FRAME_SIZE_MIN}..{self._size_max}"
                )
            if available - start < size:
                break
            position = start + size
            frames.append(_copied(buffer, start, position))
        if buffer is self._buffer:
            del buffer[:position]
        elif position < available:
            self._buffer += buffer[position:]
        return frames


def _copied(buffer: bytes | bytearray, start: int, end: int) -> bytes:
    """A part of the buffer, copied once."""
    if type(buffer) is bytes:
        return buffer[start:end]
    with memoryview(buffer) as view:
        return bytes(view[start:end])
