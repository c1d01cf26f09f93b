"""Round trips of columnar histories: random histories, written in any chunks and read back as the same ops."""

from __future__ import annotations

import dataclasses
import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import COMMIT_FIELDS, EVENT_FIELDS, Columns, Ints
from staticfire.checkers.model.history import Op
from tests.support.history_language import history

STEADY = settings(max_examples=60)
KEYS = ("a", "b", "p0-1", "p3-70000", "p3-70001")
SENDS = [
    f"0 {kind} send {{}}{place} {options}"
    for kind in ("ok", "ok", "info", "fail")
    for place in ("", "@1:5", "@0:1000000000000")
    for options in ("", "node=c1", "attempts=2", "error=FLUSH_DISK_TIMEOUT", "topic=u broker=c")
]
OTHERS = [
    "1 ok consume a@0:0 b@0:1",
    "1 invoke consume a@0:7",
    "1 ok consume a@0:7",
    "2 info consume p3-70000@1:3 group=h",
    "2 fail consume b@1:1 group=h",
    "2 invoke consume b@1:1 group=h",
    "1 ok consume a!@0:7 ?@0:9 p0-1@0:10~3",
    "1 ok assign 0 1",
    "1 ok assign",
    "1 ok commit 0:5 1:2",
    "1 info commit 0:5",
    "1 ok commit",
    "9 ok drain",
    "9 info drain 0:8:5",
    "9 ok probe b",
    "9 invoke probe b",
    "9 ok probe b key=x",
    "1 ok open node=c1",
]


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    """Sends of all endings (late, never), deliveries of anything, and what is about no message."""
    lines: list[str] = []
    for key in draw(st.permutations(KEYS)):
        ending = draw(st.sampled_from([*SENDS, ""]))
        began = draw(st.booleans()) or not ending
        at = draw(st.integers(0, len(lines)))
        if ending:
            lines.insert(at, ending.format(key))
        if began:
            lines.insert(draw(st.integers(0, at)), f"0 invoke send {key}")
    others = draw(st.lists(st.sampled_from(OTHERS), max_size=14))
    for line in dict.fromkeys(others) if any("key=" in line for line in others) else others:
        lines.insert(draw(st.integers(0, len(lines))), line)
    ops = history(*lines)
    fault = Op(index=len(ops), time_ns=10**10, process=-1, type="info", f="start_kill")
    return [*ops, fault]


def record(ops: list[Op], folder: Path, **sizes: int) -> ColumnarHistory:
    with ColumnarRecorder(folder, "run", **sizes) as recorder:
        for op in ops:
            recorder.add(op)
        recorder.finish()
    return ColumnarHistory(folder)


def keys(columns: Columns, messages: Ints) -> list[str | None]:
    return [columns.names.key(message) for message in messages.tolist()]


def assert_same(one: Columns, other: Columns) -> None:
    for side, names in (
        ("sends", EVENT_FIELDS),
        ("deliveries", EVENT_FIELDS),
        ("commits", COMMIT_FIELDS),
    ):
        for name in names:
            ours = getattr(getattr(one, side), name)
            theirs = getattr(getattr(other, side), name)
            assert ours.dtype == theirs.dtype, (side, name)
            if name == "message":  # numbers of other keys depend on when they were given
                ours, theirs = keys(one, ours), keys(other, theirs)
            assert list(ours) == list(theirs), (side, name)
    assert sorted(one.names.other_keys) == sorted(other.names.other_keys)
    for field in dataclasses.fields(one.names):
        ours, theirs = getattr(one.names, field.name), getattr(other.names, field.name)
        if field.name != "other_keys":
            assert np.array_equal(ours, theirs), field.name


@pytest.mark.slow
@STEADY
@given(histories(), st.sampled_from([1, 2, 5, 1000]), st.sampled_from([1, 3, 1000]))
def test_columns_read_back_are_those_of_the_ops(ops: list[Op], chunk: int, part_rows: int) -> None:
    columns, timeline = build_columns(ops)
    with tempfile.TemporaryDirectory() as folder:
        read = record(ops, Path(folder), chunk=chunk, part_rows=part_rows)

        assert read.complete
        assert_same(read.columns(), columns)
        assert read.timeline() == timeline
        assert list(read_ops(read)) == ops


