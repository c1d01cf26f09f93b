"""The standard error of a client as a file of bounded size, so that no client can fill the disk."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 64 << 20  # of one process
KEPT_BYTES: Final = 1 << 20  # kept of a process that wrote more
POLL_S: Final = 0.25


class BoundedLog:
    """The part of a log file that one process appends. Make it when the process starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = _size(path)

    async def guard(self, complain: Callable[[str], None]) -> None:
        """Check the size until it is too large; then call `complain` with a sentence about the process."""
        while _size(self._path) - self._start <= BYTES_MAX:
            await asyncio.sleep(POLL_S)
        complain(f"it wrote more than {BYTES_MAX} bytes to standard error")

    def cut(self) -> None:
        """Truncate a log that is too large to its beginning. Its process must have ended."""
        if _size(self._path) - self._start > BYTES_MAX:
            os.truncate(self._path, self._start + KEPT_BYTES)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
