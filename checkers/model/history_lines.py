"""Reads a history of JSON lines op by op, for files that are larger than memory."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import BinaryIO

from staticfire.checkers.model.history import HistoryError, Op, decode_line

LINE_BYTES_MAX = 64 << 20


class HistoryLines:
    """The ops of a file of JSON lines. Iterate once; afterwards `torn` says whether the last line was cut short."""

    def __init__(self, file: BinaryIO, name: str) -> None:
        self._file, self._name = file, name
        self.torn = False
        self.position = 0  # bytes read

    def __iter__(self) -> Iterator[Op]:
        """Yield the ops. Raises HistoryError with the file name and the line number, OSError."""
        before_ns = 0
        lines = iter(partial(self._file.readline, LINE_BYTES_MAX), b"")
        for number, line in enumerate(lines, start=1):
            self.position += len(line)
            if not line.endswith(b"\n"):
                if len(line) == LINE_BYTES_MAX:
                    raise HistoryError(
                        f"{self._name} line {number}: longer than the {LINE_BYTES_MAX} bytes of an op"
                    )
                self.torn = True
                return
            op = decode_line(line, f"{self._name} line {number}")
            if op.index != number - 1:
                what = "appears twice" if op.index < number - 1 else f"follows {number - 2}"
                raise HistoryError(
                    f"{self._name} line {number}: index {op.index} {what}; indices are 0, 1, 2, ..."
                )
            if op.time_ns < before_ns:
                raise HistoryError(
                    f"{self._name} line {number}: time_ns {op.time_ns} is before {before_ns}, the time of "
                    "the line above; a history is in the order of time"
                )
            before_ns = op.time_ns
            yield op
