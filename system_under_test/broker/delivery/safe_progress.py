"""Advances a service's progress only once the copies it has made in the log are safe.

Delayed delivery and the transaction check copy messages and move on. If they saved progress while a copy is only in
memory, a power cut would erase the copy but not the progress, and the message would be lost. RocketMQ does this, with
setWaitStoreMsgOK(false).
"""

from __future__ import annotations

from collections import deque
from typing import NamedTuple


class _Copy(NamedTuple):
    """A copy that is not safe yet, and the queue offset behind the message of which it is one."""

    next_offset: int
    end_offset: int
    physical_offset: int


class SafeProgress:
    """`position`: the next queue offset to process. `offset`: the one that may be saved; it lags behind."""

    __slots__ = ("_damaged", "_unsafe", "offset", "position")

    def __init__(self, offset: int) -> None:
        self.offset = offset
        self.position = offset
        self._unsafe: deque[_Copy] = deque()
        self._damaged: dict[int, None] = {}  # unsafe copies, by physical offset

    def advance(self, copy_end_offset: int = 0, copy_offset: int = -1) -> None:
        """One message is processed, with a copy from `copy_offset` to `copy_end_offset`; 0: without a copy."""
        self.position += 1
        if copy_end_offset or self._unsafe:
            self._unsafe.append(_Copy(self.position, copy_end_offset, copy_offset))
        else:
            self.offset = self.position

    def jump(self, offset: int) -> None:
        """Go on at `offset`: messages before it do not exist any more, or never did."""
        self._unsafe.clear()
        self._damaged.clear()
        self.position = self.offset = offset

    def confirm(self, safe_end_offset: int) -> int:
        """Advance `offset` over copies that end at or before `safe_end_offset`, in order; return it."""
        unsafe = self._unsafe
        while (
            unsafe
            and unsafe[0].end_offset <= safe_end_offset
            and unsafe[0].physical_offset not in self._damaged
        ):
            self.offset = unsafe.popleft().next_offset
        return self.offset

    def hold(self, copy_offset: int) -> None:
        """The copy at this physical offset is damaged: if it is not safe yet, `confirm` does not pass it."""
        if any(copy.physical_offset == copy_offset for copy in self._unsafe):
            self._damaged[copy_offset] = None

    def holds(self, copy_offset: int) -> bool:
        return copy_offset in self._damaged

    def release(self, copy_offset: int) -> None:
        """The copy is sound again, or it is lost and cannot be made anew."""
        self._damaged.pop(copy_offset, None)

    def source_of(self, copy_offset: int) -> int | None:
        """The queue offset of the message of which the copy held is one; None if it is not held."""
        if copy_offset not in self._damaged:
            return None
        return next(
            copy.next_offset - 1 for copy in self._unsafe if copy.physical_offset == copy_offset
        )

    def renew(self, copy_offset: int, new_offset: int, new_end_offset: int) -> None:
        """Another copy, at `new_offset`, takes the place of the one held."""
        self.release(copy_offset)
        for number, copy in enumerate(self._unsafe):
            if copy.physical_offset == copy_offset:
                self._unsafe[number] = _Copy(copy.next_offset, new_end_offset, new_offset)
