from __future__ import annotations

from staticfire.system_under_test.client.consumer.rebalance.lock_table import (
    LOCK_LIVE_MAX_S,
    LockTable,
)
from staticfire.system_under_test.protocol.bodies import MessageQueue

A0, A1, B0 = (MessageQueue("t", *place) for place in (("a", 0), ("a", 1), ("b", 0)))


def test_a_lock_is_held_for_a_while_from_when_it_was_asked_for() -> None:
    table = LockTable()
    table.granted(A0, 100.0)
    assert table.is_held(A0, 100.0 + LOCK_LIVE_MAX_S - 0.1)
    assert not table.is_held(A0, 100.0 + LOCK_LIVE_MAX_S)
    assert not table.is_held(A1, 100.0)


def test_an_answer_that_was_overtaken_shortens_nothing() -> None:
    table = LockTable()
    table.granted(A0, 120.0)
    table.granted(A0, 100.0)
    assert table.asked_at_s(A0) == 120.0


def test_what_is_too_old_is_given_up_once() -> None:
    table = LockTable(live_max_s=30.0)
    table.granted(A0, 0.0)
    table.granted(B0, 20.0)
    assert table.take_expired(29.0) == []
    assert table.take_expired(30.0) == [A0]
    assert table.take_expired(30.0) == []
    assert table.queues == [B0]


def test_the_locks_of_a_broker_go_with_it() -> None:
    table = LockTable()
    for queue in (A1, B0, A0):
        table.granted(queue, 0.0)
    assert table.take_of(["a"]) == [A0, A1]
    assert table.queues == [B0]
