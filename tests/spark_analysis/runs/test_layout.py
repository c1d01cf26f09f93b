"""A raw history laid out per queue says the same as one that was written per queue, whatever became of its files."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import FOLDER, MANIFEST
from staticfire.checkers.model.columns import EVENT_FIELDS
from staticfire.checkers.model.history import HistoryError
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.results.analysis import laid_out
from staticfire.spark_analysis.runs import layout, raw
from staticfire.spark_analysis.runs.inputs import find_runs
from staticfire.spark_analysis.runs.raw import RAW_FOLDER
from tests.support.synthetic import small


@pytest.mark.slow
def test_the_same_columns_and_ops(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Raw parts are many, and a large queue is split by offset range."""
    monkeypatch.setattr(raw, "PART_ROWS", 5000)
    monkeypatch.setattr(layout, "ROWS_A_PART", 1500)
    [queued] = small(tmp_path / "queued")
    source = small(tmp_path / "raw", layout="raw")
    [run] = laid_out(source, InProcess())
    assert not run.raw
    assert len(source[0].manifest.message_events) > 1
    assert max(part.rows for part in run.manifest.message_events) <= 1500
    one, other = ColumnarHistory(queued.history), ColumnarHistory(run.history)
    read = one.columns(), other.columns()
    for name in EVENT_FIELDS:
        for rows in ("sends", "deliveries"):
            values = (getattr(getattr(of, rows), name).tolist() for of in read)
            assert len({tuple(of) for of in values}) == 1, name
    assert one.events() == other.events()
    assert [len(other.op_table(part)) for part in other.manifest.op_parts]


@pytest.mark.slow
def test_a_layout_is_found_again_and_not_made_twice(tmp_path: Path) -> None:
    [run] = laid_out(small(tmp_path, layout="raw"), InProcess())
    assert find_runs([tmp_path]) == [replace(run, label=tmp_path.name)]


@pytest.mark.slow
def test_a_layout_that_broke_off_is_no_history(tmp_path: Path) -> None:
    source = small(tmp_path, layout="raw")
    laid_out(source, InProcess())
    (tmp_path / FOLDER / MANIFEST).unlink()
    assert [run.raw for run in find_runs([tmp_path])] == [True]
    assert laid_out(find_runs([tmp_path]), InProcess())[0].manifest.rows == source[0].manifest.rows


def test_missing_and_damaged_raw_parts(tmp_path: Path) -> None:
    source = small(tmp_path, layout="raw")
    part = tmp_path / RAW_FOLDER / source[0].manifest.message_events[0].path
    part.write_bytes(part.read_bytes()[:-9])
    with pytest.raises(HistoryError, match=r"part-0\.parquet cannot be read as Parquet: "):
        laid_out(source, InProcess())
    part.unlink()
    with pytest.raises(HistoryError, match=r"part-0\.parquet is missing; the manifest names it"):
        laid_out(source, InProcess())
    assert not (tmp_path / FOLDER / MANIFEST).exists()
