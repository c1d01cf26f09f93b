"""What the connections of one server hold of frames that are not complete yet, bounded for all of them together.

A frame may be 16 MiB, and anybody may announce one and never finish it. Over the limit, the connection whose frame has
been unfinished for longest is ended: an honest peer finishes soon.
"""

from __future__ import annotations

from typing import Protocol

UNFINISHED_SIZE_MAX = 128 << 20  # bytes of all connections of a server
UNCOUNTED_SIZE = 64 << 10  # a connection that holds no more than this is not looked at


class Holder(Protocol):
    """A connection that waits for the rest of a frame."""

    def refuse_unfinished(self, held_size: int) -> None:
        """End: all connections together hold too much, and this one has waited for longest."""
        ...


class UnfinishedFrames:
    """Who holds how much, in the order in which their frames began."""

    __slots__ = ("_held", "_size", "_size_max")

    def __init__(self, size_max: int = UNFINISHED_SIZE_MAX) -> None:
        self._held: dict[Holder, int] = {}
        self._size = 0
        self._size_max = size_max

    @property
    def size(self) -> int:
        """Bytes that are counted now."""
        return self._size

    def hold(self, holder: Holder, size: int, *, is_new: bool) -> None:
        """`holder` now has `size` bytes of an unfinished frame; `is_new` if an earlier one was finished."""
        if is_new:
            self.release(holder)
        if size <= UNCOUNTED_SIZE:
            return
        self._size += size - self._held.get(holder, 0)
        self._held[holder] = size
        while self._size > self._size_max:
            oldest = next(iter(self._held))
            held_size = self._held[oldest]
            self.release(oldest)
            oldest.refuse_unfinished(held_size)

    def release(self, holder: Holder) -> None:
        """`holder` has finished its frame, or has ended."""
        self._size -= self._held.pop(holder, 0)
