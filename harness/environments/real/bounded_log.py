"""The standard error of a client: a file of this machine, which a client that floods it must not fill."""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from pathlib import Path
from typing import Final

BYTES_MAX: Final = 64 << 20  # of one process
KEPT_BYTES: Final = 1 << 20  # of a process that wrote more
POLL_S: Final = 0.25


class BoundedLog:
    """What one process writes into a file to which it appends; made when the process starts."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._start = _size(path)

    async def guard(self, complain: Callable[[str], None]) -> None:
        """Look at the size until it is too large, then complain with what the process has done."""
        while _size(self._path) - self._start <= BYTES_MAX:
            await asyncio.sleep(POLL_S)
        complain(f"it wrote more than {BYTES_MAX} bytes to standard error")

    def cut(self) -> None:
        """Cut a log that is too large down to its beginning; its process has ended."""
        if _size(self._path) - self._start > BYTES_MAX:
            os.truncate(self._path, self._start + KEPT_BYTES)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0
