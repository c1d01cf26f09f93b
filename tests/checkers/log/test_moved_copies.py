"""Second copies of delayed messages and committed transactions, with and without a crash of their broker nearby."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, RottenRecord, Timings
from staticfire.checkers.verdicts.compose import check_run
from tests.checkers.stories import Story
from tests.support.history_language import facts, fault
from tests.support.one_checker import only

EPOCH_MS = 1_700_000_000_000
DELAYED: dict[str, Any] = {"delay_ms": 1000, "due_ns": 2_000_000_000}
HALF: dict[str, Any] = {"transaction": "commit"}


def duplicates(
    kept: dict[str, Any],
    *copies_s: float | tuple[float, float],
    faults: tuple[FaultFacts, ...] = (),
    attempts: int = 1,
    **known: Any,
) -> list[str]:
    """The anomalies of a message with these copies: when each was stored and first given, or only given."""
    story = Story().op(
        1.0, "invoke", "send", {"key": "a", "topic": "t", "attempts": attempts, **kept}
    )
    sent = {"broker": "b", "queue": 0, "queue_offset": -1, "stored_at": 0}
    story.op(1.1, "ok", "send", {"key": "a", "topic": "t", "attempts": attempts, **kept, **sent})
    for offset, copy in enumerate(copies_s):
        stored_s, given_s = copy if isinstance(copy, tuple) else (None, copy)
        stored_ms = None if stored_s is None else EPOCH_MS + int(stored_s * 1000)
        contents = [None, None, None, None, stored_ms, None, None]
        value = {"group": "g", "topic": "t", "broker": "b", "queue": 0}
        row = ["a", offset, offset * 100, True, 0, contents]
        story.op(given_s, "ok", "consume", {**value, "messages": [row]}, process=9)
    asked = {"replication": "sync", "wall_epoch_ms": EPOCH_MS, **known}
    run = facts(replica_sets={"b": ("n0", "n1")}, faults=faults, **asked)
    verdict = next(
        of
        for of in check_run(story.ops, [], run, only("duplication")).verdicts
        if of.checker == "duplication"
    )
    return [finding.anomaly for finding in verdict.findings]


def kill(at_s: float, healed_s: float, node: str = "n0") -> FaultFacts:
    return fault("kill", node, at_s=at_s, healed_s=healed_s)


FINE, WRONG = ["duplicate"], ["duplicate_unexplained"]
STOPPED = fault("graceful_stop", "n0", at_s=5, healed_s=12)


@pytest.mark.parametrize(
    ("copies_s", "faults", "found"),
    [
        # it died soon after it had moved the message, and moves it again when it is back
        (((2.0, 2.1), (12.1, 12.2)), (kill(5, 12),), FINE),
        (((2.0, 2.1), (12.1, 12.2)), (), WRONG),
        # by then it had written down that the message was moved: after 10 s, a flush and a request
        (((2.0, 2.1), (32.1, 32.2)), (kill(28.5, 32),), FINE),
        (((2.0, 2.1), (33.1, 33.2)), (kill(28.6, 33),), WRONG),
        # the same where nothing says when a copy was stored
        ((2.1, 32.2), (kill(28.5, 32),), FINE),
        ((2.1, 33.2), (kill(28.7, 33),), WRONG),
        # its follower was away, so the copy was not safe
        (((2.0, 2.1), (93.1, 93.2)), (kill(88, 93), fault("pause", "n1", at_s=3, healed_s=70)), FINE),
        (((2.0, 2.1), (130.1, 130.2)), (kill(125, 130), fault("pause", "n1", at_s=3, healed_s=70)), WRONG),
        # it had long been back, and had come to what is due
        (((2.0, 2.1), (24.9, 25.2)), (kill(5, 12),), FINE),
        (((2.0, 2.1), (25.1, 25.2)), (kill(5, 12),), WRONG),
        # ... once it had fetched from its follower what its disk might lack
        (((2.0, 2.1), (47.9, 48.2)), (fault("power_cut", "n0", at_s=5, healed_s=12),), FINE),
        (((2.0, 2.1), (48.1, 48.2)), (fault("power_cut", "n0", at_s=5, healed_s=12),), WRONG),
        # its follower moves nothing
        (((2.0, 2.1), (12.1, 12.2)), (kill(5, 12, "n1"),), WRONG),
        # the group was slow, and not the broker
        (((2.0, 2.1), (12.1, 200.0)), (kill(5, 12),), FINE),
        # it died before it moved the message for the first time, or when it had moved it twice
        (((12.5, 12.6), (13.0, 13.1)), (kill(5, 12),), WRONG),
        (((2.0, 2.1), (4.0, 4.1)), (kill(5, 12),), WRONG),
        # each copy needs a death, and one that was seen by no group may lie between two
        (((2.0, 2.1), (12.1, 12.2), (30.1, 30.2)), (kill(5, 12), kill(20, 30)), FINE),
        (((2.0, 2.1), (12.1, 12.2), (12.5, 12.6)), (kill(5, 12),), WRONG),
        (((2.0, 2.1), (60.1, 60.2)), (kill(5, 12), kill(40, 60)), FINE),
        (((2.0, 2.1), (160.1, 160.2)), (kill(5, 12), kill(140, 160)), WRONG),
    ],
)  # fmt: skip
def test_a_delayed_message_is_moved_again_only_by_a_broker_that_died(
    copies_s: tuple[Any, ...], faults: tuple[FaultFacts, ...], found: list[str]
) -> None:
    assert duplicates(DELAYED, *copies_s, faults=faults) == found


@pytest.mark.parametrize(
    ("node", "start", "struck_s", "copies", "found"),
    [
        ("n0", 0, 5.0, 2, FINE),
        ("n1", 0, 5.0, 2, WRONG),  # the leader's copy is as it was
        ("n0", 50, 5.0, 2, WRONG),  # the record of another message
        ("n0", 0, 9.5, 2, WRONG),  # after the second copy
        ("n0", 100, 5.0, 2, WRONG),  # the second copy
        ("n0", 0, 5.0, 3, WRONG),  # one change explains one copy
        ("n2", 0, 5.0, 2, WRONG),  # of another broker
    ],
)
def test_a_delayed_message_is_moved_again_if_the_disk_changed_the_copy(
    node: str, start: int, struck_s: float, copies: int, found: list[str]
) -> None:
    rot = replace(
        fault("bit_rot", node, at_s=struck_s, healed_s=struck_s + 0.1),
        records=(RottenRecord(key="a", start=start, end=start + 50),),
    )
    copies_s = ((2.0, 2.1), (9.0, 9.1), (9.2, 9.3))[:copies]
    assert duplicates(DELAYED, *copies_s, faults=(rot,)) == found
    assert duplicates(HALF, *copies_s, faults=(rot,)) == WRONG


@pytest.mark.parametrize(("attempts", "found"), [(1, WRONG), (2, FINE)])
def test_a_death_explains_a_copy_of_one_of_several_messages(
    attempts: int, found: list[str]
) -> None:
    copies = (
        (2.0, 2.1),
        (19.0, 19.1),
        (30.1, 30.2),
    )  # by 20 s it had written down that it moved the first one
    assert duplicates(DELAYED, *copies, faults=(kill(20, 30),), attempts=attempts) == found


@pytest.mark.parametrize(
    ("asked_s", "again_s", "faults", "found"),
    [
        # after the check's age and two of its rounds, from when replicas were together and routes known again
        (20.0, 80.0, (), FINE),
        (20.0, 200.0, (), WRONG),
        # its producer could not be asked
        (20.0, 200.0, (fault("pause", "p1", at_s=10, healed_s=110),), FINE),
        (20.0, 200.0, (fault("pause", "p2", at_s=10, healed_s=110),), WRONG),
    ],
)
def test_a_transaction_is_committed_again_when_producers_are_asked_again(
    asked_s: float, again_s: float, faults: tuple[FaultFacts, ...], found: list[str]
) -> None:
    copies_s = ((2.0, 2.1), (again_s, again_s + 0.1))
    known: dict[str, Any] = {"check_after_s": asked_s, "check_every_s": 5.0, "producers": ("p1",)}
    assert duplicates(HALF, *copies_s, faults=(kill(5, 12), *faults), **known) == found


@pytest.mark.parametrize(
    ("attempts", "copies_s", "deaths", "found"),
    [
        # two attempts were stored, and each death lets the broker move both again
        (2, (2.0, 2.01, 12.1, 12.11, 30.1, 30.11), (kill(5, 12), kill(20, 30)), FINE),
        (3, (2.0, 2.01, 12.1, 12.11, 30.1, 30.11), (kill(5, 12), kill(20, 30)), FINE),
        (2, (2.0, 2.01, 12.1, 12.11, 30.1, 30.11, 30.12), (kill(5, 12), kill(20, 30)), WRONG),
        (1, (2.0, 2.01, 12.1, 12.11), (kill(5, 12),), WRONG),
        (2, (2.0, 2.01, 12.1, 12.11), (), WRONG),
        (2, (2.0, 2.01, 12.1, 12.11, 12.5), (kill(5, 12),), WRONG),
    ],
)
def test_each_attempt_may_be_a_message_of_its_own(
    attempts: int, copies_s: tuple[float, ...], deaths: tuple[FaultFacts, ...], found: list[str]
) -> None:
    stored_and_given = [(at_s, at_s + 0.005) for at_s in copies_s]

    assert duplicates(DELAYED, *stored_and_given, faults=deaths, attempts=attempts) == found


def test_a_wrong_clock_says_nothing_of_when_a_copy_was_stored() -> None:
    steps = fault("clock_skew", "n0", at_s=1, healed_s=90)
    copies_s = (2.0, 2.1), (80.0, 90.0)

    assert duplicates(DELAYED, *copies_s, faults=(kill(5, 12),)) == WRONG
    assert duplicates(DELAYED, *copies_s, faults=(kill(5, 12), steps)) == FINE


@pytest.mark.parametrize(
    ("copies_s", "struck", "found"),
    [
        # both halves were committed in the same round, 13 s after the death that left two
        (((25.0, 25.1), (25.01, 25.1)), kill(5, 12), FINE),
        (((25.0, 25.1), (25.01, 25.1)), kill(5, 12, node="n2"), WRONG),
        (((25.0, 25.1), (25.01, 25.1)), kill(0.5, 0.9), WRONG),  # before it was sent
        (((25.0, 25.1), (99.0, 99.1)), kill(5, 12), WRONG),
    ],
)
def test_a_broker_that_died_may_have_had_a_half_twice(
    copies_s: tuple[Any, ...], struck: FaultFacts, found: list[str]
) -> None:
    known: dict[str, Any] = {"check_after_s": 6.0, "check_every_s": 5.0, "producers": ("p1",)}
    assert duplicates(HALF, *copies_s, faults=(struck,), **known) == found


@pytest.mark.parametrize(
    ("kind", "timings", "found"),
    [
        # killed 28.9 s after the copy: a record takes up to 10 s, and 13 s until it is on the disk
        (HALF, {}, WRONG),
        (HALF, {"offset_persist_s": 20.0}, FINE),
        (HALF, {"progress_s": 60.0}, WRONG),
        (DELAYED, {}, WRONG),
        (DELAYED, {"offset_persist_s": 20.0}, WRONG),
        (DELAYED, {"progress_s": 60.0}, FINE),
    ],
)
def test_progress_of_halves_is_kept_with_the_offsets_of_groups(
    kind: dict[str, Any], timings: dict[str, Any], found: list[str]
) -> None:
    copies_s = (2.0, 2.1), (40.1, 40.2)
    known: dict[str, Any] = {"check_after_s": 6.0, "check_every_s": 5.0, "producers": ("p1",)}
    known["timings"] = Timings(flush_s=10.0, request_s=3.0, **timings)
    assert duplicates(kind, *copies_s, faults=(kill(31, 40),), **known) == found


@pytest.mark.parametrize(
    ("mode", "every_s", "found"),
    [("hardened", 60.0, WRONG), ("faithful", 60.0, FINE), ("faithful", 5.0, WRONG)],
)
def test_only_rocketmq_records_the_progress_of_halves_with_the_rounds_of_checks_alone(
    mode: str, every_s: float, found: list[str]
) -> None:
    copies_s = (2.0, 2.1), (40.1, 40.2)
    known: dict[str, Any] = {"check_after_s": 6.0, "check_every_s": every_s, "producers": ("p1",)}
    known["timings"] = Timings(flush_s=10.0, request_s=3.0)
    assert duplicates(HALF, *copies_s, faults=(kill(31, 40),), mode=mode, **known) == found


@pytest.mark.parametrize(
    ("died", "again_s", "found"),
    [
        ("power_cut", 75.9, FINE),
        ("power_cut", 76.1, WRONG),
        ("kill", 25.1, WRONG),  # its disk lacks nothing
    ],
)
def test_a_broker_whose_disk_may_lack_something_waits_for_its_follower_under_async_replication(
    died: str, again_s: float, found: list[str]
) -> None:
    faults = (
        fault(died, "n0", at_s=5, healed_s=12),
        fault("broker_black_hole", "n1", at_s=6, healed_s=40),
    )
    copies_s = (2.0, 2.1), (again_s, again_s + 0.1)
    assert duplicates(DELAYED, *copies_s, faults=faults, replication="async") == found


@pytest.mark.parametrize(("replication", "found"), [("sync", FINE), ("async", WRONG)])
def test_only_a_copy_that_waits_for_a_follower_is_held_by_one(
    replication: str, found: list[str]
) -> None:
    faults = (kill(88, 93), fault("pause", "n1", at_s=3, healed_s=70))
    copies_s = (2.0, 2.1), (93.1, 93.2)
    assert duplicates(DELAYED, *copies_s, faults=faults, replication=replication) == found


@pytest.mark.parametrize(
    ("kept", "mode", "faults", "found"),
    [
        # a copy is safe within 2 * (1 + 0.1) s, and a broker that stops records what is
        (DELAYED, "hardened", [fault("graceful_stop", "n0", at_s=4, healed_s=12)], FINE),
        (DELAYED, "hardened", [STOPPED], WRONG),
        (DELAYED, "hardened", [fault("rolling_restart", "n0", at_s=5, healed_s=12)], WRONG),
        (DELAYED, "hardened", [kill(5, 12)], FINE),
        (DELAYED, "hardened", [STOPPED, fault("pause", "n1", at_s=3, healed_s=6)], FINE),
        (DELAYED, "hardened", [STOPPED, fault("pause", "c1", at_s=3, healed_s=6)], WRONG),
        (DELAYED, "hardened", [STOPPED, fault("disk_full", "n0", at_s=3, healed_s=6)], FINE),
        (DELAYED, "faithful", [STOPPED], FINE),
        (HALF, "hardened", [STOPPED], FINE),
    ],
)
def test_a_broker_that_stops_records_what_it_has_moved_safely(
    kept: dict[str, Any], mode: str, faults: list[FaultFacts], found: list[str]
) -> None:
    known: dict[str, Any] = {"check_after_s": 6.0, "check_every_s": 5.0, "producers": ("p1",)}
    known["timings"] = Timings(flush_s=1.0, packet_s=0.1)
    copies_s = (2.0, 2.1), (12.1, 12.2)
    assert duplicates(kept, *copies_s, faults=tuple(faults), mode=mode, **known) == found
