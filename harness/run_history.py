"""The history of a run folder, in whichever form it is there: JSON lines, columns, or both."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from checkers.column_builder import build_columns
from checkers.columns import Columns
from checkers.history import Op, read_history
from checkers.timeline import Timeline

COLUMNS_PAY = 4_000_000  # bytes of JSON lines: below it they are read as fast as columns


@dataclass(frozen=True, slots=True, kw_only=True)
class RunHistory:
    """What the checkers need of a history. `torn`: whoever wrote it did not come to the end."""

    columns: Columns
    timeline: Timeline
    events: Sequence[Op]  # at least the ops that touch no message
    torn: bool


def read_run_history(lines: Path, columns: Path, *, columns_pay: int = COLUMNS_PAY) -> RunHistory:
    """Read `history.jsonl` or `history.parquet/`.

    The lines are the record; columns are read in their place where there are no lines, or where they are faster and
    say the same. Raises HistoryError, and OSError when there is neither.
    """
    if not lines.exists() and columns.is_dir():
        return _read_columns(columns)
    if columns.is_dir() and lines.stat().st_size >= columns_pay and _say_the_same(lines, columns):
        return _read_columns(columns)
    history = read_history(lines)
    built, timeline = build_columns(history.ops)
    return RunHistory(columns=built, timeline=timeline, events=history.ops, torn=history.torn)


def _read_columns(folder: Path) -> RunHistory:
    from checkers.columnar.reader import ColumnarHistory

    history = ColumnarHistory(folder)
    columns, timeline = history.whole()
    return RunHistory(
        columns=columns, timeline=timeline, events=history.events(), torn=not history.complete
    )


def _say_the_same(lines: Path, folder: Path) -> bool:
    """Whether the columns were made of exactly these lines."""
    from checkers.columnar.files import crc_of_file
    from checkers.columnar.manifest import read_manifest
    from checkers.history import HistoryError

    try:
        manifest = read_manifest(folder)
    except (HistoryError, OSError):
        return False
    source = manifest.source
    if source is None or not manifest.complete or lines.stat().st_size != source.bytes:
        return False
    return crc_of_file(lines, source.bytes) == source.crc32
