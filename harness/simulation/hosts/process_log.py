"""The structured log of a simulated process: a bounded list of lines, and part of a level-2 trace."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable

from staticfire.harness.log_line import LogLine
from staticfire.harness.simulation.scheduling.trace import Trace

LINES_MAX = 2_000


class ProcessLog:
    """Implements `staticfire.system_under_test.runtime.env.Log`. `lines` holds the last `LINES_MAX`."""

    def __init__(self, number: int, now_ns: Callable[[], int], trace: Trace) -> None:
        self.lines: deque[LogLine] = deque(maxlen=LINES_MAX)
        self._number = number
        self._now_ns = now_ns
        self._trace = trace

    def debug(self, event: str, /, **fields: object) -> None:
        self._add("debug", event, fields)

    def info(self, event: str, /, **fields: object) -> None:
        self._add("info", event, fields)

    def warning(self, event: str, /, **fields: object) -> None:
        self._add("warning", event, fields)

    def error(self, event: str, /, **fields: object) -> None:
        self._add("error", event, fields)

    def end(self, at_ns: int) -> None:
        """Drop lines that a killed process wrote after this time, in a turn that lasted beyond it."""
        while self.lines and self.lines[-1].time_ns > at_ns:
            self.lines.pop()

    def _add(self, level: str, event: str, fields: dict[str, object]) -> None:
        now_ns = self._now_ns()
        self.lines.append(LogLine(now_ns, level, event, fields))
        if self._trace.labelled:
            self._trace.record("log", now_ns, self._number, level, event, repr(fields))
