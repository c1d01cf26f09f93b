"""The face through which reports read the logs of servers in the files that a run keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogStretch:
    """Bytes of a log; `begin` is the position of the first one."""

    begin: int
    data: bytes

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def slice(self, begin: int, end: int) -> bytes:
        """The bytes of these positions, as far as they are there."""
        return self.data[max(begin - self.begin, 0) : max(end - self.begin, 0)]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """What lies at a place in a log. `size` is 0 where no record begins."""

    size: int
    key: str | None
    text: str


class StoredLogs(Protocol):
    """How a system stores the log of a server. Positions are the physical offsets of messages."""

    def read(self, store: Path, begin: int, end: int) -> LogStretch | None:
        """The bytes of a log below a kept store; None if no file has the first one. Raises OSError."""
        ...

    def records(self, stretch: LogStretch, starts: Iterable[int]) -> Mapping[int, StoredRecord]:
        """Records by position. From each start on, they follow one another until there is none."""
        ...

    def begin_of(self, path: str) -> int | None:
        """The position of the first byte of a file of a log, by its path on the node; None for other files."""
        ...
