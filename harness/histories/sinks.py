"""Sinks of ops: JSON lines, columns, or EDN of Jepsen. A half-written file never has its final name."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import BinaryIO, Protocol, Self

from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.formats.jepsen.writing import JepsenWriter
from staticfire.checkers.model.history import HistoryError, Op, encode_op
from staticfire.harness.histories.sources import EDN

LINES = ".jsonl"


class Sink(Protocol):
    """A new history, as a context manager: an unfinished one is removed at its end."""

    def __enter__(self) -> Self: ...

    def __exit__(self, *_: object) -> None: ...

    def add(self, op: Op) -> None:
        """Raises HistoryError, OSError."""
        ...

    def finish(self, *, torn: bool) -> None:
        """Move the history to its final name. `torn`: mark it as cut short."""
        ...

    def notes(self) -> list[str]:
        """Return sentences about content that the form cannot express."""
        ...


def sink_at(path: Path, run_id: str, ops: Callable[[], Iterable[Op]]) -> Sink:
    """Return a sink for a new file (.jsonl, .edn) or folder (any other name). `ops` are the same ops, for a sink that
    must read them first.

    Raises HistoryError if something is there, OSError.
    """
    if path.exists():
        raise HistoryError(f"{path} exists already; choose another name")
    if path.suffix == LINES:
        return LineSink(path)
    if path.suffix == EDN:
        return EdnSink(path, ops)
    return ColumnSink(path, run_id)


class _File:
    """A file under another name until it is whole."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file: BinaryIO = self._temporary.open("wb")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        self._temporary.unlink(missing_ok=True)

    def _keep(self, tail: bytes = b"") -> None:
        self._file.write(tail)
        self._file.flush()
        os.fsync(self._file.fileno())
        self._file.close()
        self._temporary.rename(self._path)


class LineSink(_File):
    """A file of JSON lines."""

    def add(self, op: Op) -> None:
        self._file.write(encode_op(op))

    def finish(self, *, torn: bool) -> None:
        self._keep(b"{" if torn else b"")  # an incomplete last line marks the history as torn

    def notes(self) -> list[str]:
        return []


class EdnSink(_File):
    """A file of EDN, a line an op."""

    def __init__(self, path: Path, ops: Callable[[], Iterable[Op]]) -> None:
        self._writer = JepsenWriter()
        self._writer.look(ops())
        super().__init__(path)

    def add(self, op: Op) -> None:
        line = self._writer.line(op)
        if line is not None:
            self._file.write(line.encode())

    def finish(self, *, torn: bool) -> None:
        self._keep(b"{" if torn else b"")

    def notes(self) -> list[str]:
        left_out = sorted(self._writer.left_out.items())
        return [f"left out, Jepsen's queue workload has no such op: {n} {f}" for f, n in left_out]


class ColumnSink:
    """A history.parquet folder."""

    def __init__(self, path: Path, run_id: str) -> None:
        self._path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        shutil.rmtree(self._temporary, ignore_errors=True)
        path.parent.mkdir(parents=True, exist_ok=True)
        self._recorder = ColumnarRecorder(self._temporary, run_id)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._recorder.__exit__()
        shutil.rmtree(self._temporary, ignore_errors=True)

    def add(self, op: Op) -> None:
        self._recorder.add(op)

    def finish(self, *, torn: bool) -> None:
        self._recorder.finish(complete=not torn)
        self._temporary.rename(self._path)

    def notes(self) -> list[str]:
        return []
