"""Advances a service's progress only once the copies it has made in the log are safe.

Delayed delivery and the transaction check copy messages and move on. If they saved progress while a copy is only in
memory, a power cut would erase the copy but not the progress, and the message would be lost. RocketMQ does this, with
setWaitStoreMsgOK(false).
"""

from __future__ import annotations

from collections import deque


class SafeProgress:
    """`position`: the next queue offset to process. `offset`: the one that may be saved; it lags behind."""

    __slots__ = ("_unsafe", "offset", "position")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.position = offset
        self._unsafe: deque[tuple[int, int]] = deque()  # (next offset, end of its copy in the log)

    def advance(self, copy_end_offset: int = 0) -> None:
        """One message is processed, with a copy that ends at `copy_end_offset`; 0: without a copy."""
        self.position += 1
        if copy_end_offset or self._unsafe:
            self._unsafe.append((self.position, copy_end_offset))
        else:
            self.offset = self.position

    def jump(self, offset: int) -> None:
        """Go on at `offset`: messages before it do not exist any more, or never did."""
        self._unsafe.clear()
        self.position = self.offset = offset

    def confirm(self, safe_end_offset: int) -> int:
        """Advance `offset` over copies that end at or before `safe_end_offset`, in order; return it."""
        unsafe = self._unsafe
        while unsafe and unsafe[0][1] <= safe_end_offset:
            self.offset = unsafe.popleft()[0]
        return self.offset
