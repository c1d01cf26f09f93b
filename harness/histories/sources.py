"""Sources of ops: a run folder, JSON lines, columns, or EDN of Jepsen."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import BinaryIO, Protocol

from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import FOLDER, MANIFEST
from staticfire.checkers.formats.jepsen.edn import EdnError, UnfinishedEdn, parse_all
from staticfire.checkers.formats.jepsen.reading import JepsenReader
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.model.history_lines import HistoryLines
from staticfire.checkers.model.plain_files import plain_size
from staticfire.harness.run_folder.run_folder import RunFolder

LINES = "history.jsonl"
EDN = ".edn"
EDN_LINE_BYTES_MAX = 1 << 29  # a history may be one vector in one line
TRANSACTION = re.compile(rb":f[\s,]+:txn\b")
VALUE_LINES_MAX = 10_000  # lines of EDN that one value may span


class Source(Protocol):
    """One history. `ops` may be called more than once; the other facts are those of the last call."""

    path: Path
    size: int  # of the whole history, in the unit of `position`
    torn: bool

    @property
    def position(self) -> int: ...

    def ops(self) -> Iterator[Op]:
        """Raises HistoryError, OSError."""
        ...

    def notes(self) -> list[str]:
        """Return sentences about ops that were left out."""
        ...


def source_at(path: Path) -> Source:
    """Open the history at `path`: a file, a history.parquet folder, or the folder of a run.

    The files of a run must match its checksums. Raises HistoryError, OSError.
    """
    if (path / MANIFEST).exists():
        return ColumnSource(path)
    if path.is_dir():
        return _in_folder(path)
    if path.suffix == EDN:
        return EdnSource(path)
    return LineSource(path)


def columns_at(path: Path) -> Path | None:
    """Return the folder of complete columns at `path`, or beside the lines of a run there; None if there is none."""
    for folder in (path, path / FOLDER):
        if (folder / MANIFEST).exists() and read_manifest(folder).complete:
            return folder
    return None


def _in_folder(path: Path) -> Source:
    run = RunFolder(path)
    if run.is_finished:
        run.verify()
    if (path / LINES).exists():
        return LineSource(path / LINES)
    if (path / FOLDER).is_dir():
        return ColumnSource(path / FOLDER)
    raise HistoryError(f"{path} holds no history: neither {LINES} nor {FOLDER}/")


class LineSource:
    """A file of JSON lines."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.size = plain_size(path)
        self.torn = False
        self._lines: HistoryLines | None = None

    @property
    def position(self) -> int:
        return 0 if self._lines is None else self._lines.position

    def ops(self) -> Iterator[Op]:
        with self.path.open("rb") as file:
            self._lines = HistoryLines(file, str(self.path))
            yield from self._lines
            self.torn = self._lines.torn

    def notes(self) -> list[str]:
        return []


class ColumnSource:
    """A history.parquet folder."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._history = ColumnarHistory(path)
        self.size = self._history.manifest.ops
        self.torn = not self._history.complete
        self.position = 0

    def ops(self) -> Iterator[Op]:
        for op in read_ops(self._history):
            self.position = op.index + 1
            yield op

    def notes(self) -> list[str]:
        return []


class EdnSource:
    """A file of EDN: Jepsen's ops, one after the other or in one vector."""

    def __init__(self, path: Path, *, transactions: bool | None = None) -> None:
        """`transactions`: whether to yield ops of several sends and polls as such, too; None: if there is a txn."""
        self.path = path
        self.size = plain_size(path)
        self.torn = False
        self.position = 0
        self._transactions = transactions
        self._left_out: Counter[str] = Counter()

    def ops(self) -> Iterator[Op]:
        wanted = self._transactions
        reader = JepsenReader(transactions=self._holds_transactions() if wanted is None else wanted)
        self._left_out = reader.left_out
        self.position = 0
        with self.path.open("rb") as file:
            for number, value in self._values(file):
                try:
                    for fields in value if isinstance(value, list) else [value]:
                        yield from reader.read(fields)
                except HistoryError as error:
                    raise HistoryError(f"{self.path} line {number}: {error}") from error

    def _holds_transactions(self) -> bool:
        with self.path.open("rb") as file:
            return any(TRANSACTION.search(line) for _, line in self._lines(file))

    def _lines(self, file: BinaryIO) -> Iterator[tuple[int, bytes]]:
        """Yield (number, line). Raises HistoryError for a line without an end."""
        lines = iter(partial(file.readline, EDN_LINE_BYTES_MAX), b"")
        for number, line in enumerate(lines, start=1):
            if len(line) == EDN_LINE_BYTES_MAX:
                raise HistoryError(
                    f"{self.path} line {number}: longer than {EDN_LINE_BYTES_MAX} bytes"
                )
            yield number, line

    def notes(self) -> list[str]:
        return [f"left out: {count} {f}" for f, count in sorted(self._left_out.items())]

    def _values(self, file: BinaryIO) -> Iterator[tuple[int, object]]:
        """Yield (line, value); a value may span lines."""
        text, first, unfinished, is_empty = "", 1, "", True
        for number, line in self._lines(file):
            self.position += len(line)
            try:
                text += line.decode()
            except UnicodeDecodeError as error:
                raise HistoryError(f"{self.path} line {number} is not UTF-8 text") from error
            try:
                values = parse_all(text)
            except UnfinishedEdn as error:
                unfinished = str(error)
                if number - first > VALUE_LINES_MAX:
                    raise HistoryError(f"{self.path} line {first}: {error}") from error
                continue
            except EdnError as error:
                raise HistoryError(f"{self.path} line {number}: {error}") from error
            for value in values:
                is_empty = False
                yield first, value
            text, first = "", number + 1
        self.torn = bool(text)
        if self.torn and is_empty:
            raise HistoryError(f"{self.path} line {first}: {unfinished}, and no op is before it")
