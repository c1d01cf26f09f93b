"""Message ranges that a client reports: impossible ones are refused before the harness counts 10^12 messages."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.model.history import OpType
from staticfire.harness.clients.line_values import check_emitted, check_result
from staticfire.harness.clients.lines import LineError
from staticfire.harness.clients.port import Outcome

SEND = {"topic": "T", "key": "p1-0", "count": 5, "size": 64}
PLACE = {"broker": "a", "queue": 0}
SCOPE = {"group": "g", "topic": "T", **PLACE}
LONG = 10**12


@pytest.mark.parametrize(
    ("log_ranges", "complaint"),
    [
        ([["p1-0", 0, 0, LONG, 230]], f"the length of a range is {LONG}; allowed are 1 to"),
        ([["p1-0", 0, 0, 0, 230]], "the length of a range is 0"),
        ([["p1-0", -1, 0, 5, 230]], "the queue offset of a range is -1"),
        ([["p1-0", 1 << 62, 0, 5, 230]], "the queue offset of a range is 4611"),
        ([["p1-0", 0, 1 << 62, 5, 230]], "its offsets do not fit 62 bits"),
        ([["p1-0", 0, 0, 5, 1 << 60]], "its offsets do not fit 62 bits"),
        ([["order", 0, 0, 5, 230]], "behind 'order'; nothing follows such a key"),
        ([["p1-7", 0, 0, 5, 230]], "begins with 'p1-7'; expected 'p1-0'"),
        (
            [["p1-0", 0, 0, 2, 230], ["p1-3", 2, 460, 3, 230]],
            "begins with 'p1-3'; expected 'p1-2'",
        ),
        ([["p1-0", 0, 0, 4, 230]], "hold 4 messages; 5 were to be sent"),
        ([], "hold 0 messages; 5 were to be sent"),
    ],
)
def test_places_of_a_batch_that_cannot_be(log_ranges: list[list[Any]], complaint: str) -> None:
    value = {**PLACE, "ranges": log_ranges}
    with pytest.raises(LineError, match=complaint):
        check_result({"f": "send_many", **SEND}, Outcome("ok", value))
    with pytest.raises(LineError, match=complaint):
        check_emitted("ok", "send_many", {**SEND, **value})


def test_places_of_a_batch_in_several_stretches() -> None:
    log_ranges = [["p1-0", 7, 100, 2, 230], ["p1-2", 9, 800, 3, 230]]
    check_result({"f": "send_many", **SEND}, Outcome("ok", {**PLACE, "ranges": log_ranges}))
    check_emitted("invoke", "send_many", SEND)


@pytest.mark.parametrize(("key", "count"), [("p1-0", 0), ("p1-0", LONG), ("order", 2)])
def test_a_batch_that_cannot_be(key: str, count: int) -> None:
    with pytest.raises(LineError, match=f"'count' of send_many is {count}"):
        check_emitted("invoke", "send_many", {**SEND, "key": key, "count": count})


@pytest.mark.parametrize(
    ("log_range", "complaint"),
    [
        (["p1-0", 0, 0, True, 0, LONG, 230], f"the length of a range is {LONG}"),
        (["p1-0", -1, 0, True, 0, 5, 230], "the queue offset of a range is -1"),
        (["order", 0, 0, True, 0, 5, 230], "nothing follows such a key"),
    ],
)
def test_deliveries_that_cannot_be(log_range: list[Any], complaint: str) -> None:
    check_emitted("invoke", "consume_many", {**SCOPE, "ranges": [["order", 3, 9, True, 0, 1, 0]]})
    with pytest.raises(LineError, match=complaint):
        check_emitted("invoke", "consume_many", {**SCOPE, "ranges": [log_range]})


@pytest.mark.parametrize(
    ("reported", "complaint"),
    [
        ({}, None),
        ({"offset": 7, "broker_id": 0}, None),
        ({"offset": None}, None),
        ({"offset": "7"}, "'offset' of the value of begin is '7'; expected a whole number or null"),
        ({"broker_id": None}, "'broker_id' of the value of begin is None; expected a whole number"),
    ],
)
def test_where_a_member_begins(reported: dict[str, Any], complaint: str | None) -> None:
    if complaint is None:
        check_emitted("ok", "begin", {**SCOPE, **reported})
        return
    with pytest.raises(LineError, match=complaint):
        check_emitted("ok", "begin", {**SCOPE, **reported})


@pytest.mark.parametrize(
    ("row", "complaint"),
    [
        (["b", 0, False], None),
        (["b", 0], "a row of 'brokers' in the value of commit_to is .*; expected a list of 3"),
        (["b", "0", True], "item 1 of a row of 'brokers' in the value of commit_to is '0'"),
        (["b", 0, 1], "item 2 of a row of 'brokers' in the value of commit_to is 1"),
    ],
)
def test_where_a_member_commits(row: list[Any], complaint: str | None) -> None:
    value = {"group": "g", "brokers": [row]}
    if complaint is None:
        check_emitted("ok", "commit_to", value)
        return
    with pytest.raises(LineError, match=complaint):
        check_emitted("ok", "commit_to", value)


@pytest.mark.parametrize(
    ("original", "key", "complaint"),
    [
        ([0, LONG], "p1-0", f"{LONG} originals follow each other"),
        ([0, 0], "p1-0", "0 originals follow each other"),
        ([-1, 1], "p1-0", "the queue offset of an original is -1"),
        ([0, 1], "order", "'key' of forward is 'order'"),
    ],
)
def test_copies_that_cannot_be(original: list[int], key: str, complaint: str) -> None:
    check_emitted("ok", "forward", {**SCOPE, "originals": [[7, 2]], "key": "p1-0"})
    with pytest.raises(LineError, match=complaint):
        check_emitted("ok", "forward", {**SCOPE, "originals": [original], "key": key})


@pytest.mark.parametrize(
    ("queue", "message", "complaint"),
    [
        (0, ["k", 0, -1, True, 0], None),  # a physical offset that is not known
        (-5, ["k", 0, 0, True, 0], "'queue' of the value of consume is -5; allowed are 0 and more"),
        (0, ["k", -5, 0, True, 0], "'queue_offset' of a message of consume is -5"),
        (0, ["k", 0, -2, True, 0], "'physical_offset' of a message of consume is -2"),
        (0, ["k", 0, 0, True, -5], "'tried' of a message of consume is -5; allowed are 0 and more"),
    ],
)
def test_numbers_that_no_delivery_has(
    queue: int, message: list[Any], complaint: str | None
) -> None:
    value = {**SCOPE, "queue": queue, "messages": [message]}
    if complaint is None:
        check_emitted("invoke", "consume", value)
        return
    with pytest.raises(LineError, match=complaint):
        check_emitted("invoke", "consume", value)


@pytest.mark.parametrize(("field", "number"), [("attempts", -1), ("queue_offset", -2), ("id", -1)])
def test_numbers_that_no_send_has(field: str, number: int) -> None:
    delayed = {**PLACE, "queue_offset": -1}
    check_result({"f": "send", **SEND}, Outcome("ok", delayed))
    with pytest.raises(LineError, match=f"'{field}' of the value of a send is {number}; allowed"):
        check_result({"f": "send", **SEND}, Outcome("ok", {**delayed, field: number}))


@pytest.mark.parametrize(
    ("type", "value", "complaint"),
    [
        ("invoke", {}, "'type' of open is 'invoke'; allowed are ok, fail"),
        ("ok", {"group": 7}, "'group' of the value of open is 7; expected text"),
        ("ok", {"orderly": "no"}, "'orderly' of the value of open is 'no'; expected true or false"),
    ],
)
def test_a_client_that_opens_as_none_does(
    type: OpType, value: dict[str, Any], complaint: str
) -> None:
    check_emitted("ok", "open", {"group": "g", "model": "clustering", "orderly": False})
    with pytest.raises(LineError, match=complaint):
        check_emitted(type, "open", value)
