"""Transactions: what members see of half messages, and the ends that brokers store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import RottenRecord
from staticfire.checkers.model.history import Stamp
from tests.checkers.stories import Story
from tests.support.history_language import GROUP, NODE, fault

EPOCH_MS = 1_700_000_000_000
CHECKS = {"check_after_s": 6.0, "check_max": 2}


def transaction(decision: str, end: str, state: str | None = None) -> Story:
    return Story().send(
        1.0,
        "a",
        end,  # type: ignore[arg-type]
        transaction=decision,
        state=state or decision,
    )


@pytest.mark.parametrize("decision", ["rollback", "unknown"])
def test_an_uncommitted_message_is_never_seen(decision: str) -> None:
    seen = transaction(decision, "fail").consume(2.0, "a", 0).drained(9.0)
    assert seen.counts("transactions", **CHECKS) == {"rolled_back_visible"}
    assert seen.counts("provenance", **CHECKS) == {"aborted_read"}
    unseen = transaction(decision, "fail").drained(9.0)
    assert unseen.counts("transactions", **CHECKS) == unseen.counts("loss", **CHECKS) == set()


def test_what_was_committed_is_seen_and_what_is_to_be_asked_for_is_resolved() -> None:
    assert transaction("commit", "ok").drained(9.0).counts("loss", **CHECKS) == {"lost"}
    assert transaction("commit", "ok").consume(2.0, "a", 0).drained(9.0).counts("loss") == set()
    left = transaction("commit", "info", "unknown").drained(9.0)
    assert left.counts("transactions", **CHECKS) == {"unresolved_transaction"}
    undrained = transaction("commit", "info", "unknown")
    assert undrained.counts("transactions", **CHECKS) == set()
    resolved = asked("commit").consume(8.0, "a", 0).drained(9.0)
    assert resolved.counts("transactions", **CHECKS) == set()


@pytest.mark.parametrize(
    ("key", "found"), [("a", "unresolved_transaction_allowed"), ("b", "unresolved_transaction")]
)
def test_a_half_whose_only_record_the_disk_changed_may_be_gone(key: str, found: str) -> None:
    """A changed record of another message explains nothing."""
    rot = replace(
        fault("bit_rot", NODE, at_s=3.0, healed_s=4.0),
        records=(RottenRecord(key=key, start=0, end=9),),
    )
    left = transaction("commit", "info", "unknown").drained(9.0)
    assert left.counts("transactions", **CHECKS, faults=(rot,)) == {found}


def asked(state: str) -> Story:
    """A producer that left the end open, and its answer at 7.5 s."""
    story = transaction("commit", "info", "unknown")
    return story.op(7.5, "ok", "check_back", {"topic": "t", "key": "a", "state": state})


def test_half_a_message_is_not_seen_before_it_is_committed() -> None:
    early = transaction("commit", "info", "unknown").consume(7.0, "a", 0)
    early.op(7.5, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    assert early.counts("transactions", **CHECKS) == {"rolled_back_visible"}
    assert asked("unknown").consume(8.0, "a", 0).counts("transactions", **CHECKS) == {
        "rolled_back_visible"
    }
    assert asked("commit").consume(8.0, "a", 0).counts("transactions", **CHECKS) == set()
    # a harness outside the simulation may have read the answer of the producer late
    late = transaction("commit", "info", "unknown").consume(7.45, "a", 0)
    late.op(7.5, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    assert late.counts("transactions", **CHECKS, disks_observed=False) == set()
    # it may have read it much later: the producer's own clock says when it answered
    for answered_s, found in ((6.9, set()), (7.3, {"rolled_back_visible"})):
        stamped = transaction("commit", "info", "unknown").consume(7.0, "a", 0)
        stamped.op(7.5, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
        stamped.ops[-1] = replace(stamped.ops[-1], stamp=Stamp(int(answered_s * 1e9), 1_000_000))
        assert stamped.counts("transactions", **CHECKS, disks_observed=False) == found


def test_without_any_answer_it_is_unknown_when_a_transaction_was_committed() -> None:
    silent = transaction("commit", "info", "unknown").consume(7.0, "a", 0)
    verdict = silent.verdict("transactions", **CHECKS)
    assert (verdict.valid, verdict.findings) == ("unknown", ())
    assert verdict.counts["ends_unknown"] == 1
    # one answer of any other transaction shows that producers report them
    silent.send(7.5, "z", "info", transaction="commit", state="unknown")
    silent.op(14.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "commit"})
    assert silent.counts("transactions", **CHECKS) == {"rolled_back_visible"}
    # what its producer rolled back needs no answer
    rolled_back = transaction("rollback", "info", "unknown").consume(7.0, "a", 0)
    assert rolled_back.verdict("transactions", **CHECKS).valid is False


@pytest.mark.parametrize(
    ("stored_s", "asked", "faults", "found"),
    [
        (6.9, "z", (), set()),
        (8.0, "z", (), {"unresolved_transaction"}),
        (8.0, "a", (), {"checked_too_often"}),
        (8.0, "", (), set()),  # its producer may have been asked, and not report it
        (8.0, "z", (("pause", NODE, 1.5, 2.0),), {"unresolved_transaction_allowed"}),
        (8.0, "z", (("pause", "p1", 1.5, 2.0),), {"unresolved_transaction_allowed"}),
        (8.0, "z", (("pause", "p2", 1.5, 2.0),), {"unresolved_transaction"}),
        (8.0, "z", (("pause", NODE, 6.0, 7.0),), {"unresolved_transaction"}),
        (
            27.0,
            "z",
            (("pause", NODE, 1.5, 2.0),),
            {"unresolved_transaction"},
        ),  # not held up so long
        (27.0, "z", (("pause", NODE, 1.5, 9.0),), {"unresolved_transaction_allowed"}),
        (8.0, "z", (("clock_step", NODE, 0.1, 0.2),), set()),
    ],
)
def test_what_was_committed_is_stored_soon(
    stored_s: float,
    asked: str,
    faults: tuple[tuple[str, str, float, float], ...],
    found: set[str],
) -> None:
    story = Story().send(0.5, "z", "info", transaction="unknown", state="unknown")
    story.opened("p1", 7).send(1.0, "a", transaction="commit", state="commit", process=7)
    if asked:
        answer = {"topic": "t", "key": asked, "state": "unknown"}
        story.op(7.5, "ok", "check_back", answer)
    contents = [None, None, None, None, EPOCH_MS + round(1000 * stored_s), None, None]
    given = {"group": "g", "topic": "t", "broker": "b", "queue": 0}
    at_s = max(9.0, stored_s)
    story.op(at_s, "ok", "consume", {**given, "messages": [["a", 0, 0, True, 0, contents]]})
    made = tuple(fault(kind, node, at_s=a, healed_s=b) for kind, node, a, b in faults)
    brokers = {"b": (NODE,)}
    counts = story.counts(
        "transactions", **CHECKS, wall_epoch_ms=EPOCH_MS, faults=made, replica_sets=brokers
    )
    assert counts == found


COMMITTED = "unresolved_transaction"
PAUSED = {"faults": (fault("pause", "p1", at_s=7.0, healed_s=8.0),), "producers": ("p1",)}
KILLED = {"faults": (fault("kill", NODE, at_s=20.0, healed_s=21.0),)}  # long after the answer
OFTEN = "checked_too_often_allowed"  # a busy broker may have refused the first answer
REAL = {"disks_observed": False}  # not the simulation


@pytest.mark.parametrize(
    ("states", "read_s", "known", "found"),
    [
        (("commit",), 30.0, {}, {COMMITTED}),
        (("unknown", "commit"), 30.0, {}, {COMMITTED}),
        (("unknown",), 30.0, {}, set()),
        (("commit",), 14.0, {}, set()),  # read before the broker may have asked again
        (("commit",), 30.0, {"reserved_s": 9.0}, set()),  # old enough to be deleted unread
        (("commit",), 30.0, {"faults": (fault("kill", NODE, at_s=7.5, healed_s=8.0),)}, set()),
        (("commit",), 30.0, PAUSED, set()),
        (("commit",), 30.0, KILLED, {COMMITTED}),
        (("commit",), 30.0, {"living": ()}, {f"{COMMITTED}_allowed"}),
        (("commit",), 30.0, {"late_groups": (GROUP,)}, set()),  # it may begin behind it
        (("commit", "commit"), 30.0, REAL, {OFTEN}),  # each may have been refused
        (("commit",), 30.0, REAL, {COMMITTED}),  # it had a question left
    ],
)
def test_a_commit_that_is_answered_is_seen(
    states: tuple[str, ...], read_s: float, known: dict[str, Any], found: set[str]
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "commit", "state": "commit", "attempts": 1}
    story = Story().op(1.0, "invoke", "send", half)
    story.op(4.0, "info", "send", half, error="no answer")
    for number, state in enumerate(states):
        answer = {"topic": "t", "key": "a", "state": state}
        story.op(7.1 + 5 * number, "ok", "check_back", answer, process=1)
    story.drained(read_s)
    rounds = {**CHECKS, "check_every_s": 5.0, "reserved_s": 60.0, **known}
    assert story.counts("transactions", **rounds) == found
    seen = Story()
    seen.ops = story.ops[:-1]
    seen.consume(19.5, "a", 0).drained(read_s)
    assert COMMITTED not in seen.counts("transactions", **rounds)


TWO = {"replica_sets": {"b": (NODE,), "c": ("c-0",)}, "living": ("b", "c")}


@pytest.mark.parametrize(
    ("named", "struck", "found"),
    [
        ({"broker": "b"}, "c-0", {COMMITTED}),  # the fault of another one has no part in it
        ({"broker": "b"}, NODE, set()),
        ({"broker": "c"}, "c-0", set()),
        ({}, "c-0", set()),  # either may have asked
        ({"broker": "elsewhere"}, "c-0", set()),
    ],
)
def test_a_fault_of_the_broker_that_asked_takes_an_answer(
    named: dict[str, str], struck: str, found: set[str]
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "commit", "state": "commit", "attempts": 1}
    story = Story().op(1.0, "invoke", "send", half)
    story.op(4.0, "info", "send", half, error="no answer")
    answer = {"topic": "t", "key": "a", "state": "commit", **named}
    story.op(7.1, "ok", "check_back", answer, process=1)
    story.drained(30.0)
    faults = (fault("pause", struck, at_s=7.0, healed_s=8.0),)
    rounds = {**CHECKS, **TWO, "check_every_s": 5.0, "reserved_s": 60.0, "faults": faults}
    assert story.counts("transactions", **rounds) == found


@pytest.mark.parametrize("decision", ["unknown", "commit"])
@pytest.mark.parametrize(("asked_s", "found"), [(15.0, set()), (15.1, {"unresolved_transaction"})])
def test_what_is_left_to_the_broker_is_asked_for_in_time(
    decision: str, asked_s: float, found: set[str]
) -> None:
    story = transaction(decision, "info", "unknown")
    for key in ("a", "z"):
        story.op(asked_s, "ok", "check_back", {"topic": "t", "key": key, "state": "unknown"})
    rounds = {"check_after_s": 6.0, "check_every_s": 5.0, "topics": ()}
    assert story.counts("transactions", **rounds) == found
    # read late, by a busy harness: the producers' own clocks say when they answered
    for at in (-2, -1):
        story.ops[at] = replace(story.ops[at], stamp=Stamp(14_000_000_000, 1_000_000))
    assert story.counts("transactions", **rounds) == set()
