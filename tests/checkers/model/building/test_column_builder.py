"""Columns built from ops: pairing, open ops, and histories with invalid values."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.model.building import column_builder
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import EVENT_FIELDS, UNKNOWN, LogKey, Outcome
from staticfire.checkers.model.history import HistoryError, Op
from tests.support.history_language import history


def test_a_completion_is_paired_with_its_invocation() -> None:
    columns, _ = build_columns(history("0 invoke send a", "2 invoke send b", "0 ok send a"))

    assert columns.sends.log.tolist() == [UNKNOWN, 0]  # sorted by queue, then by op
    assert columns.sends.invoke_index.tolist() == [1, 0]
    assert columns.sends.op_index.tolist() == [1, 2]
    assert columns.sends.outcome.tolist() == [Outcome.UNKNOWN, Outcome.OK]


def test_a_send_without_an_answer_has_no_position() -> None:
    columns, _ = build_columns(history("0 info send a"))

    assert columns.sends.log.tolist() == [UNKNOWN]
    assert columns.sends.queue_offset.tolist() == [UNKNOWN]


def test_a_delivery_is_one_row_a_message() -> None:
    columns, _ = build_columns(history("0 ok send a@0:5", "1 ok consume a b~2 c!"))
    delivered = columns.deliveries

    assert [columns.names.key(message) for message in delivered.message.tolist()] == ["a", "b", "c"]
    assert delivered.queue_offset.tolist() == [5, 6, 7]
    assert delivered.tries.tolist() == [0, 2, 0]
    assert delivered.body_ok.tolist() == [True, True, False]


def test_a_listener_may_run_on_several_queues_at_a_time() -> None:
    columns, _ = build_columns(
        history(
            "1 invoke consume a@0:0",
            "1 invoke consume b@1:0",
            "1 ok consume b@1:0",
            "1 info consume a@0:0",
        )
    )

    assert columns.deliveries.invoke_index.tolist() == [1, 0]
    assert columns.deliveries.outcome.tolist() == [Outcome.OK, Outcome.UNKNOWN]


def test_the_same_call_twice_without_an_answer_is_two_deliveries() -> None:
    columns, _ = build_columns(
        history("1 invoke consume a", "1 invoke consume a", "1 ok consume a")
    )

    assert columns.deliveries.outcome.tolist() == [Outcome.UNKNOWN, Outcome.OK]


@pytest.mark.parametrize(
    ("ends", "pairs"),
    [
        (("ok", "ok"), [(2, 1, Outcome.OK), (3, 0, Outcome.OK)]),
        (("ok",), [(0, 0, Outcome.UNKNOWN), (2, 1, Outcome.OK)]),
        (("info", "ok"), [(2, 1, Outcome.UNKNOWN), (3, 0, Outcome.OK)]),
    ],
)
def test_of_two_calls_at_once_each_has_an_end_of_its_own(
    ends: tuple[str, ...], pairs: list[tuple[int, int, Outcome]]
) -> None:
    calls = [f"1 {end} consume a@0:0" for end in ("invoke", "invoke", *ends)]
    rows = build_columns(history(*calls))[0].deliveries

    columns = (rows.op_index, rows.invoke_index, rows.outcome)
    assert list(zip(*(column.tolist() for column in columns), strict=True)) == pairs


def test_a_consume_that_did_not_happen_leaves_no_row() -> None:
    columns, _ = build_columns(history("1 invoke consume a", "1 fail consume a"))

    assert len(columns.deliveries) == 0


def test_only_changes_of_an_assignment_are_kept() -> None:
    _, timeline = build_columns(history("1 ok assign 0 1", "1 ok assign 1 2"))

    changes = {
        queue.partition: [(change.op_index, change.change) for change in made]
        for (_, queue), made in timeline.ownership.items()
    }
    assert changes == {0: [(0, "gained"), (1, "lost")], 1: [(0, "gained")], 2: [(1, "gained")]}


def test_who_owned_a_queue_is_found_by_op_index() -> None:
    _, timeline = build_columns(history("1 ok assign 0", "1 ok assign", "2 ok assign 0"))
    queue = LogKey("t", "b", 0)

    between = timeline.ownership_between("g", queue, 0, 2)
    assert [change.op_index for change in between] == [1, 2]
    gained = timeline.gained_before("g", queue, 1, 2)
    assert gained is not None
    assert gained.op_index == 0
    assert timeline.gained_before("g", queue, 2, 2) is None


def bad(f: str, value: Any, type: Any = "ok") -> Op:  # the name in the history
    return Op(index=1, time_ns=1, process=1, type=type, f=f, value=value)


ACKED = {"key": "a", "topic": "t", "broker": "b", "queue": 0, "queue_offset": 5}
GOT = {"group": "g", "topic": "t", "broker": "b", "queue": 0, "messages": [["a", 0, 0, True, 0]]}
TO_GROUP = {"group": "g", "topic": "t"}


@pytest.mark.parametrize(
    ("op", "message"),
    [
        (bad("send", {}), "op 1 (1 ok send): the value lacks 'key'"),
        (bad("send", {"key": "a", "topic": "t"}), "op 1 (1 ok send): the value lacks 'broker'"),
        (bad("send", {**ACKED, "queue_offset": None}), "op 1 (1 ok send): None is not an integer"),
        (bad("send", {**ACKED, "key": 7}), "op 1: key is 7; expected str"),
        (bad("send", {**ACKED, "attempts": "2"}), "op 1: attempts is '2'; expected int"),
        (
            bad("send", {**ACKED, "queue_offset": 2**63}),
            "op 1 (1 ok send): 9223372036854775808 is not an integer of 64 bits",
        ),
        (bad("send", {**ACKED, "topic": 7}), "7 is not text"),
        (bad("consume", {**GOT, "messages": 7}), "op 1 (1 ok consume): "),
        (bad("consume", {**GOT, "messages": [["a", 0]]}), "op 1: message ['a', 0] has 2 fields"),
        (
            bad("consume", {**GOT, "messages": [["a", 0, 0, 1, 0]]}),
            "op 1: body_ok is 1; expected bool",
        ),
        (
            bad("consume", {**GOT, "messages": [[7, 0, 0, True, 0]]}),
            "op 1: key is 7; expected NoneType",
        ),
        (bad("consume", {**GOT, "queue": [0]}), "op 1 (1 ok consume): "),
        (bad("assign", {**TO_GROUP, "queues": [["b"]]}), "op 1 (1 ok assign): "),
        (
            bad("commit", {**TO_GROUP, "offsets": [["b", 0, True]]}),
            "op 1 (1 ok commit): True is not",
        ),
        (bad("drain", {**TO_GROUP, "queues": []}), "op 1 (1 ok drain): the value lacks 'lag'"),
        (bad("poll", {}), "op 1 (1 ok poll): f is 'poll'; known are"),
    ],
)
def test_a_value_that_breaks_the_conventions_is_one_sentence(op: Op, message: str) -> None:
    with pytest.raises(HistoryError) as caught:
        build_columns([op])

    assert str(caught.value).startswith(message)


def test_a_key_is_sent_once() -> None:
    ops = history("0 ok send a", "2 ok send b")
    ops[1] = replace(ops[1], value={**ops[1].value, "key": "a"})

    with pytest.raises(HistoryError, match=r"op 1 .*key 'a' is sent a second time"):
        build_columns(ops)


def test_what_the_nemesis_does_touches_no_message() -> None:
    columns, _ = build_columns([replace(bad("start_kill", {"kind": 1}, "info"), process=-1)])

    assert (len(columns.sends), len(columns.deliveries)) == (0, 0)


def test_a_history_may_become_arrays_in_pieces(monkeypatch: pytest.MonkeyPatch) -> None:
    ops = history("0 invoke send a", "0 ok send b@1:3", "0 ok send a", "1 ok consume b a@1:4")
    whole, _ = build_columns(ops)
    monkeypatch.setattr(column_builder, "BATCH", 1)
    chunks, _ = build_columns(iter(ops))

    for side in ("sends", "deliveries"):
        for name in EVENT_FIELDS:
            ours, theirs = getattr(getattr(chunks, side), name), getattr(getattr(whole, side), name)
            assert ours.tolist() == theirs.tolist(), name


def test_calls_that_begin_at_the_same_offset_are_distinguished_by_their_end() -> None:
    """A member lost the queue while its listener worked, and got it again."""
    twice = ("1 invoke consume a", "1 invoke consume a b", "1 ok consume a", "1 ok consume a b")
    deliveries = build_columns(history("0 ok send a", "0 ok send b", *twice))[0].deliveries

    ended = list(zip(deliveries.invoke_index.tolist(), deliveries.op_index.tolist(), strict=True))
    assert sorted(ended) == [(2, 4), (3, 5), (3, 5)]
