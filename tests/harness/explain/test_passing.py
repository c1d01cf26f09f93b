"""Explanation of how a group passed a message, with the neighbouring messages."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.harness.explain.fault_events import of_faults
from staticfire.harness.explain.life import life_of
from staticfire.harness.explain.passing import ownership
from staticfire.harness.explain.surroundings import surroundings_of
from staticfire.harness.observers.probe import PROBE_PROCESS
from tests.harness.explain.recorded_ops import S, finding, op
from tests.support.history_language import facts as facts_of

QUEUE = {"topic": "t", "broker": "b", "queue": 0}
GROUP = {"group": "g", "topic": "t"}


def history(*ops: tuple[Any, ...]) -> list[Op]:
    """Ops of (seconds, type, f, value, process)."""
    return [
        replace(op(time_s, type_, f, value, f"n{process}", process), index=index)
        for index, (time_s, type_, f, value, process) in enumerate(ops)
    ]


def given(*messages: tuple[Any, ...], topic: str = "t") -> dict[str, Any]:
    return {**GROUP, **QUEUE, "topic": topic, "messages": [list(one) for one in messages]}


def texts(witness: Finding, ops: list[Op]) -> list[str]:
    return [
        f"{one.time_ns // S} {one.where}: {one.text}" for one in life_of(witness, ops, [], [], [])
    ]


SENT = [
    (3, "invoke", "send", {"key": "k", "topic": "t"}, 1),
    (3, "ok", "send", {"key": "k", **QUEUE, "queue_offset": 7}, 1),
]


def test_a_group_that_commits_past_a_message_without_getting_it() -> None:
    ops = history(
        (1, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 5),
        (2, "invoke", "consume", given(("x", 5, 0), ("y", 6, 0)), 5),
        *SENT,
        (4, "ok", "commit", {**GROUP, "offsets": [["b", 1, 99], ["b", 0, 7]]}, 5),
        (5, "ok", "commit", {**GROUP, "offsets": [["b", 0, 9]]}, 5),
        (5, "ok", "assign", {**GROUP, "queues": []}, 5),
        (6, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 6),
        (6, "ok", "begin", {**GROUP, **QUEUE, "offset": 9}, 6),
        (7, "invoke", "consume", given(("z", 9, 0)), 6),
        (8, "ok", "commit", {**GROUP, "offsets": [["b", 0, 10]]}, 6),
        (9, "ok", "assign", {**GROUP, "queues": []}, 6),
    )
    assert texts(finding(), ops) == [
        "1 n5: g has the queue",
        "2 n5: g gets y at offset 6 of the queue, before it",
        "3 n1: is answered ok: b queue 0 offset 7",
        "3 n1: sends it",
        "4 n5: g commits offset 7 of the queue",
        "5 n5: g commits offset 9 of the queue: past it",
        "5 n5: g gives up the queue",
        "6 n6: g begins to read the queue at offset 9: past it",
        "6 n6: g has the queue",
        "7 n6: g gets z at offset 9 of the queue, past it",
    ]
    around = surroundings_of(finding(), ops)
    assert around is not None
    assert around.lines() == ["queue     5 x, 6 y, 7 k (not delivered), 9 z"]


def test_groups_that_got_the_message_or_never_went_past_it_are_left_out() -> None:
    commit = (2, "ok", "commit", {**GROUP, "offsets": [["b", 0, 7]]}, 5)
    assert len(texts(finding(), history(commit, *SENT))) == len(SENT)
    ops = history(
        *SENT,
        (4, "invoke", "consume", given(("k", 7, 0)), 5),
        (5, "ok", "commit", {**GROUP, "offsets": [["b", 0, 9]]}, 5),
    )
    assert texts(finding(), ops)[-1] == "4 n5: g gets it, b queue 0 offset 7"
    assert texts(finding(group="other"), ops)[-1] == "4 n5: g gets it, b queue 0 offset 7"


def test_a_message_that_comes_again_until_it_is_a_dead_letter() -> None:
    ops = history(
        *SENT,
        (4, "invoke", "consume", given(("k", 7, 0, True, 0)), 5),
        (4, "info", "consume", given(("k", 7, 0, True, 0)), 5),
        (5, "ok", "send_back", given(("k", 7, 0)), 5),
        (6, "invoke", "consume", given(("k", 2, 0, True, 1), topic="again"), 5),
        (7, "info", "send_back", given(("k", 2, 1), topic="again"), 5),
        (9, "ok", "consume", given(("k", 0, 0, True, 2), topic="dead"), PROBE_PROCESS),
    )
    assert texts(finding(), ops)[2:] == [
        "4 n5: g gets it, b queue 0 offset 7",
        "4 n5: no answer",
        "5 n5: sends it back",
        "6 n5: g gets it as retry 1, b queue 0 offset 2 of again",
        "7 n5: sends it back: no answer",
        f"9 n{PROBE_PROCESS}: is read at the end as retry 2, b queue 0 offset 0 of dead",
    ]


def test_a_copy_is_seen_beside_what_lies_around_it() -> None:
    ops = history(
        (1, "ok", "send", {"key": "k", **QUEUE, "queue_offset": 7}, 1),
        (2, "invoke", "consume", given(("k", 5, 0), ("l", 6, 0), ("k", 7, 0), ("far", 12, 0)), 5),
        (3, "invoke", "consume", given(("other", 7, 0), (None, 8, 0)), 6),
        (3, "invoke", "consume", given(("elsewhere", 8, 0), topic="u"), 6),
    )
    around = surroundings_of(finding(), ops)
    assert around is not None
    assert around.lines() == ["queue     5 k, 6 l, 7 k and other (after 1.000s)"]
    assert around.to_json() == [
        {"offset": 5, "keys": ["k"], "delivered": True, "wait_ns": None},
        {"offset": 6, "keys": ["l"], "delivered": True, "wait_ns": None},
        {"offset": 7, "keys": ["k", "other"], "delivered": True, "wait_ns": S},
    ]


@pytest.mark.parametrize(
    "witness", [finding(queue_offset=None), finding(queue_offset=1), finding(queue=3)]
)
def test_of_a_message_alone_nothing_is_said(witness: Finding) -> None:
    assert surroundings_of(witness, history(*SENT)) is None


def test_progress_without_the_fields_of_its_kind_is_refused() -> None:
    ops = history(*SENT, (4, "ok", "commit", {**GROUP, "offsets": [["b"]]}, 5))
    with pytest.raises(HistoryError, match="the progress of a group is malformed"):
        life_of(finding(), ops, [], [], [])


def test_an_end_of_a_group_without_the_fields_of_its_kind_is_refused() -> None:
    drained = (9, "ok", "drain", {**GROUP, "queues": [["b", 0]]}, 0)
    ended = (5, "ok", "consume", {**GROUP, **QUEUE, "messages": [7]}, 5)
    begun = (4, "invoke", "consume", given(("k", 7, 0)), 5)
    for ops in ((*SENT, drained), (*SENT, begun, ended)):
        with pytest.raises(HistoryError, match="the progress of a group is malformed"):
            life_of(finding(), history(*ops), [], [], [])


@pytest.mark.parametrize("messages", [None, 7, [["k"]], [["k", "7"]]])
def test_a_delivery_without_the_fields_of_its_kind_is_refused(messages: Any) -> None:
    ops = history((4, "ok", "consume", {**GROUP, **QUEUE, "messages": messages}, 5))
    with pytest.raises(HistoryError, match="op 0 is no consume"):
        surroundings_of(finding(), ops)


def test_messages_of_condensed_ops_are_seen_around_it() -> None:
    sent = {**QUEUE, "key": "p1-0", "count": 2, "ranges": [["p1-0", 6, 0, 2, 100]]}
    read = {**GROUP, **QUEUE, "ranges": [["p1-0", 6, 0, True, 0, 1, 0]]}
    ops = history((1, "ok", "send_many", sent, 1), (2, "invoke", "consume_many", read, 5))
    around = surroundings_of(finding(), ops)
    assert around is not None
    assert around.lines() == ["queue     6 p1-0 (after 1.000s), 7 p1-1 (not delivered)"]


def test_what_befalls_a_client_after_its_part_is_left_out() -> None:
    def crash(struck_s: int, *targets: str) -> dict[str, Any]:
        times = {"struck_ns": struck_s * S, "healed_ns": (struck_s + 1) * S}
        return {
            "kind": "crash",
            "targets": list(targets),
            "bitten": True,
            "evidence": {},
            **times,
        }

    commit = (9, "ok", "commit", {**GROUP, "offsets": [["b", 0, 8]]}, 5)
    faults = [crash(2, "n1"), crash(4, "n1"), crash(5, "n5"), crash(6, "b-0"), crash(20, "n5")]
    found = life_of(finding(), history(*SENT, commit), [], faults, ["b-0"])
    struck = [(one.time_ns // S, one.where) for one in found if "strikes" in one.text]
    assert struck == [(2, "n1"), (5, "n5"), (6, "b-0")]


def test_many_messages_at_one_offset_are_counted() -> None:
    sends = [
        (1, "ok", "send", {"key": f"k{number}", **QUEUE, "queue_offset": offset}, 1)
        for number, offset in enumerate([7, 7, 7, 7, 7, 7, 6, -1])
    ]
    around = surroundings_of(finding(), history(*sends))
    assert around is not None
    unread = "(not delivered)"
    assert around.lines() == [
        f"queue     6 k6 {unread}, 7 k0 and k1 and k2 and k3 and 2 more {unread}"
    ]


def test_the_owners_of_the_queue_of_a_message_that_a_group_was_given() -> None:
    ops = history(
        (1, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 5),
        (1, "ok", "assign", {**GROUP, "queues": []}, 5),
        (2, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 5),
        *SENT,
        (4, "invoke", "consume", given(("k", 7, 0)), 5),
        (5, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 6),
        (6, "invoke", "consume", given(("k", 7, 0)), 6),
        (7, "ok", "assign", {**GROUP, "queues": []}, 5),
    )
    owners = [text for text in texts(finding(group="g"), ops) if text.endswith("the queue")]
    assert owners == ["2 n5: g has the queue", "5 n6: g has the queue"]


DRAINED = (9, "ok", "drain", {**GROUP, "queues": [["b", 0, 0, 8, 7]], "lag": 1}, 0)


def test_a_group_that_stopped_before_the_message() -> None:
    ops = history(
        (2, "invoke", "consume", given(("x", 5, 0), ("y", 6, 0)), 5),
        *SENT,
        DRAINED,
        (9, "ok", "drain", {"group": "h", "topic": "u", "queues": [], "lag": 0}, 0),
    )
    found = texts(finding(), ops)
    assert found[0] == "2 n5: g gets y at offset 6 of the queue, before it"
    stands = "its offset is 7, the queue ends at 8"
    assert found[3:] == [f"9 n0: g has had time to read the rest: {stands}"]


def test_the_life_of_a_message_for_which_the_listener_always_failed_ends_with_the_run() -> None:
    failed = [
        (4, "invoke", "consume", given(("k", 7, 0)), 5),
        (4, "info", "consume", given(("k", 7, 0)), 5),
    ]
    assert "has had time" in texts(finding(group="g"), history(*SENT, *failed, DRAINED))[-1]
    ops = history(*SENT, *failed[:1], DRAINED)
    assert texts(finding(group="g"), ops)[-1] == "4 n5: g gets it, b queue 0 offset 7"


def test_the_steps_of_a_group_between_two_deliveries() -> None:
    ops = history(
        *SENT,
        (4, "invoke", "consume", given(("k", 7, 0)), 5),
        (5, "ok", "commit", {**GROUP, "offsets": [["b", 0, 8]]}, 5),
        (6, "ok", "commit", {**GROUP, "offsets": [["b", 0, 9]]}, 5),
        (7, "ok", "begin", {**GROUP, **QUEUE, "offset": 0}, 6),
        (8, "invoke", "consume", given(("k", 7, 0)), 6),
    )
    assert texts(finding(group="g"), ops)[3:] == [
        "6 n5: g commits offset 9 of the queue",
        "7 n6: g begins to read the queue at offset 0",
        "8 n6: g gets it, b queue 0 offset 7",
    ]


def test_the_end_of_a_call_of_a_listener_that_took_long() -> None:
    ops = history(
        *SENT,
        (4, "invoke", "consume", given(("k", 7, 0)), 5),
        (6, "ok", "consume", given(("k", 7, 0)), 5),
        (7, "invoke", "consume", given(("k", 7, 0)), 6),
        (7, "ok", "consume", given(("k", 7, 0)), 6),
    )
    calls = [text for text in texts(finding(), ops) if "finished" in text]
    assert calls == ["6 n5: its listener has finished, after 2.000s"]


def test_what_makes_a_message_special_is_said() -> None:
    value = {"key": "k", "topic": "t", "size": 9, "delay_level": 4, "transaction": "commit"}
    ops = history(
        (3, "invoke", "send", {**value, "one_way": True, "properties": {"weight": "1"}}, 1),
        (4, "ok", "check_back", {"key": "k", "times": 2, "state": "commit"}, 1),
    )
    assert texts(finding(), ops) == [
        "3 n1: sends it, 9 bytes, in a transaction that ends by commit, delay level 4, one way, property weight=1",
        "4 n1: is asked how its transaction ended, time 2: commit",
    ]


def test_a_member_that_wants_not_all_says_what_it_wants() -> None:
    ops = history(
        (1, "ok", "open", {"group": "g", "expression": "a || b"}, 5),
        (1, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 5),
        *SENT,
        (4, "ok", "commit", {**GROUP, "offsets": [["b", 0, 9]]}, 5),
    )
    assert texts(finding(), ops)[0] == "1 n5: g has the queue, and wants a || b"


def test_a_group_that_has_changed_what_it_wants_says_both() -> None:
    ops = history(
        (1, "ok", "open", {"group": "g", "expression": "a"}, 5),
        (1, "ok", "open", {"group": "g", "expression": "a"}, 6),
        (1, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 5),
        (2, "ok", "open", {"group": "g", "expression": None}, 6),
        (2, "ok", "assign", {**GROUP, "queues": [["b", 0]]}, 6),
        *SENT,
        (4, "ok", "commit", {**GROUP, "offsets": [["b", 0, 9]]}, 5),
    )
    events = list(ownership(ops, "g", "t", ["b", 0]))
    assert [event.text for event in events] == [
        "g has the queue, and wants a",
        "g has the queue, and wants *; formerly a",
    ]
    assert texts(finding(), ops)[0] == "2 n6: g has the queue, and wants *; formerly a"


def test_what_distinguishes_the_neighbours_of_a_passed_message_is_said() -> None:
    ops = history(
        (1, "invoke", "send", {"key": "x", "topic": "t", "tag": "red"}, 1),
        (1, "invoke", "send", {"topic": "t", "tag": "blue"}, 1),
        *SENT,
        (4, "invoke", "consume", given(("x", 6, 0), (None, 8, 0)), 5),
    )
    assert texts(finding(), ops)[-2:] == [
        "4 n5: g gets None at offset 8 of the queue, past it",
        "4 n5: g gets x at offset 6 of the queue, before it, tag red",
    ]


def test_the_last_steps_of_a_group_of_a_finding_without_a_message() -> None:
    def gets(time_s: int, type_: str, process: int, *offsets: int) -> tuple[Any, ...]:
        messages = given(*(("m", offset, 0) for offset in offsets))
        return (time_s, type_, "consume", messages, process)

    ops = history(
        (1, "ok", "begin", {**GROUP, **QUEUE, "offset": 3}, 5),
        *(
            (second, "ok", "commit", {**GROUP, "offsets": [["b", 0, second]]}, 5)
            for second in (2, 3, 4)
        ),
        gets(4, "invoke", 5, 3, 4),
        gets(5, "ok", 5, 3, 4),
        gets(5, "invoke", 6, 5),
        gets(6, "info", 6, 5),
        gets(6, "invoke", 7, 6, 8, 7),
        (8, "ok", "begin", {**GROUP, **QUEUE, "offset": 9}, 5),
    )
    witness = replace(finding("commit_ahead", key=None, group="g"), time_ns=7 * S)
    assert texts(witness, ops) == [
        "1 n5: g begins to read the queue at offset 3",
        "3 n5: g commits offset 3 of the queue",
        "4 n5: g commits offset 4 of the queue",
        "4 n5: g gets offsets 3 to 4 of the queue; its listener has ended, at 5.000s",
        "5 n6: g gets offset 5 of the queue; its listener has failed, at 6.000s",
        "6 n7: g gets offsets 6 to 8 of the queue; its listener has not ended",
    ]


def test_a_start_of_a_reader_without_an_offset() -> None:
    for begun in ({}, {"offset": None}):
        ops = history(*SENT, (4, "ok", "begin", {**GROUP, **QUEUE, **begun}, 5), DRAINED)
        begin = "4 n5: g begins to read the queue; the broker knows no offset of the group"
        assert begin not in texts(finding(group="g"), ops)  # it is not past the message
        assert texts(replace(finding(key=None, group="g"), time_ns=9 * S), ops) == [begin]


def test_the_listener_of_the_last_delivery_of_several() -> None:
    read = {**GROUP, **QUEUE, "ranges": [["p1-0", 8, 0, True, 0, 3, 0]]}
    ops = history(
        (1, "invoke", "consume", given(("a", 3, 0)), 5),
        (2, "invoke", "consume", given(("b", 4, 0)), 5),
        (3, "ok", "consume", given(("a", 3, 0)), 5),
        (4, "invoke", "consume_many", read, 6),
        (5, "ok", "consume_many", read, 6),
        (6, "invoke", "consume", given(), 7),
    )
    witness = replace(finding("commit_ahead", key=None, group="g"), time_ns=7 * S)
    assert texts(witness, ops) == [
        "2 n5: g gets offset 4 of the queue; its listener has not ended",
        "4 n6: g gets offsets 8 to 10 of the queue; its listener has ended, at 5.000s",
    ]


def test_groups_that_do_not_want_the_message_are_left_out() -> None:
    commit = (6, "ok", "commit", {**GROUP, "offsets": [["b", 0, 9]]}, 5)
    ops = history(
        (3, "invoke", "send", {"key": "k", "topic": "t", "tag": "red"}, 1), commit, DRAINED
    )

    def count(**more: Any) -> int:
        facts = facts_of(**more)
        return len(life_of(finding(), ops, [], [], [], facts=facts))

    assert count() == 3
    assert count(wanted_tags={"g": ("red",)}) == 3
    assert count(wanted_tags={"g": ("blue",)}) == 1
    changed = {"wanted_tags": {"g": ("blue",)}, "wanted_before": {"g": ("red",)}}
    assert count(**changed, filters_changed_ns={"g": 2 * S}) == 1
    assert count(**changed, filters_changed_ns={"g": 4 * S}) == 3


def test_faults_of_the_whole_cluster_concern_their_topic() -> None:
    def struck(evidence: dict[str, Any], **more: Any) -> list[tuple[int, str]]:
        fault = {
            "kind": "topic-anew",
            "targets": [],
            "bitten": True,
            "params": {"queues": 8, "nodes": ["a"]},
            "fired_ns": 2 * S,
            "struck_ns": 6 * S,
            "healed_ns": 7 * S,
            "evidence": evidence,
            **more,
        }
        events = of_faults([fault], "t", {}, 1 * S, 6 * S, None)
        return [(event.time_ns // S, event.text) for event in events]

    summary = "a topic outside the load and its group are deleted and created again"
    assert struck({"topic": "t"}) == [(2, f"topic-anew strikes (queues 8): {summary}")]
    assert struck({}) == [(6, f"topic-anew strikes (queues 8): {summary}")]
    assert struck({"topic": "u"}) == []
    assert struck({}, struck_ns=7 * S) == []
    assert struck({}, kind="of a plug-in") == [(6, "of a plug-in strikes (queues 8)")]


def test_a_long_wait_is_seen_around_it() -> None:
    ops = history(
        *SENT,
        (3, "ok", "send", {"key": "l", **QUEUE, "queue_offset": 8}, 1),
        (3, "invoke", "consume", given(("l", 8, 0)), 5),
        (5, "invoke", "consume", given(("k", 7, 0)), 5),
        (9, "invoke", "consume", given(("another", 8, 0)), 5),
    )
    around = surroundings_of(finding(), ops)
    assert around is not None
    assert around.lines() == ["queue     7 k (after 2.000s), 8 l and another"]
