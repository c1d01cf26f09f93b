"""Transactions: the outcome of half messages and the checks of brokers; each anomaly, and its near miss."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit, RottenRecord
from staticfire.checkers.model.history import OpType, Stamp
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.formats.columnar.test_round_trip import record
from tests.checkers.stories import Story
from tests.support.history_language import GROUP, NODE, facts, fault

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
    lost = asked_at(7.1, end="ok", state="commit", told=False)
    assert lost.counts("transactions", **rounds) == set()
    files = record(lost.ops, tmp_path / "h", part_rows=5)
    assert list(read_ops(files)) == lost.ops
    assert check_files(files, [], facts(**rounds)) == check_run(lost.ops, [], facts(**rounds))
    # what the producer then answered is no less an end
    lost.op(12.1, "ok", "check_back", {"topic": "t", "key": "a", "state": "commit"})
    assert lost.counts("transactions", **rounds) == {"checked_too_often"}


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
    ("asked_s", "known", "found"),
    [
        (16.0, {}, {"unresolved_transaction"}),  # a round of 5 s after 6 s, and a request
        (14.0, {}, set()),
        (16.0, {"check_every_s": 0.0}, set()),
        (16.0, {"faults": (fault("pause", "p1", at_s=10.0, healed_s=11.0),)}, set()),
    ],
)
def test_what_no_producer_decides_is_asked_for_at_rest(
    asked_s: float, known: dict[str, Any], found: set[str]
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "unknown", "state": "unknown"}
    story = Story().op(1.0, "invoke", "send", half)
    story.op(1.01, "fail", "send", {**half, "broker": "b", "queue": 0}, error="never decided")
    story.send(2.0, "z", "info", transaction="commit", state="unknown")
    story.op(asked_s, "ok", "check_back", {"topic": "t", "key": "z", "state": "commit"})
    rounds = {"check_after_s": 6.0, "check_every_s": 5.0, **known}
    assert story.counts("transactions", **rounds) == found
    story.op(asked_s, "ok", "check_back", {"topic": "t", "key": "a", "state": "unknown"})
    assert story.counts("transactions", **rounds) == found  # that was too late


@pytest.mark.parametrize(
    ("states", "known", "found"),
    [
        (("unknown", "unknown"), {}, {"unresolved_transaction"}),
        (("unknown", "unknown", "unknown"), {}, set()),  # as many as are configured
        (("unknown", "rollback"), {}, set()),
        # RocketMQ also counts rounds in which it asks no producer.
        (("unknown", "unknown"), {"mode": "faithful"}, set()),
        # Its file may go soon.
        (("unknown", "unknown"), {"reserved_s": 20.0}, set()),
        (
            ("unknown", "unknown"),  # a question may have been lost
            {
                "faults": (fault("pause", "p1", at_s=12.0, healed_s=13.0),),
                "producers": ("p1",),
            },
            set(),
        ),
    ],
)
def test_what_stays_unknown_is_asked_about_as_often_as_configured_at_rest(
    states: tuple[str, ...], known: dict[str, Any], found: set[str]
) -> None:
    story = Story().send(1.0, "a", "info", transaction="unknown", state="unknown", attempts=1)
    story.send(1.1, "z", "info", transaction="unknown", state="unknown", attempts=1)
    for number, state in enumerate(states):
        value = {"topic": "t", "key": "a", "state": state}
        story.op(8.0 + 5.0 * number, "ok", "check_back", value)
    rounds = {"check_after_s": 6.0, "check_every_s": 5.0, "check_max": 3, **known}
    # others are asked about, but not for three rounds yet
    for at_s in (9.0, 14.0):
        story.op(at_s, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    assert story.counts("transactions", **rounds) == set()
    story.op(45.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    assert story.counts("transactions", **rounds) == found


LEFT_ALONE = {
    "check_after_s": 3.0,
    "check_every_s": 5.0,
    "check_max": 4,
    "replica_sets": {"b": (NODE, "n1"), "c": ("c-0",)},
    "living": ("b", "c"),
    "producers": ("p1",),
    "consumers": ("c1",),
    "coordinators": ("ns-1",),
}


@pytest.mark.parametrize(
    ("keys", "healed_s", "asked_s", "found"),
    [
        (("a",), 3.0, 36.0, set()),
        ((), 3.0, 36.0, set()),  # the changed records are not known
        (("", "a"), 3.0, 36.0, set()),
        (("",), 3.0, 36.0, {"unresolved_transaction"}),  # no half
        # repaired 26 s after it was read, whenever the plan says that the fault is over
        (("a",), 3.0, 49.0, {"unresolved_transaction"}),
        (("a",), 40.0, 49.0, {"unresolved_transaction"}),
        (("a",), 40.0, 46.0, set()),
    ],
)
def test_a_round_ends_at_a_damaged_half_until_it_is_repaired(
    keys: tuple[str, ...], healed_s: float, asked_s: float, found: set[str]
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "unknown", "state": "unknown", "attempts": 1}
    story = Story().op(1.0, "invoke", "send", half)
    placed = {**half, "broker": "b", "queue": 0, "status": "SEND_OK"}
    story.op(1.01, "fail", "send", placed, error="never decided")
    story.send(30.0, "z", "info", transaction="unknown", state="unknown", attempts=2)
    story.op(asked_s, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    records = tuple(RottenRecord(key=key, start=0, end=9) for key in keys)
    rot = replace(fault("bit_rot", NODE, at_s=2.0, healed_s=healed_s), records=records)
    assert story.counts("transactions", **LEFT_ALONE, faults=(rot,)) == found


@pytest.mark.parametrize(
    ("faults", "opened", "found"),
    [
        ((fault("kill", "p1", at_s=2.0, healed_s=3.0),), (), {"unresolved_transaction"}),
        (
            tuple(fault("kill", node, at_s=2.0, healed_s=3.0) for node in ("p1", "p2")),
            (),
            set(),
        ),
        ((fault("pause", "p1", at_s=2.0, healed_s=3.0),), (), set()),  # a dead connection
        ((fault("kill", NODE, at_s=2.0, healed_s=3.0),), (), set()),
        ((fault("kill", "ns-1", at_s=2.0, healed_s=3.0),), (), set()),  # start of producers unknown
        (
            (fault("kill", "ns-1", at_s=2.0, healed_s=3.0),),
            (("p1", 1.5), ("p2", 1.5)),
            {"unresolved_transaction"},
        ),
        ((fault("kill", "ns-1", at_s=2.0, healed_s=3.0),), (("p1", 2.5), ("p2", 2.5)), set()),
        (
            (fault("kill", "ns-1", at_s=2.0, healed_s=3.0),),
            (("p1", 1.5), ("p2", 2.5)),
            {"unresolved_transaction"},
        ),
    ],
)
def test_a_broker_asks_while_it_knows_one_of_its_producers(
    faults: tuple[FaultFacts, ...], opened: tuple[tuple[str, float], ...], found: set[str]
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "unknown", "state": "unknown", "attempts": 1}
    story = Story().op(1.0, "invoke", "send", half)
    placed = {**half, "broker": "b", "queue": 0, "status": "SEND_OK"}
    story.op(1.01, "fail", "send", placed, error="never decided")
    for number, (node, at_s) in enumerate(opened):
        story.op(at_s, "ok", "open", {}, process=50 + number, node=node)
    story.send(35.0, "z", "info", transaction="unknown", state="unknown", attempts=2)
    story.op(38.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    known = {**LEFT_ALONE, "producers": ("p1", "p2"), "faults": faults}
    assert story.counts("transactions", **known) == found


@pytest.mark.parametrize(
    ("asked_s", "struck", "status", "found"),
    [
        ((), ("pause", "c1", 0.5, 100.0), "SEND_OK", {"unresolved_transaction"}),
        ((), ("pause", "c-0", 0.5, 100.0), "SEND_OK", {"unresolved_transaction"}),
        ((), ("pause", NODE, 2.0, 3.0), "SEND_OK", {"unresolved_transaction"}),  # not for so long
        ((), ("pause", NODE, 2.0, 100.0), "SEND_OK", set()),
        ((), ("pause", "p1", 2.0, 100.0), "SEND_OK", set()),
        ((), ("pause", "p1", 2.0, 17.0), "SEND_OK", set()),  # all questions may have been lost
        ((), ("clock_skew", NODE, 0.1, 0.2), "SEND_OK", set()),
        (
            (),
            ("pause", "c1", 0.5, 100.0),
            "SLAVE_NOT_AVAILABLE",
            set(),
        ),  # its client rolled it back
        ((5.0, 10.0), ("pause", "c1", 0.5, 100.0), "SEND_OK", {"unresolved_transaction"}),
        ((5.0, 10.0), ("pause", "p1", 2.0, 3.0), "SEND_OK", set()),  # one may have been lost
        ((5.0, 10.0, 15.0, 20.0), ("pause", "c1", 0.5, 100.0), "SEND_OK", set()),
    ],
)
def test_only_faults_near_keep_a_broker_from_its_questions(
    asked_s: tuple[float, ...],
    struck: tuple[str, str, float, float],
    status: str,
    found: set[str],
    tmp_path: Path,
) -> None:
    half = {"topic": "t", "key": "a", "transaction": "unknown", "state": "unknown", "attempts": 1}
    story = Story().op(1.0, "invoke", "send", half)
    sent = {**half, "broker": "b", "queue": 0, "status": status}
    story.op(1.01, "fail", "send", sent, error="never decided")
    for at_s in asked_s:
        story.op(at_s, "ok", "check_back", {"topic": "t", "key": "a", "state": "unknown"})
    story.send(145.0, "z", "info", transaction="unknown", state="unknown", attempts=2)
    story.op(150.0, "ok", "check_back", {"topic": "t", "key": "z", "state": "unknown"})
    kind, node, at_s, healed_s = struck
    known = {**LEFT_ALONE, "faults": (fault(kind, node, at_s=at_s, healed_s=healed_s),)}
    assert story.counts("transactions", **known) == found
    files = record(story.ops, tmp_path / "h", part_rows=5)
    assert list(read_ops(files)) == story.ops
    assert check_files(files, [], facts(**known)) == check_run(story.ops, [], facts(**known))


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


@pytest.mark.parametrize(
    ("asked_s", "found"),
    [
        (9.9, {"check_too_early"}),
        (10.1, set()),
        (24.0, set()),
        (24.1, {"unresolved_transaction"}),  # put back: the next check is a round after 9 s and 6 s
    ],
)
def test_a_half_says_for_how_long_brokers_must_not_check_it(
    asked_s: float, found: set[str], tmp_path: Path
) -> None:
    story = Story().send(1.0, "a", "info", transaction="unknown", state="unknown", check_after_s=9)
    story.send(2.0, "z", "info", transaction="unknown", state="unknown")
    for key in ("z", "a"):
        at_s = asked_s if key == "a" else min(asked_s, 8.5)
        story.op(at_s, "ok", "check_back", {"topic": "t", "key": key, "state": "unknown"})
    story.op(
        max(23.0, asked_s + 0.5),
        "ok",
        "check_back",
        {"topic": "t", "key": "z", "state": "rollback"},
    )
    rounds = {"check_after_s": 6.0, "check_every_s": 5.0}
    assert story.counts("transactions", **rounds) == found
    files = record(story.ops, tmp_path / "h", part_rows=5)
    assert list(read_ops(files)) == story.ops
    assert check_files(files, [], facts(**rounds)) == check_run(story.ops, [], facts(**rounds))


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
