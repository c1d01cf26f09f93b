"""Conversion between ops of Jepsen's queue workload and ours, both ways."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

from staticfire.checkers.formats.jepsen.edn import parse_all
from staticfire.checkers.formats.jepsen.reading import JepsenReader
from staticfire.checkers.formats.jepsen.writing import JepsenWriter
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import Outcome
from staticfire.checkers.model.history import HistoryError, Op

HISTORY = """
{:type :invoke, :f :subscribe, :value [0 1], :process 1, :time 1, :index 0}
{:type :ok, :f :subscribe, :value [0 1], :process 1, :time 2, :index 1}
{:type :invoke, :f :txn, :value [[:send 0 7] [:send 1 8] [:poll]], :process 1, :time 3, :index 2}
{:type :info, :f :start-partition, :value {:n1 #{"n2"}}, :process :nemesis, :time 3, :index 3}
{:type :ok, :f :txn, :value [[:send 0 [5 7]] [:send 1 [nil 8]] [:poll {0 [[4 6] [5 7]]}]], :process 1, :time 4}
{:type :invoke, :f :send, :value [[:send 0 9]], :process 2, :time 5, :index 5}
{:type :info, :f :send, :value [[:send 0 9]], :process 2, :time 6, :index 6, :error :timeout}
{:type :ok, :f :debug-topic-partitions, :value [0], :process 2, :time 7, :index 7}
{:type :fail, :f :poll, :value [[:poll {1 [[0 8]]}]], :process 3, :time 8, :index 8, :error [:rebalance]}
"""


def read(text: str, *, transactions: bool = False) -> tuple[list[Op], JepsenReader]:
    reader = JepsenReader(transactions=transactions)
    return [op for value in parse_all(text) for op in reader.read(value)], reader


def write(ops: Iterable[Op]) -> str:
    writer = JepsenWriter()
    ops = list(ops)
    writer.look(ops)
    return "".join(line for op in ops if (line := writer.line(op)) is not None)


def test_ops_become_columns() -> None:
    ops, reader = read(HISTORY)
    columns, _ = build_columns(ops)
    sends, got = columns.sends, columns.deliveries

    assert [op.index for op in ops] == list(range(len(ops)))
    assert dict(reader.left_out) == {"debug-topic-partitions": 1}
    keys = [columns.names.key(message) for message in sends.message.tolist()]
    assert sorted(keys, key=str) == ["p0-7", "p0-9", "p1-8"]
    placed = dict(
        zip(
            keys, zip(sends.outcome.tolist(), sends.queue_offset.tolist(), strict=True), strict=True
        )
    )
    assert placed == {
        "p0-7": (Outcome.OK, 5),
        "p1-8": (Outcome.OK, -1),  # acknowledged at an unknown offset
        "p0-9": (Outcome.UNKNOWN, -1),
    }
    groups = [columns.names.groups[group] for group in got.group.tolist()]
    assert groups == ["jepsen", "jepsen", "jepsen-assigned"]
    assert got.outcome.tolist() == [Outcome.OK, Outcome.OK, Outcome.UNKNOWN]
    assert [op.f for op in ops if op.process == -1] == ["start_partition"]


def test_ops_come_back() -> None:
    text = write(read(HISTORY)[0])

    assert write(read(text)[0]) == text
    assert "{:type :ok, :f :send, :value [[:send 0 [5 7]]], :process 1, :time 4, :index" in text
    assert ":value [[:poll {0 [[4 6] [5 7]]}]]" in text
    assert "{:type :info, :f :start-partition, :value" in text
    assert ":process :nemesis" in text


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("7", "an op is a map"),
        ("{:type :odd, :f :send, :process 0}", "type is 'odd'"),
        ("{:type [:ok], :f :send, :process 0}", r"type is \['ok'\]"),
        ("{:type :ok, :process 0}", "f is None"),
        ("{:type :ok, :f :send, :process :who}", "process is 'who'"),
        ("{:type :ok, :f :send, :process 0, :value 7}", "7 is no vector"),
        ("{:type :ok, :f :send, :process 0, :value [[:eat 7]]}", "neither"),
        ("{:type :ok, :f :send, :process 0, :value [[:send :k [1 2]]]}", "key 'k' is no integer"),
        ("{:type :ok, :f :send, :process 0, :value [[:send 0 [-1 2]]]}", "offset -1"),
        (
            "{:type :ok, :f :poll, :process 0, :value [[:poll {0 [7]}]]}",
            r"7 is no \[offset value\]",
        ),
        ("{:type :ok, :f :poll, :process 0, :time -1}", "time is -1"),
        ("{:type :ok, :f :poll, :process 0, :time 99999999999999999999}", "time is"),
    ],
)
def test_an_op_that_makes_no_sense_is_refused(line: str, words: str) -> None:
    with pytest.raises(HistoryError, match=words):
        read(line)


def test_transactions_are_ops_of_their_own() -> None:
    ops, _ = read(HISTORY, transactions=True)
    _, timeline = build_columns(ops)

    [first, lost, polled] = timeline.txns
    assert [type(mop).__name__ for mop in first.mops] == ["Sent", "Sent", "Polled"]
    assert (first.type, lost.type, polled.type) == ("ok", "info", "fail")
    assert len(build_columns(ops)[0].sends) == 3  # beside them

    text = write(ops)
    assert ":f :txn, :value [[:send 0 [5 7]] [:send 1 [nil 8]] [:poll {0 [[4 6] [5 7]]}]]" in text
    assert write(read(text, transactions=True)[0]) == text
