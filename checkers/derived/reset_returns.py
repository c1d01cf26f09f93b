"""Resets of offsets as the reason why a member goes back in a queue.

A reset sets a member back only once, to the offset that the leader answered or a higher one. A member that goes back a
second time needs another reason.
"""

from __future__ import annotations

from collections import Counter

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.model.columns import LogKey

SENT_BACK = "sent_back"  # row of the table of excuses


class ResetReturns:
    """The resets that may still explain why a process of a group goes back in a queue."""

    def __init__(self, context: Context, group: str, queue: LogKey) -> None:
        self._context = context
        self._group, self._queue = group, queue
        self._taken: Counter[tuple[int, str]] = Counter()

    def take(self, process: int, since_ns: int, until_ns: int, offset: int) -> Window | None:
        """Use up a reset by which a process may have gone back to an offset between two times; None without one."""
        window = self._context.excuses.find(
            SENT_BACK,
            since_ns,
            until_ns,
            self._queue.stream,
            self._members(),
            counts=lambda window: self._may_send(window, process, offset),
        )
        if window is not None:
            self._taken[process, window.fault.fault_id] += 1
        return window

    def _members(self) -> frozenset[str]:
        """Return the nodes of the group's members, which the leader notified."""
        key = "members", self._group
        if key not in self._context.cache:
            self._context.cache[key] = self._context.timeline.members(self._group)
        found = self._context.cache[key]
        assert isinstance(found, frozenset)
        return found

    def _may_send(self, window: Window, process: int, offset: int) -> bool:
        taken = self._taken[process, window.fault.fault_id]
        orders = window.orders(self._group, self._queue)
        return taken < max(len(orders), 1) and window.sends_back_to(
            self._group, self._queue, offset
        )
