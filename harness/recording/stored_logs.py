"""The interface through which the harness reads the logs in servers' files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogRange:
    """Bytes of a log; `begin` is the log position of the first one."""

    begin: int
    data: bytes

    @property
    def end(self) -> int:
        return self.begin + len(self.data)

    def slice(self, begin: int, end: int) -> bytes:
        """Return the bytes from `begin` to `end` that the range holds."""
        return self.data[max(begin - self.begin, 0) : max(end - self.begin, 0)]


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """The record at one position of a log. `size` is 0 where no record begins."""

    size: int
    key: str | None
    text: str


class RecordBody(Protocol):
    """The body of a message in a file of a log. Positions are offsets in the file."""

    @property
    def start(self) -> int: ...

    @property
    def body_start(self) -> int: ...

    @property
    def body_end(self) -> int: ...

    @property
    def end(self) -> int: ...

    def is_sound(self, record: bytes) -> bool:
        """Whether the body matches its checksum; `record` is the whole record."""
        ...

    def facts(self, record: bytes) -> dict[str, object]:
        """Return the fields of a `RottenRecord` of the checkers' facts."""
        ...


class StoredLogs(Protocol):
    """Reads the log of a server in the system's format. Positions are the physical offsets of messages."""

    def read(self, store: Path, begin: int, end: int) -> LogRange | None:
        """Read bytes of the log in a kept store folder; None if no file has the first byte. Raises OSError."""
        ...

    def records(self, log_range: LogRange, starts: Iterable[int]) -> Mapping[int, StoredRecord]:
        """Return records by position: those that follow one another from each start on."""
        ...

    def begin_of(self, path: str) -> int | None:
        """Return the log position of a file's first byte, by the file's path on the node; None for other files."""
        ...

    def marks(self, key: str) -> Sequence[bytes]:
        """Return byte strings, at least one of which is in every write that stores the message with this key."""
        ...

    def bodies(self, data: bytes) -> Iterator[RecordBody]:
        """Return the records in the bytes of one file, up to the first bytes that are no record."""
        ...


def log_position(stored_logs: StoredLogs | None, path: str) -> int | None:
    """Return the log position of a file's first byte; None for other files, and where logs cannot be read."""
    return None if stored_logs is None else stored_logs.begin_of(path)
