"""Reads the history of a run folder: JSON lines, columns, or both."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Protocol

from staticfire.checkers.engine.kernel import Checker
from staticfire.checkers.formats.chunks.check_files import Progress, check_files
from staticfire.checkers.formats.columnar.files import crc_of_file
from staticfire.checkers.formats.columnar.manifest import read_manifest
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.history import NEMESIS, HistoryError, Op
from staticfire.checkers.model.history_lines import HistoryLines
from staticfire.checkers.verdicts.compose import RunVerdict, check_columns

COLUMNS_PAY = 4_000_000  # bytes of JSON lines: below it they are read as fast as columns


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """The history of a run. `torn`: its writer did not finish it."""

    events: Sequence[Op]  # at least those of the nemesis
    torn: bool
    check: Check


class Check(Protocol):
    """Judges the history."""

    def __call__(
        self,
        observations: Sequence[Mapping[str, object]],
        facts: RunFacts,
        checkers: Sequence[Checker],
    ) -> RunVerdict: ...


def read_run_history(
    lines: Path,
    columns: Path,
    *,
    columns_pay: int = COLUMNS_PAY,
    jobs: int = 1,
    progress: Progress = lambda _done, _all: None,
) -> RunHistory:
    """Read `history.jsonl` or `history.parquet/`; the latter may be larger than memory, and `jobs` processes judge it.

    The lines are the record. Columns are read instead where there are no lines, or where columns are faster and hold
    the same history. While it judges columns, `check` calls `progress` with the rows judged so far and the number of
    all rows. Both raise HistoryError, and OSError if there is neither form.
    """
    if not lines.exists() and columns.is_dir():
        return _open_columns(columns, jobs, progress)
    if columns.is_dir() and lines.stat().st_size >= columns_pay and _say_the_same(lines, columns):
        return _open_columns(columns, jobs, progress)
    return _read_lines(lines)


def _read_lines(path: Path) -> RunHistory:
    """Turn ops into columns as they are read, since ops need several times the memory."""
    events: list[Op] = []
    with path.open("rb") as file:
        lines = HistoryLines(file, path.name)
        columns, timeline = build_columns(_noting_events(lines, events))
    check = partial(check_columns, columns, timeline)
    return RunHistory(events=events, torn=lines.torn, check=check)


def _noting_events(ops: Iterable[Op], events: list[Op]) -> Iterator[Op]:
    for op in ops:
        if op.process == NEMESIS:
            events.append(op)
        yield op


def _open_columns(folder: Path, jobs: int, progress: Progress) -> RunHistory:
    history = ColumnarHistory(folder)
    check = partial(check_files, history, jobs=jobs, progress=progress)
    return RunHistory(events=history.events(), torn=not history.complete, check=check)


def _say_the_same(lines: Path, folder: Path) -> bool:
    """Whether the columns were made from exactly these lines."""
    try:
        manifest = read_manifest(folder)
    except (HistoryError, OSError):
        return False
    source = manifest.source
    if source is None or not manifest.complete or lines.stat().st_size != source.bytes:
        return False
    return crc_of_file(lines, source.bytes) == source.crc32
