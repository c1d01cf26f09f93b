"""Bounds the memory that all connections of one server together hold for their peers.

A peer may announce a frame of 16 MiB and never finish it, or keep sending requests without reading the answers. Over
the limit, the server ends the connection that has held memory for longest: an honest peer finishes soon.
"""

from __future__ import annotations

from typing import Protocol

HELD_SIZE_MAX = 128 << 20  # bytes of all connections of a server
UNCOUNTED_SIZE = 64 << 10  # bytes; the total leaves out connections that hold at most this


class Holder(Protocol):
    """A connection that waits for the rest of a frame, or for its peer to read."""

    def refuse_memory(self, held_size: int) -> None:
        """End: all connections together hold too much, and this one has held for longest."""
        ...


class HeldMemory:
    """Held bytes by connection, in the order in which the connections began to hold memory."""

    __slots__ = ("_held", "_size", "_size_max")

    def __init__(self, size_max: int = HELD_SIZE_MAX) -> None:
        self._held: dict[Holder, int] = {}
        self._size = 0
        self._size_max = size_max

    @property
    def size(self) -> int:
        """Bytes held now by the connections that count."""
        return self._size

    def hold(self, holder: Holder, size: int, *, is_new: bool = False) -> None:
        """`holder` now holds `size` bytes; `is_new`: it has finished with what it held before."""
        if not self._held and size <= UNCOUNTED_SIZE:  # nearly always
            return
        if is_new or size <= UNCOUNTED_SIZE:
            self.release(holder)
        if size <= UNCOUNTED_SIZE:
            return
        self._size += size - self._held.get(holder, 0)
        self._held[holder] = size
        while self._size > self._size_max:
            oldest = next(iter(self._held))
            held_size = self._held[oldest]
            self.release(oldest)
            oldest.refuse_memory(held_size)

    def release(self, holder: Holder) -> None:
        """Stop counting `holder`: it has released its memory, or has ended."""
        self._size -= self._held.pop(holder, 0)
