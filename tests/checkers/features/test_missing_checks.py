"""Checks of half messages that a broker should make and does not."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.formats.chunks.check_files import check_files
from staticfire.checkers.formats.columnar.op_reader import read_ops
from staticfire.checkers.guarantees.facts import FaultFacts, RottenRecord
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.formats.columnar.test_round_trip import record
from tests.checkers.stories import Story
from tests.support.history_language import NODE, facts, fault


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
