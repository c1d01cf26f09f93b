"""The face through which the harness reads the logs of servers in their files."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol


@dataclass(frozen=True, slots=True)
class LogRange:
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


class RecordBody(Protocol):
    """The body of a message in a file of a log. Positions are those in the file."""

    @property
    def start(self) -> int: ...

    @property
    def body_start(self) -> int: ...

    @property
    def body_end(self) -> int: ...

    @property
    def end(self) -> int: ...

    def is_sound(self, record: bytes) -> bool:
        """Whether the body matches its checksum; `record` is all of it."""
        ...

    def facts(self, record: bytes) -> dict[str, object]:
        """The fields of a `RottenRecord` of the checkers' facts."""
        ...


class StoredLogs(Protocol):
    """How a system stores the log of a server. Positions are the physical offsets of messages."""

    def read(self, store: Path, begin: int, end: int) -> LogRange | None:
        """The bytes of a log below a kept store; None if no file has the first one. Raises OSError."""
        ...

    def records(self, log_range: LogRange, starts: Iterable[int]) -> Mapping[int, StoredRecord]:
        """Records by position. From each start on, they follow one another until there is none."""
        ...

    def begin_of(self, path: str) -> int | None:
        """The position of the first byte of a file of a log, by its path on the node; None for other files."""
        ...

    def marks(self, key: str) -> Sequence[bytes]:
        """Bytes of which at least one is in every write that stores the message with this key."""
        ...

    def bodies(self, data: bytes) -> Iterator[RecordBody]:
        """The records in the bytes of one file, up to the first bytes that are none."""
        ...


def log_position(stored_logs: StoredLogs | None, path: str) -> int | None:
    """The position of the first byte of a file of a log; None for other files, and where logs cannot be read."""
    return None if stored_logs is None else stored_logs.begin_of(path)