def test_where_members_begin_is_read_back(tmp_path: Path) -> None:
    ops = history("1 ok assign 0 1", "1 ok begin 0:5 by=1", "1 ok begin 1", "1 ok commit 0:6")
    read = record(ops, tmp_path / "h")

    reported = [begun[3:] for begins in read.timeline().begins.values() for begun in begins]
    assert reported == [(5, 1), (None, None)]
    assert read.timeline_of_events().begins == read.timeline().begins
    assert list(read_ops(read)) == ops


def test_where_members_commit_is_read_back(tmp_path: Path) -> None:
    ops = history("1 ok commit_to 0", "1 ok commit 0:6", "1 ok commit_to 1 arrived=1")
    read = record(ops, tmp_path / "h")

    [reported] = read.timeline().commits_to.values()
    assert [sent[2:] for sent in reported] == [(0, False), (1, True)]
    assert read.timeline_of_events().commits_to == read.timeline().commits_to
    assert list(read_ops(read)) == ops


@pytest.mark.slow
@pytest.mark.parametrize("held_rows", [1, 10, 1000])
def test_each_queue_is_read_alone(tmp_path: Path, held_rows: int) -> None:
    ops = history(
        *(f"0 ok send k{n}@{n % 3}:{n}" for n in range(30)), "1 ok consume k4", "0 info send x"
    )
    read = record(ops, tmp_path / "h", chunk=4, held_rows=held_rows)

    assert read.queues() == [-1, 0, 1, 2]
    for queue in read.queues():
        columns = read.queue(queue)
        assert set(columns.sends.log.tolist()) == {queue}
        assert len(columns.sends) + len(columns.deliveries) == read.rows(queue)
    assert [read.names.key(int(m)) for m in read.queue(1).deliveries.message] == ["k4"]
    assert sum(map(read.rows, read.queues())) == read.manifest.rows == 32


@pytest.mark.slow
@settings(STEADY, max_examples=30)
@given(histories(), st.data())
def test_a_writer_that_dies_leaves_what_it_had_at_its_last_flush(
    ops: list[Op], data: st.DataObject
) -> None:
    flushes = data.draw(st.lists(st.integers(0, len(ops)), min_size=1, max_size=3, unique=True))
    with ExitStack() as exits:
        folder = exits.enter_context(tempfile.TemporaryDirectory())
        recorder = exits.enter_context(ColumnarRecorder(Path(folder), "run", chunk=3))
        for at, op in enumerate(ops):
            if at in flushes:
                recorder.flush()
            recorder.add(op)
        if len(ops) in flushes:
            recorder.flush()
        read = ColumnarHistory(Path(folder))

        columns, timeline = build_columns(ops[: max(flushes)])
        assert not read.complete
        assert list(read_ops(read)) == ops[: max(flushes)]
        assert read.timeline() == timeline
        assert len(read.columns().sends) == len(columns.sends)
        recorder.finish()
        assert list(read_ops(ColumnarHistory(Path(folder)))) == ops


@pytest.mark.slow
def test_small_parts_that_flushes_leave_are_merged_in_the_end(tmp_path: Path) -> None:
    ops = history(*(f"0 ok send k{n}@{n % 2}:{n}" for n in range(40)))
    with ColumnarRecorder(tmp_path / "run_id=7" / "h", "run", part_rows=8) as recorder:
        for op in ops:
            recorder.add(op)
            recorder.flush()
        assert len(ColumnarHistory(tmp_path / "run_id=7" / "h").manifest.message_events) == 40
        recorder.finish()

    read = ColumnarHistory(tmp_path / "run_id=7" / "h")
    assert [part.rows for part in read.manifest.message_events] == [8, 8, 4, 8, 8, 4]
    assert [part.rows for part in read.manifest.op_parts] == [8] * 5
    assert list(read_ops(read)) == ops
    named = {part.path for part in (*read.manifest.message_events, *read.manifest.op_parts)}
    there = {str(path.relative_to(read.folder)) for path in read.folder.rglob("*.parquet")}
    assert there == named
