"""The memory that the connections of one server hold for their peers, bounded for all of them together.

A peer may announce a frame of 16 MiB and never finish it, or ask and ask and never read the answers. Over the limit,
the connection that has held memory for longest is ended: an honest peer finishes soon.
"""

from __future__ import annotations

from typing import Protocol

HELD_SIZE_MAX = 128 << 20  # bytes of all connections of a server
UNCOUNTED_SIZE = 64 << 10  # a connection that holds no more than this is not looked at


class Holder(Protocol):
    """A connection that waits for the rest of a frame, or for its peer to read."""

    def refuse_memory(self, held_size: int) -> None:
        """End: all connections together hold too much, and this one has held for longest."""
        ...


class HeldMemory:
    """Who holds how much, in the order in which they began."""

    __slots__ = ("_held", "_size", "_size_max")

    def __init__(self, size_max: int = HELD_SIZE_MAX) -> None:
        self._held: dict[Holder, int] = {}
        self._size = 0
        self._size_max = size_max

    @property
    def size(self) -> int:
        """Bytes that are counted now."""
        return self._size

    def hold(self, holder: Holder, size: int, *, is_new: bool = False) -> None:
        """`holder` now has `size` bytes; `is_new` if it has made an end of what it held before."""
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
        """`holder` has released its memory, or has ended."""
        self._size -= self._held.pop(holder, 0)
