"""Reads the observations of one run from its file, in the process that judges it.

Kept in memory for the partitions that follow. Never more than OBSERVED_BYTES_MAX of a file: beyond it, the task that
rests on observations is unknown. Half a line at the end is left out; `analyze` says that there is one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from staticfire.checkers.model.history import HistoryError, read_observations, unread_reason

BYTES_A_BYTE = 8  # of the file, in memory


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFile:
    """A file of observations as it was when the analysis began."""

    path: Path
    size: int

    @property
    def unread(self) -> str:
        """Why it is not read, empty when it is."""
        return unread_reason(self.path.name, self.size)

    def read(self) -> Sequence[Mapping[str, Any]]:
        """Nothing when it is too large. Raises HistoryError, also when it has changed; OSError when it is gone."""
        now = self.path.stat()
        if now.st_size != self.size:
            raise HistoryError(
                f"{self.path} has {now.st_size} bytes; it had {self.size} when the analysis began"
            )
        return _read(self.path, self.size, now.st_mtime_ns)


def observed_file(path: Path) -> ObservedFile | None:
    """None where the run holds no observations."""
    return ObservedFile(path=path, size=path.stat().st_size) if path.exists() else None


def bytes_in_memory(path: Path) -> int:
    """How much of memory the observations in a file take, about."""
    observed = observed_file(path)
    return 0 if observed is None or observed.unread else BYTES_A_BYTE * observed.size


@lru_cache(maxsize=1)
def _read(path: Path, _size: int, _mtime_ns: int) -> Sequence[Mapping[str, Any]]:
    return read_observations(path).records
