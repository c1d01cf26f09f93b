"""Condensed ops: ranges of messages give the same columns as the same messages reported one by one."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.recording import ColumnarRecorder
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.history import HistoryError, Op, OpType
from staticfire.checkers.model.message_ranges import (
    MessageRange,
    condensed,
    delivered_keys,
    messages_in,
    messages_of,
    nth_key,
    of_delivery,
    sends_of,
)
from staticfire.checkers.op_kinds.message_fields import MANY_MAX
from staticfire.checkers.verdicts.compose import check_run
from tests.support.history_language import GROUP, TOPIC, facts

PLACE = {"topic": TOPIC, "broker": "a", "queue": 0}


class Script:
    """Ops, one after the other, a millisecond apart."""

    def __init__(self) -> None:
        self.ops: list[Op] = []

    def op(self, type_: OpType, f: str, value: dict[str, Any], process: int = 3) -> None:
        index = len(self.ops)
        self.ops.append(
            Op(index=index, time_ns=index * 10**6, process=process, type=type_, f=f, value=value)
        )

    def sent(self, first: int, count: int, offset: int) -> None:
        value = {"topic": TOPIC, "key": f"p3-{first}", "count": count, "size": 64}
        self.op("invoke", "send_many", value)
        sent = [f"p3-{first}", offset, 1000 * offset, count, 1000 if count > 1 else 0]
        reported = {"status": "SEND_OK", "attempts": 1, "ranges": [sent]}
        self.op("ok", "send_many", {**value, **PLACE, **reported})

    def got(self, *ranges: list[Any], end: OpType = "ok") -> None:
        value = {"group": GROUP, **PLACE, "ranges": list(ranges)}
        self.op("invoke", "consume_many", value, process=100)
        self.op(end, "consume_many", value, process=100)

    def drained(self, end: int) -> None:
        value = {"group": GROUP, "topic": TOPIC, "queues": [["a", 0, 0, end, end]], "lag": 0}
        self.op("ok", "drain", value, process=100)


def row(first: int, offset: int, length: int, *, body_ok: bool = True, tries: int = 0) -> list[Any]:
    return [f"p3-{first}", offset, 1000 * offset, body_ok, tries, length, 1000]


def one_by_one(ops: list[Op]) -> list[Op]:
    """The same history without condensed ops: their messages share index and times."""
    reported: list[Op] = []
    for op in ops:
        if op.f == "consume_many":
            messages = [m for one in op.value["ranges"] for m in messages_of(of_delivery(one))]
            value = {**op.value, "messages": messages}
            reported.append(replace(op, f="consume", value=value))
        elif op.f == "send_many" and op.type == "invoke":
            for number in range(op.value["count"]):
                value = {**op.value, "key": nth_key(op.value["key"], number)}
                reported.append(replace(op, f="send", value=value))
        elif op.f == "send_many":
            reported += (replace(op, f="send", value=value) for value in sends_of(op.value))
        else:
            reported.append(op)
    return reported


def as_lists(columns: Columns) -> list[list[Any]]:
    return [
        getattr(events, field.name).tolist()
        for events in (columns.sends, columns.deliveries)
        for field in fields(events)
    ]


def test_columns_are_those_of_single_ops() -> None:
    script = Script()
    script.sent(0, 5, 0)
    script.sent(5, 1, 5)
    script.sent(6, 3, 6)
    script.got(row(0, 0, 2), row(2, 2, 4, body_ok=False))
    script.got(row(6, 6, 3, tries=1), end="info")
    script.op("invoke", "send_many", {"topic": TOPIC, "key": "p3-9", "count": 2, "size": 64})
    columns, _ = build_columns(script.ops)
    assert as_lists(columns) == as_lists(build_columns(one_by_one(script.ops))[0])
    assert len(columns.sends) == 11
    assert columns.deliveries.queue_offset.tolist() == list(range(9))


@given(
    st.lists(
        st.tuples(
            st.sampled_from(("p1-", "p1-0", "p-", "x", "p2-")), st.integers(0, 3), st.integers(0, 3)
        ),
        max_size=8,
    )
)
def test_what_was_condensed_is_found_again(drawn: list[tuple[str, int, int]]) -> None:
    messages = [
        [f"{prefix}{number}", number + more, 100 * number, more < 3, 0]
        for prefix, number, more in drawn
    ]
    ranges = condensed(messages)
    assert [message for one in ranges for message in messages_of(one)] == messages
    if ranges:
        script = Script()
        script.got(*(one.to_delivery() for one in ranges))
        assert len(build_columns(script.ops)[0].deliveries) == len(messages)


def test_messages_one_after_another_are_one_stretch() -> None:
    def record(n: int) -> list[Any]:
        longer = n == 500
        return [f"p3-{98 + n}", 7 + n, 500 + 230 * n + longer, True, 0]

    in_line = [[f"p3-{98 + n}", 7 + n, 500 + 230 * n, True, 0] for n in range(1000)]
    assert condensed(in_line) == [MessageRange("p3-98", 7, 500, True, 0, 1000, 230)]
    assert [one.length for one in condensed(map(record, range(1000)))] == [500, 2, 498]
    assert condensed([["p3-1", 0, 0, True, 0], ["p3-3", 1, 9, True, 0]])[1].key == "p3-3"
    assert condensed([[None, 0, 0, False, 0], [None, 1, 9, False, 0]])[1].key is None


def test_counting() -> None:
    script = Script()
    script.sent(0, 5, 0)
    script.got(row(0, 0, 2), row(2, 2, 3))
    assert [messages_in(op) for op in script.ops] == [5] * 4
    assert list(delivered_keys(script.ops[-1])) == [f"p3-{n}" for n in range(5)]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"count": 4}, "its ranges hold 5 messages; expected 4"),
        ({"count": MANY_MAX + 1}, "allowed are 1 to"),
        ({"key": "p3-1"}, "a range begins with 'p3-0'"),
        ({"ranges": [["p3-0", 0, 0, 5]]}, "a range has 4 fields; expected 5"),
        ({"ranges": [["p3-0", 0, 0, 0, 9]]}, "0 messages in one op"),
        ({"key": "x", "ranges": [["x", 0, 0, 5, 9]]}, "expected the form p<process>-<n>"),
        ({"ranges": [["p3-0", 2**63 - 3, 0, 5, 9]]}, "do not fit 64 bits"),
    ],
)
def test_a_bad_value_names_its_op(change: dict[str, Any], words: str) -> None:
    script = Script()
    script.sent(0, 5, 0)
    bad = replace(script.ops[1], value={**script.ops[1].value, **change})
    with pytest.raises(HistoryError, match=r"op 1 \(3 ok send_many\)") as error:
        build_columns([bad] if "key" in change else [script.ops[0], bad])
    assert words in str(error.value)


def test_a_key_is_sent_once() -> None:
    script = Script()
    script.sent(0, 5, 0)
    script.sent(4, 2, 5)
    with pytest.raises(HistoryError, match="key 'p3-4' is sent a second time"):
        build_columns(script.ops)


def whole() -> Script:
    script = Script()
    script.sent(0, 100, 0)
    script.sent(100, 50, 100)
    script.got(row(0, 0, 120))
    return script


def test_columns_on_disk_say_the_same(tmp_path: Path) -> None:
    script = whole()
    script.got(row(120, 120, 30))
    script.op("invoke", "send_many", {"topic": TOPIC, "key": "p3-150", "count": 2, "size": 64})
    script.drained(150)
    with ColumnarRecorder(tmp_path / "h", "r", part_rows=64, chunk=32) as recorder:
        for op in script.ops:
            recorder.add(op)
        recorder.flush()
        recorder.finish()
    history = ColumnarHistory(tmp_path / "h")
    assert list(read_ops(history)) == script.ops
    assert as_lists(history.columns()) == as_lists(build_columns(script.ops)[0])
    assert check_files(history, [], facts()) == check_run(script.ops, [], facts())


@pytest.mark.parametrize(
    ("rest", "anomaly"),
    [
        ([], "lost"),
        ([row(121, 121, 29)], "lost"),
        ([row(120, 120, 30), row(0, 0, 10)], "duplicate_unexplained"),
        ([row(120, 120, 29), row(149, 149, 1, body_ok=False)], "corrupt"),
        ([row(120, 120, 31)], "phantom"),
    ],
)
def test_checkers_find_what_is_wrong_within_stretches(rest: list[list[Any]], anomaly: str) -> None:
    script = whole()
    if rest:
        script.got(*rest)
    script.drained(150)
    verdict = check_run(script.ops, [], facts())
    found = {name for one in verdict.verdicts for name, count in one.counts.items() if count}
    assert anomaly in found, found
    assert verdict.valid is False or anomaly.startswith("duplicate")
    assert all(finding.key for one in verdict.verdicts for finding in one.findings)
