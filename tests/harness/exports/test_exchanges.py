"""Exchanges of hand-written histories: batches, missing ends, and ops that are not exchanges."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.model.history import HistoryError, Op
from staticfire.harness.exports.counts import Counts, MessageSet
from staticfire.harness.exports.exchanges import Exchange, exchanges
from staticfire.harness.exports.selection import Selection


def history(*rows: tuple[str, str, dict[str, Any]]) -> list[Op]:
    """Ops (type, f, value), a second apart."""
    return [
        Op(index=number, time_ns=number * 10**9, process=1, type=kind, f=f, value=value, node="n")  # type: ignore[arg-type]
        for number, (kind, f, value) in enumerate(rows)
    ]


SEND = {"key": "p1-0", "topic": "t"}
PLACE = {"topic": "t", "broker": "b", "queue": 0}
SENT = {**SEND, **PLACE, "queue_offset": 7, "physical_offset": 70, "status": "SEND_OK"}
DELIVERY = {"group": "g", **PLACE, "messages": [["p1-0", 7, 70, True, 0]]}


def ended(*rows: tuple[str, str, dict[str, Any]]) -> list[Exchange]:
    return [one for is_end, one in exchanges(history(*rows)) if is_end]


def test_a_completion_ends_its_invocation() -> None:
    [send, delivery] = ended(
        ("invoke", "send", SEND),
        ("ok", "send", SENT),
        ("invoke", "consume", DELIVERY),
        ("ok", "consume", DELIVERY),
    )
    assert (send.is_send, send.begin_ns, send.end_ns) == (True, 0, 10**9)
    assert (send.broker, send.messages[0].queue_offset) == ("b", 7)
    assert (delivery.group, delivery.messages[0].key) == ("g", "p1-0")


def test_what_has_no_completion_ends_with_the_history() -> None:
    [open_one] = ended(("invoke", "send", SEND), ("ok", "open", {}))
    assert (open_one.outcome, open_one.end_ns) == ("open", 10**9)


def test_a_batch_has_all_its_messages() -> None:
    batch = {"topic": "t", "key": "p1-5", "count": 3, "size": 9}
    placed = {**batch, **PLACE, "ranges": [["p1-5", 2, 20, 3, 10]]}
    [sent] = ended(("invoke", "send_many", batch), ("ok", "send_many", placed))
    assert [message.key for message in sent.messages] == ["p1-5", "p1-6", "p1-7"]
    assert [message.queue_offset for message in sent.messages] == [2, 3, 4]
    given = {"group": "g", **PLACE, "ranges": [["p1-5", 2, 20, True, 0, 3, 10]]}
    [delivery] = ended(("invoke", "consume_many", given), ("ok", "consume_many", given))
    assert [message.physical_offset for message in delivery.messages] == [20, 30, 40]


@pytest.mark.parametrize(
    "value",
    [
        {"key": 5, "topic": "t"},
        {"key": ["p1-0"], "topic": "t"},
        {"group": "g", **PLACE, "messages": [[1, 2]]},
        {"group": "g", **PLACE, "messages": "p1-0"},
    ],
)
def test_an_op_without_its_fields_is_one_sentence(value: dict[str, Any]) -> None:
    f = "send" if "key" in value else "consume"
    with pytest.raises(HistoryError, match="op 0"):
        ended(("invoke", f, value))


def test_a_window_and_a_key_choose_exchanges() -> None:
    ops = history(("invoke", "send", SEND), ("ok", "send", SENT), ("invoke", "consume", DELIVERY))
    late = Selection(since_ns=10**9)
    assert [one.is_send for _, one in late.of(ops)] == [False, False]
    assert list(Selection(keys=frozenset({"p1-1"})).of(ops)) == []
    assert not late.overlaps(0, 10**8)
    assert late.overlaps(0, None)
    assert not Selection(until_ns=5).overlaps(5, 9)


def test_counts_say_what_is_unseen_and_how_far_a_group_is_behind() -> None:
    found: dict[tuple[str, int], float] = {}
    counts = Counts(lambda name, unit, at_ns, value: found.update({(name, at_ns // 10**9): value}))
    ops = history(
        ("invoke", "send", SEND),
        ("ok", "send", SENT),
        ("ok", "open", {}),
        ("invoke", "consume", DELIVERY),
        ("ok", "consume", DELIVERY),
    )
    for is_end, exchange in exchanges(ops):
        counts.add(is_end, exchange)
    counts.finish(4 * 10**9)
    assert [found["unseen", second] for second in (1, 2, 3, 4)] == [0, 1, 1, 0]
    assert found["acknowledged", 2] == 1
    assert found["delivered to g", 4] == 1
    assert found["lag of g", 4] == 0


def test_a_set_of_keys_has_what_was_added() -> None:
    keys = MessageSet()
    names = [f"p{process}-{number}" for process in (0, 3) for number in range(0, 5000, 7)]
    odd = ["p01-1", "", "é", "p1-1 "]
    assert all(keys.add(name) for name in (*names, *odd))
    assert not any(keys.add(name) for name in (*names, *odd))
    assert "p0-1" not in keys
