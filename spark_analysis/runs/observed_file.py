"""Reads the observations of one run from its file, in the process that judges the run.

They stay in memory for the next partitions. A file above OBSERVED_BYTES_MAX is not read, and checkers that need
observations then answer "unknown". A torn last line is skipped; `analyze` reports it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from staticfire.checkers.model.history import HistoryError, read_observations, unread_reason

BYTES_A_BYTE = 8  # memory for a byte of the file, in bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ObservedFile:
    """A file of observations, with its size when the analysis began."""

    path: Path
    size: int

    @property
    def unread(self) -> str:
        """The reason that the file is not read; empty if it is."""
        return unread_reason(self.path.name, self.size)

    def read(self) -> Sequence[Mapping[str, Any]]:
        """Read the observations; none if the file is too large.

        Raises HistoryError, also if the file has changed; OSError if it is missing.
        """
        now = self.path.stat()
        if now.st_size != self.size:
            raise HistoryError(
                f"{self.path} has {now.st_size} bytes; it had {self.size} when the analysis began"
            )
        return _read(self.path, self.size, now.st_mtime_ns)


def observed_file(path: Path) -> ObservedFile | None:
    """Return the file; None for a run without observations."""
    return ObservedFile(path=path, size=path.stat().st_size) if path.exists() else None


def bytes_in_memory(path: Path) -> int:
    """Estimate the memory that the observations in a file take."""
    observed = observed_file(path)
    return 0 if observed is None or observed.unread else BYTES_A_BYTE * observed.size


@lru_cache(maxsize=1)
def _read(path: Path, _size: int, _mtime_ns: int) -> Sequence[Mapping[str, Any]]:
    return read_observations(path).records
