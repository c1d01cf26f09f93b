"""Measures how late the event loop of the harness is. While it is late, the harness reads lines of clients late."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Final

PERIOD_S: Final = 0.01
REMEMBERED_NS: Final = 1_000_000_000


class StallMeter:
    """Wakes up every `PERIOD_S`, and measures how late it wakes.

    Args:
        now_ns: a clock that never goes back.
    """

    def __init__(self, now_ns: Callable[[], int]) -> None:
        self._now_ns = now_ns
        self._due_ns = 0
        # (time, length) in ns; later ones are shorter
        self._stalls: deque[tuple[int, int]] = deque()
        self._timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Measure from now on, on the running loop."""
        self._due_ns = self._now_ns() + round(PERIOD_S * 1e9)
        self._timer = asyncio.get_running_loop().call_later(PERIOD_S, self._wake)

    def stop(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def late_ns(self) -> int:
        """Return the longest stall of the last second, including one under way; 0 before the start."""
        now_ns = self._now_ns()
        while self._stalls and self._stalls[0][0] < now_ns - REMEMBERED_NS:
            self._stalls.popleft()
        current_ns = 0 if self._timer is None else max(now_ns - self._due_ns, 0)
        return max(current_ns, self._stalls[0][1] if self._stalls else 0)

    def _wake(self) -> None:
        now_ns = self._now_ns()
        late_ns = max(now_ns - self._due_ns, 0)
        while self._stalls and self._stalls[-1][1] <= late_ns:
            self._stalls.pop()
        self._stalls.append((now_ns, late_ns))
        self.start()
