"""Splits a stream into frames, which can be rewritten, or else into chunks of raw bytes."""

from __future__ import annotations

from enum import StrEnum
from typing import NamedTuple

from staticfire.system_under_test.protocol.frames import FRAME_SIZE_MAX, FRAME_SIZE_MIN, LENGTH_SIZE

TLS_HANDSHAKE = 0x16  # the first byte of a TLS stream; a valid frame begins with 0 or 1


class StreamKind(StrEnum):
    UNKNOWN = "unknown"  # nothing was received yet
    FRAMES = "frames"
    TLS = "tls"
    RAW = "raw"  # replication, or an unknown protocol


class Piece(NamedTuple):
    """Bytes that are delayed, discarded and counted together."""

    data: bytes
    is_frame: bool


class FrameSplitter:
    """Collects the bytes of one direction and returns whole frames, with their length fields.

    From the first bytes that are no frame on, it returns all bytes as they come, so that the receiver rejects them
    itself.
    """

    def __init__(self, *, is_raw: bool = False) -> None:
        self.kind = StreamKind.RAW if is_raw else StreamKind.UNKNOWN
        self._buffer = bytearray()

    @property
    def held_size(self) -> int:
        """The number of bytes of an incomplete frame."""
        return len(self._buffer)

    def feed(self, data: bytes) -> list[Piece]:
        """Add received bytes; return the pieces that are complete now."""
        if self.kind is StreamKind.UNKNOWN and data:
            self.kind = StreamKind.TLS if data[0] == TLS_HANDSHAKE else StreamKind.FRAMES
        if self.kind is not StreamKind.FRAMES:
            return [Piece(data, is_frame=False)]
        self._buffer += data
        return self._take_frames()

    def end(self) -> list[Piece]:
        """Return the rest of a stream that ended inside a frame."""
        rest = bytes(self._buffer)
        self._buffer.clear()
        return [Piece(rest, is_frame=False)] if rest else []

    def _take_frames(self) -> list[Piece]:
        buffer = self._buffer
        pieces: list[Piece] = []
        start = 0
        while len(buffer) - start >= LENGTH_SIZE:
            size = int.from_bytes(buffer[start : start + LENGTH_SIZE], "big", signed=True)
            if not FRAME_SIZE_MIN <= size <= FRAME_SIZE_MAX - LENGTH_SIZE:
                self.kind = StreamKind.RAW
                pieces.append(Piece(bytes(buffer[start:]), is_frame=False))
                start = len(buffer)
                break
            end = start + LENGTH_SIZE + size
            if end > len(buffer):
                break
            pieces.append(Piece(bytes(buffer[start:end]), is_frame=True))
            start = end
        del buffer[:start]
        return pieces
