"""Columns written beside a run by a thread: a failure of the thread does not stop the run."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.model.history import Op, encode_op, write_history
from staticfire.harness.recording.columns import ColumnKeeper, write_columns
from staticfire.harness.recording.history import read_run_history
from tests.support.history_language import history

OPS = history("0 invoke send a", "0 ok send a", "1 ok consume a", "0 invoke send b", "9 ok drain")


def keep(folder: Path, ops: list[Op]) -> str | None:
    keeper = ColumnKeeper(folder, "run")
    for op in ops:
        keeper.add(op, encode_op(op))
    return keeper.close()


def test_what_was_kept_is_the_history_of_the_lines(tmp_path: Path) -> None:
    lines, columns = tmp_path / "history.jsonl", tmp_path / "history.parquet"
    write_history(lines, OPS)

    assert keep(columns, OPS) is None
    kept = ColumnarHistory(columns)
    assert kept.complete
    assert list(read_ops(kept)) == OPS
    assert len(read_run_history(lines, columns, columns_pay=0).events) == 1  # read from the columns


def test_a_run_that_is_over_is_kept_in_the_same_form(tmp_path: Path) -> None:
    keep(tmp_path / "one", OPS)
    write_columns(tmp_path / "other", "run", OPS)

    assert (
        ColumnarHistory(tmp_path / "one").manifest == ColumnarHistory(tmp_path / "other").manifest
    )


def test_columns_are_durable_while_the_run_goes_on(tmp_path: Path) -> None:
    keeper = ColumnKeeper(tmp_path / "h", "run", flush_s=0.001)
    for op in OPS:
        keeper.add(op, encode_op(op))
    while not (tmp_path / "h" / "manifest.json").exists():
        pass  # bounded by the timeout of the test
    assert not ColumnarHistory(tmp_path / "h").complete
    assert keeper.close() is None
    assert ColumnarHistory(tmp_path / "h").complete


def test_an_op_that_breaks_the_conventions_ends_the_columns_and_nothing_else(
    tmp_path: Path,
) -> None:
    broken = replace(OPS[1], value={"key": "a"})

    reason = keep(tmp_path / "h", [OPS[0], broken, *OPS[2:]])

    assert reason is not None
    assert "op 1" in reason
    assert "topic" in reason


def test_a_folder_that_cannot_be_written_ends_nothing(tmp_path: Path) -> None:
    (tmp_path / "h").write_text("in the way")

    reason = keep(tmp_path / "h", OPS)

    assert reason is not None
    assert "cannot be written" in reason
