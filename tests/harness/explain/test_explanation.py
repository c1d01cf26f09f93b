"""The explanation of a loss: the life of its witness in order, the consequences under their cause."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Finding, Verdict
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.explain.copies import copies_of
from staticfire.harness.explain.event import Event
from staticfire.harness.explain.explanation import (
    EVENTS_MAX,
    Load,
    NothingToExplain,
    explanation_of,
    load_of,
)
from staticfire.harness.explain.life import life_of
from staticfire.harness.observers.probe import PROBE_PROCESS
from tests.harness.explain.recorded_ops import PLACE, S, finding, op


def fault(struck_s: int, healed_s: int, *targets: str, bitten: bool = True) -> dict[str, Any]:
    return {
        "kind": "power-cut",
        "targets": list(targets),
        "bitten": bitten,
        "struck_ns": struck_s * S,
        "healed_ns": healed_s * S,
        "evidence": {"lost_bytes": 99},
    }


def recovery(time_s: int, node: str, end_offset: int) -> dict[str, Any]:
    return {
        "time_ns": time_s * S,
        "kind": "recovery",
        "node": node,
        "clean": False,
        "end_offset": end_offset,
        "cut_bytes": 10,
        "bad_checksum": True,
    }


DURABILITY = {
    "time_ns": 2 * S,
    "kind": "ack_durability",
    "key": "k",
    "durable_on": [],
    "cached_on": ["b-0"],
}
OPS = [
    op(1, "invoke", "send", {"key": "k", "size": 10, "topic": "t"}, "producer-1"),
    op(2, "ok", "send", {"key": "k", "status": "SEND_OK", **PLACE}, "producer-1"),
    op(6, "ok", "send", {"key": "other", "status": "SEND_OK", **PLACE}, "producer-2"),
    op(7, "ok", "send", {"key": "far", **PLACE, "queue_offset": 8}, "producer-2"),
    op(
        8, "invoke", "consume", {"group": "g", **PLACE, "messages": [["other", 7, 0]]}, "consumer-1"
    ),
]


def texts(events: list[Event]) -> list[str]:
    return [f"{event.time_ns // S} {event.where}: {event.text}" for event in events]


def test_the_life_of_a_lost_message() -> None:
    observations = [DURABILITY, recovery(5, "b-0", 500), recovery(7, "b-0", 900)]
    faults = [fault(3, 4, "b-0"), fault(3, 4, "elsewhere"), fault(6, 7, "b-0")]
    assert texts(life_of(finding(), OPS, observations, faults, ["b-0"])) == [
        "1 producer-1: sends it, 10 bytes",
        "2 : when acknowledged, it is on disk of no node, only in memory of b-0",
        "2 producer-1: is answered SEND_OK: b queue 0 offset 7",
        "3 b-0: power-cut strikes: 99 bytes that were not on disk are gone",
        "4 b-0: power-cut is over",
        "5 b-0: recovers: its log ends at 500, the message began at 500: the message is gone; "
        "10 bytes cut, after a bad checksum",
        "6 producer-2: other is acknowledged at the same offset",
        "8 consumer-1: g gets other at that offset",
    ]


def test_a_client_that_ended_in_its_listener_starts_again() -> None:
    """The life shows the fault that ended it, although its last event with the message came before."""
    given = {"group": "g", **PLACE, "messages": [["k", 7, 0]]}
    ops = [
        *OPS[:2],
        op(3, "invoke", "consume", given, "consumer-1", process=5),
        op(6, "ok", "open", {}, "consumer-1", process=6),
    ]
    crash = {**fault(4, 6, "consumer-1"), "kind": "client-crash", "evidence": {}}
    found = texts(life_of(finding(), ops, [], [crash], ["b-0"]))
    assert found[2:] == [
        "3 consumer-1: g gets it, b queue 0 offset 7",
        "4 consumer-1: client-crash strikes",
        "6 consumer-1: client-crash is over",
        "6 consumer-1: starts again; its listener had not finished with the message",
    ]
    ended = op(4, "ok", "consume", given, "consumer-1", process=5)
    again = texts(life_of(finding(), [*ops[:3], ended, ops[3]], [], [crash], ["b-0"]))
    assert not any("starts again" in text or "strikes" in text for text in again)


def test_a_recovery_before_the_broker_stored_the_message_is_no_loss() -> None:
    """The log ended below the message, because the message came later: at its acknowledgement the node had it."""
    acked = {**DURABILITY, "time_ns": 6 * S, "durable_on": ["b-0"], "cached_on": ["b-0"]}
    early = recovery(5, "b-0", 500)
    found = texts(life_of(finding(), OPS[:2], [early, acked], [], ["b-0"]))
    assert not any("recovers" in text for text in found)
    late = texts(life_of(finding(), OPS[:2], [early, acked, recovery(8, "b-0", 500)], [], ["b-0"]))
    assert [text for text in late if "the message is gone" in text] == [late[-1]]
    assert late[-1].startswith("8 b-0")


def test_a_recovery_that_keeps_the_message_is_no_loss() -> None:
    found = texts(life_of(finding(), OPS[:2], [recovery(5, "b-0", 501)], [], ["b-0"]))
    assert "the message is in it" in found[-1]
    faults = [fault(6, 9, "b-0")]
    assert len(life_of(finding(), OPS[:2], [recovery(5, "b-0", 501)], faults, ["b-0"])) == 3


def test_a_delayed_message_lies_elsewhere_than_what_was_acknowledged() -> None:
    """A log that ends below its later place has not lost it."""
    acked = {**DURABILITY, "durable_on": ["b-0"], "cached_on": ["b-0"], "end_offset": 400}
    observations = [acked, recovery(5, "b-0", 450)]
    found = texts(life_of(finding(), OPS[:2], observations, [], ["b-0"]))
    assert not any("recovers" in text for text in found)
    assert copies_of(finding(), observations, [], ["b-0"], None) is None


def test_an_op_without_the_fields_of_its_kind_is_refused() -> None:
    for value in ({}, {"messages": [["k"]]}, {"messages": 3}):
        wrong = op(1, "invoke", "consume", value, "c")
        with pytest.raises(HistoryError, match="op 1 is no consume"):
            life_of(finding(), [wrong], [], [], [])


def test_a_fault_that_did_not_bite_is_no_part_of_it() -> None:
    faults = [fault(3, 4, "b-0", bitten=False)]
    assert life_of(finding(), OPS, [], faults, ["b-0"]) == life_of(finding(), OPS, [], [], ["b-0"])


def test_without_a_message_the_owners_of_the_queue_are_listed() -> None:
    assigned = [
        op(time_s, "ok", "assign", {"group": "g", "topic": "t", "queues": queues}, "c", process=9)
        for time_s, queues in ((1, [["b", 0]]), (2, [["b", 0], ["b", 1]]), (3, []), (4, []))
    ]
    witness = finding("queue_unowned", key=None, group="g")
    found = life_of(witness, assigned, [], [fault(1, 2, "x"), fault(5, 6, "x")], ["b-0"])
    assert texts(found) == [
        "1 c: g has the queue",
        "1 x: power-cut strikes: 99 bytes that were not on disk are gone",
        "2 x: power-cut is over",
        "3 c: g gives up the queue",
    ]


def verdict(*findings: Finding) -> RunVerdict:
    counts = Counter(one.anomaly for one in findings)
    judged = Verdict(checker="loss", valid=not findings, counts=counts, findings=findings)
    return RunVerdict.from_json(
        {
            "valid": not findings,
            "verdicts": [judged.to_json()],
            "counts": {},
            **{name: [] for name in ("below_floors", "not_applicable")},
            **{name: [] for name in ("faults_bitten", "faults_not_bitten")},
        }
    )


def test_a_finding_without_a_queue_shows_nodes_that_ended_and_the_last_faults() -> None:
    exits = [op(time_s, "info", "node_exit", {"targets": ["b-0"]}, "b-0") for time_s in (2, 3, 5)]
    witness = finding("not_drained", key=None, group="g", queue=None, queue_offset=None)
    late = replace(witness, time_ns=100 * S)
    found = life_of(late, exits, [], [fault(1, 2, "b-0"), fault(200, 201, "b-0")], ["b-0"])
    assert [(event.time_ns // S, event.where, event.text) for event in found] == [
        (1, "b-0", "power-cut strikes: 99 bytes that were not on disk are gone"),
        (2, "b-0", "ends by itself: no answer"),
        (2, "b-0", "power-cut is over"),
        (5, "b-0", "ends by itself, 3 times until now"),
    ]
    early = life_of(replace(witness, time_ns=2 * S), exits, [], [], ["b-0"])
    assert [event.text for event in early] == ["ends by itself: no answer"]


def test_the_consequences_of_a_loss_are_listed_with_it() -> None:
    found = verdict(finding("realtime_order", "x"), finding("lost"), finding("corrupt", "y"))
    explanation = explanation_of(
        found, OPS, [], [], {"b": ["b-0"]}, commands=["staticfire shrink R"]
    )
    lines = explanation.lines()
    assert lines[:5] == [
        "cause     loss (lost): 1; with it realtime_order 1",
        "beside    corrupt 1",
        "          y  t  b  queue 0  offset 7  corrupt at 2.000s: it must survive",
        "load      acknowledged sends 3, deliveries 1",
        "witness   k  t  b  queue 0  offset 7  lost at 2.000s",
    ]
    assert lines[-2:] == ["broken    it must survive", "go on     staticfire shrink R"]
    assert explanation.to_json()["others"] == {"corrupt": 1}
    assert explanation.to_json()["load"] == {"acknowledged": 3, "delivered": 1}
    assert explanation.to_json()["events"][0]["text"] == "sends it, 10 bytes"


def test_a_disk_that_is_slow_before_the_power_is_cut() -> None:
    cut = {**fault(3, 4, "b-0"), "fired_ns": 5 * S // 2, "params": {"slow_factor": 50.0}}
    for slow_s, is_seen in ((0.5, True), (0.6, False)):  # False: this environment slows no disk
        cut["params"] = {"slow_factor": 50.0, "slow_s": slow_s}
        found = texts(
            life_of(finding(), OPS, [DURABILITY, recovery(5, "b-0", 500)], [cut], ["b-0"])
        )
        assert (
            "2 b-0: disk writes get 50 times slower, until power-cut strikes" in found
        ) is is_seen


def test_of_other_causes_the_first_findings_of_the_most_frequent_are_shown() -> None:
    late = replace(finding("corrupt", "late"), time_ns=9 * S, detail="given to process 1")
    others = [*[late] * 3, finding("corrupt", "first"), *[finding("misrouted", "m")] * 5]
    found = verdict(finding("lost"), *others, finding("wrong_answer"))
    ops = [op(1, "ok", "assign", {}, "c-1", 1)]
    explanation = explanation_of(found, ops, [], [], {})
    assert explanation.lines()[2:4] == [
        "          m  t  b  queue 0  offset 7  misrouted at 2.000s: it must survive",
        "          first  t  b  queue 0  offset 7  corrupt at 2.000s: it must survive",
    ]
    assert [one.anomaly for one in explanation.beside] == ["misrouted", "corrupt", "wrong_answer"]
    found = verdict(finding("lost"), late)
    assert explanation_of(found, ops, [], [], {}).beside[0].detail == "given to c-1"


def test_the_load_counts_messages_however_they_are_recorded() -> None:
    sends = {"key": "p1-0", "count": 2, "ranges": [["p1-0", 6, 0, 2, 100]]}
    read = {"group": "g", "ranges": [["p1-0", 6, 0, True, 0, 1, 0]]}
    ops = [
        op(1, "fail", "send", {"key": "x"}, "p"),
        op(2, "ok", "send", {"key": "y"}, "p"),
        op(3, "ok", "send_many", sends, "p"),
        op(4, "invoke", "consume", {"messages": [["y", 1, 0], ["z", 2, 0]]}, "c"),
        op(5, "ok", "consume", {"messages": [["y", 1, 0], ["z", 2, 0]]}, "c"),
        op(6, "ok", "consume", {"messages": [["y", 1, 0]]}, "", PROBE_PROCESS),
        op(7, "invoke", "consume_many", read, "c"),
    ]
    assert load_of(ops) == Load(acknowledged=3, delivered=3)
    with pytest.raises(HistoryError, match="op 4 is no consume"):
        load_of([op(4, "invoke", "consume", {}, "c")])


def test_the_steps_of_an_administrator_in_the_queue_of_the_message() -> None:
    def step(time_s: int, text: str, **place: object) -> dict[str, Any]:
        seen = {"kind": "administration", "node": "b-0", "broker_name": "b", "topic": "t"}
        return {**seen, "time_ns": time_s * S, "queue": None, "step": text, **place}

    observations = [
        step(0, "confirms the topic"),
        step(3, "answers offset 9 for g", queue=0),
        step(3, "answers offset 8 for g", queue=1),
        step(3, "deletes the topic", topic="u"),
        step(3, "deletes the topic", broker_name="c"),
    ]
    found = texts(life_of(finding(), OPS, observations, [], ["b-0"]))
    assert [text for text in found if "b-0" in text] == [
        "0 b-0: confirms the topic",
        "3 b-0: answers offset 9 for g",
    ]


def test_the_witness_that_is_asked_for() -> None:
    found = verdict(finding("realtime_order", "x"), finding("lost"))
    assert explanation_of(found, OPS, [], [], {}, key="x").witness.anomaly == "realtime_order"
    with pytest.raises(NothingToExplain, match="names the message z"):
        explanation_of(found, OPS, [], [], {}, key="z")


def test_a_valid_run_has_no_story() -> None:
    with pytest.raises(NothingToExplain, match="no promise was broken"):
        explanation_of(verdict(), OPS, [], [], {})


def test_the_run_and_the_nodes_of_processes_are_named() -> None:
    two = "given to process 1 before process 2 on c-2: why"
    explanation = explanation_of(
        verdict(finding()), OPS, [], [], {}, setting="workload queue, seed 1"
    )
    assert explanation.lines()[1] == "run       workload queue, seed 1"
    for nodes, named in ((("c-1", "c-2"), "given to c-1 before c-2: why"), (("c-1", "c-1"), two)):
        ops = [op(1, "ok", "assign", {}, node, process) for process, node in enumerate(nodes, 1)]
        found = verdict(replace(finding(), detail=two))
        assert explanation_of(found, ops, [], [], {}).witness.detail == named


def long_life(texts: list[str]) -> list[str]:
    """The lines of an explanation whose events have these texts."""
    whole = explanation_of(verdict(finding(), finding("corrupt")), OPS, [], [], {})
    events = [Event(time_ns=number * S, where="n", text=text) for number, text in enumerate(texts)]
    return replace(whole, events=events, commands=("a", "b")).lines()


def test_a_long_life_is_cut_in_the_middle() -> None:
    lines = long_life([f"e{number}" for number in range(99)])
    assert len(lines) == EVENTS_MAX + 9 <= 25
    assert f"{99 - EVENTS_MAX} more events; --json has all" in "\n".join(lines)
    assert [line[-2:] for line in lines[12:14]] == ["e7", "ll"]


def test_of_a_long_life_what_repeats_is_left_out_first() -> None:
    rounds = [f"{what} {number}" for number in range(9) for what in ("gets it, retry", "fails")]
    lines = long_life(["sent", *rounds, "power is cut", "back", "over", "and", "done"])
    kept = "\n".join(lines)
    assert "8 more events; --json has all" in kept
    for text in (
        "sent",
        "retry 0",
        "fails 0",
        "retry 8",
        "fails 8",
        "power is cut",
        "back",
        "done",
    ):
        assert text in kept
