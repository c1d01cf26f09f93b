"""Round trips of columnar histories: client stamps and message contents."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import UNKNOWN, MessageEvents, Names
from staticfire.checkers.model.history import HistoryError, Op, Stamp, decode_history, encode_op
from staticfire.checkers.model.message_contents import (
    CONTENTS,
    digest_of_properties,
    digest_of_text,
)
from tests.support.history_language import history

STEADY = settings(max_examples=60)
LINES = (
    "0 invoke send a",
    "0 ok send a",
    "0 ok send p0-1",
    "1 invoke consume a p0-1",
    "1 ok consume a p0-1",
    "2 invoke consume a group=h",
    "2 info consume a group=h",
    "2 invoke consume p0-1 group=h",
    "3 ok consume a group=i",
    "1 ok commit 0:2",
    "9 ok drain",
)
CONTENT = [
    [7, "x", 0, 1, 2, 3, 4],
    [None, "", 5, None, None, 100, None],
    [2**62, "y", None, 9, 9, 9, 0],
    [None] * 7,
    None,
]


def with_contents(op: Op, contents: list[Any]) -> Op:
    rows = [
        row if one is None else [*row, one]
        for row, one in zip(op.value["messages"], contents, strict=True)
    ]
    return replace(op, value={**op.value, "messages": rows})


@st.composite
def histories(draw: st.DrawFn) -> list[Op]:
    ops = []
    for op in history(*LINES):
        if draw(st.booleans()):
            op = replace(
                op, stamp=Stamp(op.time_ns - draw(st.integers(0, 9)), draw(st.integers(0, 5)))
            )
        if op.f == "consume" and draw(st.booleans()):
            some = st.sampled_from(CONTENT)
            op = with_contents(op, [draw(some) for _ in op.value["messages"]])
        if op.f == "send" and op.type == "ok" and draw(st.booleans()):
            reported: list[dict[str, Any]] = [{"id": 9}, {"id": 0, "properties": {"a": "1"}}]
            more = draw(st.sampled_from(reported))
            op = replace(op, value={**op.value, **more})
        ops.append(op)
    return ops


def tags(names: Names, events: MessageEvents) -> list[str | None]:
    return [None if tag == UNKNOWN else names.tags[tag] for tag in events.tag.tolist()]


@pytest.mark.slow
@STEADY
@given(histories(), st.sampled_from([1, 1000]))
def test_columns_and_lines_say_the_same(ops: list[Op], part_rows: int) -> None:
    columns, timeline = build_columns(ops)
    assert decode_history(b"".join(map(encode_op, ops))).ops == ops
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ColumnarRecorder(folder, "run", part_rows=part_rows, chunk=part_rows) as recorder:
            for op in ops:
                recorder.add(op)
                if op.index == 5:
                    recorder.flush()
            recorder.finish()
        read = ColumnarHistory(folder)

        assert list(read_ops(read)) == ops
        assert read.timeline() == timeline
        for side in ("sends", "deliveries"):
            ours, theirs = getattr(read.columns(), side), getattr(columns, side)
            for column in {*CONTENTS} - {"tag"} | {"at_ns", "invoke_at_ns", "within_ns"}:
                assert list(getattr(ours, column)) == list(getattr(theirs, column)), column
            assert tags(read.names, ours) == tags(columns.names, theirs)


def test_contents_are_those_of_the_call_unless_the_completion_has_some() -> None:
    called, ended = history("0 ok send a", "1 invoke consume a", "1 ok consume a")[1:]
    first, second = [1, "x", 2, 3, 4, 5, 6], [7, "", 8, 9, 10, 11, 12]
    for ops, wanted in (
        ([with_contents(called, [first]), ended], first),
        ([with_contents(called, [first]), with_contents(ended, [second])], second),
        ([with_contents(called, [first])], first),
        ([with_contents(ended, [second])], second),
    ):
        columns, _ = build_columns(ops)
        found = [int(getattr(columns.deliveries, name)[0]) for name in CONTENTS]
        found[1] = columns.names.tags[found[1]]  # type: ignore[call-overload]
        assert found == wanted


def test_what_is_not_reported_is_unknown() -> None:
    columns, _ = build_columns(history("0 ok send a", "1 ok consume a"))

    deliveries = columns.deliveries
    assert {int(getattr(deliveries, name)[0]) for name in CONTENTS} == {UNKNOWN}
    assert (columns.sends.at_ns[0], columns.sends.message_id[0]) == (UNKNOWN, UNKNOWN)


@pytest.mark.parametrize(
    ("contents", "complaint"),
    [
        ([1], "expected a list of message_id, tag, properties"),
        ([1, 2, 3, 4, 5, 6, 7], "tag is 2; expected text or null"),
        ([-1, "", 3, 4, 5, 6, 7], "message_id is -1; expected 0 to"),
        ([1, "", 3, True, 5, 6, 7], "born_ms is True; expected 0 to"),
        ([None, "", 3, -4, 5, 6, 7], "born_ms is -4; expected 0 to"),
        ([None, "", 3, 2**63, 5, 6, 7], f"born_ms is {2**63}; expected 0 to"),
        (7, "contents are 7"),
    ],
)
def test_contents_that_are_none_are_one_sentence(contents: Any, complaint: str) -> None:
    op = with_contents(history("1 ok consume a")[0], [contents])
    good = with_contents(history("1 ok consume b")[0], [[None] * 7])

    with pytest.raises(HistoryError, match=f"op 1: .*{complaint}"):
        build_columns([good, replace(op, index=1)])


@pytest.mark.parametrize("stamp", ["5", "[1]", "[1, -1]", "[1, 2.5]", "[true, 1]"])
def test_a_stamp_that_is_none_is_one_sentence(stamp: str) -> None:
    line = encode_op(history("0 invoke send a")[0]).decode()[: -len("}\n")]

    with pytest.raises(HistoryError, match=r"line 1: stamp is .*expected"):
        decode_history(f'{line},"stamp":{stamp}}}\n'.encode())


def test_digests_are_those_of_the_documentation() -> None:
    """docs/history.md has the same figures, for clients in other languages."""
    assert digest_of_properties({}) == 0
    assert digest_of_properties({"b": "2", "a": "1"}) == digest_of_text("a\x011\x02b\x012\x02")
    assert digest_of_properties({"a": "1"}) == 2304185273378275721
    assert digest_of_text("7F00000100002A9F0000000000000001") == 8037918215297233111
