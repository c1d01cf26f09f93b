"""Checks of half messages: brokers ask neither too early nor too often."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.model.history import OpType
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.features.test_transactions import CHECKS, TWO, transaction
from tests.checkers.formats.columnar.test_round_trip import record
from tests.checkers.stories import Story
from tests.support.history_language import NODE, facts, fault


@pytest.mark.parametrize(
    ("asked_s", "found"),
    [
        ((7.1,), set()),
        ((7.1, 8.1), set()),
        ((6.9,), {"check_too_early"}),
        ((7.1, 8.1, 9.1), {"checked_too_often"}),
    ],
)
def test_brokers_ask_neither_too_early_nor_too_often(
    asked_s: tuple[float, ...], found: set[str]
) -> None:
    story = transaction("commit", "info", "unknown")
    for at_s in asked_s:
        story.op(at_s, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    story.consume(10.0, "a", 0)
    assert story.counts("transactions", **CHECKS) == found


@pytest.mark.parametrize(
    ("attempts", "broker", "node", "found"),
    [
        (2, "c", "c-0", "check_too_early_allowed"),
        (2, "c", NODE, "check_too_early"),  # the clock of the broker that did not check
        (2, "b", "c-0", "check_too_early"),
        (2, None, "c-0", "check_too_early_allowed"),  # any of them may have checked
        (1, None, "c-0", "check_too_early"),  # the only half is not there
    ],
)
def test_a_half_is_asked_for_by_the_clock_of_its_broker(
    attempts: int, broker: str | None, node: str, found: str
) -> None:
    story = Story().send(1.0, "a", "info", transaction="commit", state="unknown", attempts=attempts)
    answer = {"topic": "t", "key": "a", "state": "commit"}
    story.op(4.0, "ok", "check_back", answer if broker is None else answer | {"broker": broker})
    story.op(7.5, "ok", "check_back", answer | {"broker": "b"})
    story.consume(15.0, "a", 0)
    stepped = fault("clock_skew", node, at_s=3.0, healed_s=5.0)
    assert found in story.counts("transactions", **CHECKS, **TWO, faults=(stepped,))


@pytest.mark.parametrize(
    ("attempts", "asked", "faults", "found"),
    [
        (2, 4, (), set()),  # each attempt may have stored a half
        (2, 5, (), {"checked_too_often"}),
        (1, 3, (fault("kill", NODE, at_s=7.5, healed_s=8.0),), {"checked_too_often_allowed"}),
        (1, 3, (fault("kill", NODE, at_s=20.0, healed_s=21.0),), {"checked_too_often"}),
        (1, 3, (fault("pause", NODE, at_s=7.5, healed_s=8.0),), {"checked_too_often"}),
    ],
)
def test_a_half_is_asked_for_so_often_and_more_after_a_crash(
    attempts: int, asked: int, faults: tuple[FaultFacts, ...], found: set[str]
) -> None:
    story = Story().send(1.0, "a", "info", transaction="commit", state="unknown", attempts=attempts)
    for number in range(asked):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        story.op(7.1 + number, "ok", "check_back", answer)
    story.consume(15.0, "a", 0)
    assert story.counts("transactions", **CHECKS, faults=faults) == found


@pytest.mark.parametrize(
    ("attempts", "node", "found"),
    [
        (1, NODE, {"checked_too_often_allowed"}),
        (1, "m0", {"checked_too_often"}),  # the half that there is lies on another broker
        (2, "m0", {"checked_too_often_allowed"}),  # the first attempt may have gone there
        (2, "n7", {"checked_too_often"}),
    ],
)
def test_a_crash_of_a_broker_that_may_hold_a_half_may_have_it_asked_for_again(
    attempts: int, node: str, found: set[str]
) -> None:
    story = Story().send(1.0, "a", "info", transaction="commit", state="unknown", attempts=attempts)
    for number in range(5):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        story.op(7.1 + number, "ok", "check_back", answer)
    story.consume(15.0, "a", 0)
    crash = fault("kill", node, at_s=7.5, healed_s=8.0)
    brokers = {"b": (NODE,), "c": ("m0",)}
    assert story.counts("transactions", **CHECKS, faults=(crash,), replica_sets=brokers) == found


def asked_at(*asked_s: float, end: OpType = "info", state: str = "unknown", **more: Any) -> Story:
    """A transaction that is to be committed, begun at 1 s, and what its producer said when it was asked."""
    story = Story().send(1.0, "a", end, transaction="commit", state=state, **more)
    for at_s in asked_s:
        story.op(at_s, "ok", "check_back", {"topic": "t", "key": "a", "state": state})
    return story


@pytest.mark.parametrize(
    ("story", "found"),
    [
        (asked_at(7.1, 10.0, state="commit"), set()),  # in flight for as long as a request waits
        (asked_at(7.1, 10.2, state="commit"), {"checked_too_often"}),
        (asked_at(7.1, 12.1), set()),  # undecided as yet
        (asked_at(7.1, end="ok", state="commit"), {"checked_too_often"}),  # committed at 1 s
        (asked_at(7.1, 12.1).consume(13.0, "a", 0), {"rolled_back_visible"}),
        (asked_at(7.1, 9.5), {"checked_too_often"}),  # twice in one round
        (asked_at(7.1, 9.7), set()),
        (asked_at(7.1, 7.1, 12.1, state="commit", attempts=2), set()),  # of a half each
    ],
)
def test_nothing_is_asked_about_that_is_over_and_nothing_twice_in_one_round(
    story: Story, found: set[str]
) -> None:
    rounds = {"check_after_s": 6.0, "check_every_s": 5.0}
    assert story.counts("transactions", **rounds) == found


def test_an_end_that_did_not_go_out_is_asked_for(tmp_path: Path) -> None:
    """The files of a history say so, too."""
    rounds = {"check_after_s": 6.0, "check_every_s": 5.0}
    lost = asked_at(7.1, end="ok", state="commit", end_sent=False)
    assert lost.counts("transactions", **rounds) == set()
    files = record(lost.ops, tmp_path / "h", part_rows=5)
    assert list(read_ops(files)) == lost.ops
    assert check_files(files, [], facts(**rounds)) == check_run(lost.ops, [], facts(**rounds))
    # what the producer then answered is no less an end
    lost.op(12.1, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    assert lost.counts("transactions", **rounds) == {"checked_too_often"}


@pytest.mark.parametrize(
    ("decision", "end", "found"),
    [
        ("commit", "fail", {"checked_too_often"}),
        ("commit", "info", set()),
        ("rollback", "fail", set()),  # half of it was stored, and rolled back
        ("unknown", "fail", set()),
    ],
)
def test_nothing_is_asked_about_that_was_never_stored(
    decision: str, end: OpType, found: set[str]
) -> None:
    story = Story().send(1.0, "a", end, transaction=decision, state=decision)
    story.op(7.1, "ok", "check_back", {"topic": "t", "key": "a", "state": "unknown"})
    assert story.counts("transactions", **CHECKS) == found


def test_what_a_consumer_has_had_is_over() -> None:
    seen = asked_at(7.1, state="commit").consume(7.2, "a", 0)
    late = seen.op(12.1, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    assert late.counts("transactions", **CHECKS) == {"checked_too_often"}
    # a busy broker of real machines refuses the end of a transaction, and its producer does not hear of it
    allowed = late.counts("transactions", **CHECKS, disks_observed=False)
    assert allowed == {"checked_too_often_allowed"}


@pytest.mark.parametrize(
    ("kind", "node", "at_s", "healed_s", "found"),
    [
        ("pause", "p1", 7.0, 8.0, "checked_too_often_allowed"),  # it answers at 7.1
        ("pause", "p1", 25.0, 26.0, "checked_too_often"),  # between answer and question
        ("pause", "p2", 7.0, 8.0, "checked_too_often"),  # has nothing to do with the answer
        ("pause", "p2", 42.0, 43.0, "checked_too_often_allowed"),  # is asked at 42.1
        ("kill", NODE, 0.2, 0.5, "checked_too_often"),  # before it might ask for the first time
        ("kill", NODE, 12.0, 13.0, "checked_too_often_allowed"),  # may have put it back
        ("kill", NODE, 25.0, 26.0, "checked_too_often"),  # what it knew was written down by then
        ("power_cut", NODE, 25.0, 26.0, "checked_too_often"),
        ("disk_lost", NODE, 25.0, 26.0, "checked_too_often_allowed"),
        ("pause", NODE, 40.0, 41.0, "checked_too_often_allowed"),  # asked before, delivered late
    ],
)
def test_only_faults_of_the_broker_and_of_who_answers_explain_a_late_question(
    kind: str, node: str, at_s: float, healed_s: float, found: str
) -> None:
    story = Story().send(1.0, "a", "info", transaction="commit", state="unknown")
    for asked_s, producer in ((7.1, "p1"), (42.1, "p2")):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        story.op(asked_s, "ok", "check_back", answer, node=producer)
    faults = (fault(kind, node, at_s=at_s, healed_s=healed_s),)
    known = {"check_after_s": 6.0, "faults": faults, "producers": ("p1", "p2"), "flush": "sync"}
    assert story.counts("transactions", **known) == {found}


PAIR = {"replica_sets": {"b": (NODE, "n1")}, "producers": ("p1",), "flush": "sync"}


@pytest.mark.parametrize(
    ("fault_of", "asked_s", "found"),
    [
        (("wiped_slave", "n1", 6.0, 7.0), 30.0, ""),  # the leader forgets nothing
        (("power_cut", NODE, 9.0, 10.0), 20.0, "_allowed"),
        (("power_cut", NODE, 9.0, 10.0), 120.0, ""),  # producers have long been there again
        (("network_latency", NODE, 7.0, 8.0), 18.0, "_allowed"),  # the answer came late
        (("network_latency", NODE, 7.0, 8.0), 30.0, ""),  # it would have asked in rounds between
        (("broker_black_hole", NODE, 6.5, 20.0), 38.0, "_allowed"),  # asked before 7.1
        (("broker_black_hole", NODE, 6.5, 20.0), 130.0, ""),
    ],
)
def test_a_broker_that_did_not_learn_the_end_asks_in_each_round(
    fault_of: tuple[str, str, float, float], asked_s: float, found: str
) -> None:
    story = Story().send(1.0, "a", "fail", transaction="rollback", state="unknown")
    for at_s in (7.1, asked_s):
        answer = {"topic": "t", "key": "a", "state": "rollback"}
        story.op(at_s, "ok", "check_back", answer, node="p1")
    kind, node, at_s, healed_s = fault_of
    faults = (fault(kind, node, at_s=at_s, healed_s=healed_s),)
    rounds = {"check_after_s": 3.0, "check_every_s": 5.0, "faults": faults}
    assert story.counts("transactions", **rounds, **PAIR) == {f"checked_too_often{found}"}


@pytest.mark.parametrize(
    ("asked_s", "struck", "found"),
    [
        ((12.0, 17.0, 22.0, 27.0, 32.0, 37.0, 39.0), NODE, ""),  # it was one half until then
        # one round alone may have lacked a check
        ((12.0, 12.1, 17.0, 17.1, 22.0, 22.1, 27.0, 32.0, 32.1), NODE, "_allowed"),
        ((12.0, 12.1, 17.0, 17.1, 22.0, 22.1, 27.0, 27.1), NODE, "_allowed"),
        ((12.0, 12.1, 17.0, 17.1, 22.0, 22.1, 27.0, 27.1), "n1", ""),
    ],
)
def test_a_half_that_a_broker_has_twice_is_asked_for_twice_in_each_round(
    asked_s: tuple[float, ...], struck: str, found: str
) -> None:
    faults = (fault("kill", struck, at_s=5.5, healed_s=6.0),)
    rounds = {"check_after_s": 3.0, "check_every_s": 5.0, "faults": faults}
    counts = asked_at(*asked_s).counts("transactions", **rounds, **PAIR)
    assert counts == {f"checked_too_often{found}"}


@pytest.mark.parametrize(
    ("rounds", "node", "found"),
    [(4, NODE, "_allowed"), (7, NODE, ""), (4, "n1", "")],
)
def test_a_broker_that_died_asks_in_as_many_rounds_more_as_it_had_not_recorded(
    rounds: int, node: str, found: str
) -> None:
    story = asked_at(*(6.0 + 5 * number for number in range(rounds)))
    faults = (fault("kill", node, at_s=7.0, healed_s=7.5),)
    known = {"check_after_s": 3.0, "check_every_s": 5.0, "check_max": 3, "faults": faults}
    assert story.counts("transactions", **known, **PAIR) == {f"checked_too_often{found}"}


@pytest.mark.parametrize(
    ("faults", "found"),
    [
        ((("kill", 17.0, 18.0),), ""),  # it takes memory, and the end is in the log
        ((("graceful_stop", 17.0, 18.0),), ""),
        ((("kill", 11.0, 12.0),), "_allowed"),  # the end may not have arrived
        ((("power_cut", 17.0, 18.0),), "_allowed"),  # of an asynchronous flush
        ((("failing_disk", 17.0, 18.0),), "_allowed"),
        ((("clock_skew", 0.1, 0.2), ("kill", 17.0, 18.0)), "_allowed"),  # put back at once
    ],
)
def test_a_broker_that_dies_keeps_the_end_of_what_it_cannot_have_put_back(
    faults: tuple[tuple[str, float, float], ...], found: str
) -> None:
    story = Story().opened("p1", 7)
    story.send(10.0, "a", transaction="commit", state="commit", process=7)
    story.op(20.0, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"}, node="p1")
    made = tuple(fault(kind, NODE, at_s=at, healed_s=healed) for kind, at, healed in faults)
    known = {"check_after_s": 6.0, "producers": ("p1",), "flush": "async", "faults": made}
    assert story.counts("transactions", **known) == {f"checked_too_often{found}"}


@pytest.mark.parametrize(("times", "found"), [(3, "_allowed"), (4, "")])
def test_a_broker_that_died_once_asks_for_what_it_put_back_since_it_wrote_its_progress(
    times: int, found: str
) -> None:
    asked = [
        40.0 + n / 10 for n in range(times)
    ]  # in 5 s: a round, the first half, and one on the cut point
    story = asked_at(*asked)
    kill = fault("kill", NODE, at_s=30.0, healed_s=31.0)
    known = {"check_after_s": 6.0, "check_every_s": 5.0, "check_max": 9, "faults": (kill,)}
    too_late = "unresolved_transaction"  # the first one
    assert story.counts("transactions", **known) == {f"checked_too_often{found}", too_late}


def test_how_far_apart_rounds_are_must_be_known() -> None:
    assert asked_at(7.1, 7.2).counts("transactions", **CHECKS) == set()


def test_nothing_is_asked_about_that_no_producer_has_sent() -> None:
    story = asked_at(7.1, state="commit")
    story.op(8.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "commit"})
    [finding] = story.verdict("transactions", **CHECKS).findings
    assert finding.anomaly == "checked_too_often"
    assert "1 transactions that no producer had sent" in finding.detail
    # half messages of an earlier run with the same group of producers
    earlier = asked_at(7.1, state="commit")
    earlier.op(8.0, "ok", "check_back", {"topic": "u", "key": "z", "state": "commit"})
    assert earlier.counts("transactions", **CHECKS) == set()


@pytest.mark.parametrize(
    ("named", "found"), [({"broker": "b"}, ""), ({"broker": "c"}, "_allowed"), ({}, "_allowed")]
)
def test_only_the_broker_that_asked_may_have_forgotten_that_it_did(
    named: dict[str, str], found: str
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "commit", "state": "commit", "attempts": 1}
    story = Story().op(1.0, "invoke", "send", half)
    story.op(4.0, "info", "send", half, error="no answer")
    for at_s in (7.1, 12.1, 17.1):
        answer = {"topic": "t", "key": "a", "state": "unknown", **named}
        story.op(at_s, "ok", "check_back", answer, process=1)
    killed = (fault("kill", "c-0", at_s=10.0, healed_s=11.0),)
    rounds = {**CHECKS, **TWO, "check_every_s": 5.0, "faults": killed}
    assert story.counts("transactions", **rounds) == {f"checked_too_often{found}"}


def test_the_number_of_halves_of_a_producer_that_died_is_unknown() -> None:
    story = Story()
    story.op(1.0, "invoke", "send", {"topic": "t", "key": "a", "transaction": "unknown"})
    died = {"topic": "t", "key": "a", "transaction": "unknown"}
    story.op(2.0, "fail", "send", died, error="never decided")
    for number in range(5):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        story.op(7.1 + number, "ok", "check_back", answer)
    assert story.counts("transactions", **CHECKS) == {"checked_too_often_allowed"}


@pytest.mark.parametrize(
    ("node", "found"), [(NODE, "checked_too_often_allowed"), ("consumer-1", "checked_too_often")]
)
def test_only_a_broker_that_ended_may_have_forgotten_its_questions(node: str, found: str) -> None:
    story = Story().send(1.0, "a", "info", transaction="commit", state="unknown")
    for number in range(3):
        answer = {"topic": "t", "key": "a", "state": "commit"}
        story.op(7.1 + number, "ok", "check_back", answer)
    story.consume(15.0, "a", 0)
    exits = (NodeExit(node=node, time_ns=8 * 10**9, error="KeyError"),)
    assert story.counts("transactions", **CHECKS, exits=exits) == {found}
