"""Logs errors that reach only the event loop, one line each, and counts repetitions.

asyncio would print a traceback for each: a process without free descriptors prints a thousand a second and fills the
disk.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import TracebackType

from staticfire.system_under_test.runtime.env import Log

REPEAT_AFTER_NS = 10_000_000_000
KINDS_MAX = 100  # distinct messages counted separately


class LoopErrors:
    """An exception handler for a loop: logs the first error of a kind at once, later only how many there were since."""

    def __init__(self, log: Log, *, now_ns: Callable[[], int]) -> None:
        self._log = log
        self._now_ns = now_ns
        self._unreported: dict[str, int] = {}
        self._logged_ns: dict[str, int] = {}

    def __call__(self, _loop: asyncio.AbstractEventLoop, context: dict[str, object]) -> None:
        message = str(context.get("message", "unhandled"))
        now_ns, logged_ns = self._now_ns(), self._logged_ns.get(message)
        if logged_ns is not None and now_ns - logged_ns < REPEAT_AFTER_NS:
            self._unreported[message] += 1
            return
        if len(self._logged_ns) >= KINDS_MAX:
            self._logged_ns.clear()
            self._unreported.clear()
        self._logged_ns[message] = now_ns
        more, self._unreported[message] = self._unreported.get(message, 0), 0
        error = context.get("exception")
        lines = _lines_of(error.__traceback__) if isinstance(error, BaseException) else ""
        self._log.error(message, error=repr(error), at=lines, more=more)


def _lines_of(trace: TracebackType | None) -> str:
    """File and line, from the outermost call to where the error was raised."""
    lines = []
    while trace is not None:
        lines.append(f"{trace.tb_frame.f_code.co_filename}:{trace.tb_lineno}")
        trace = trace.tb_next
    return " > ".join(lines)
