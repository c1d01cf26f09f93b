"""Recovery: messages visible before a restart are visible after it; planted losses, stale reads, near misses."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.log.recovery import RECOVERY
from staticfire.checkers.model.history import Op
from tests.support.history_language import fault, history
from tests.support.one_checker import read_ops

CUT = fault("power_cut", "n0", at_s=5, healed_s=6)
READ = ("0 ok send a", "0 ok send b", "1 ok consume a", "1 ok consume b")


def check(ops: list[Op], *observations: dict[str, Any], **changes: Any) -> Verdict:
    columns, context = read_ops(ops, observations, **changes)
    return RECOVERY.check(columns, context)


def looked_up(*lines: str, in_queue: bool, first_offset: int = 0) -> list[Op]:
    """A history, and at its end the question where b is."""
    ops = history(*lines)
    value = {
        "topic": "t", "broker": "b", "indexed": False, "messages": [["b", 0, 1, False, True, in_queue]],
        "first_offsets": [[0, first_offset]],
    }  # fmt: skip
    last = ops[-1]
    return [
        *ops,
        replace(last, index=len(ops), f="look_up", type="ok", value=value, process=9, error=None),
    ]


def test_consumed_and_then_lost() -> None:
    verdict = check(looked_up(*READ, in_queue=False))

    assert verdict.valid is False
    [finding] = verdict.findings
    assert (finding.anomaly, finding.key, finding.queue_offset) == ("lost_from_log", "b", 1)


@pytest.mark.parametrize(
    ("lines", "anomalies"),
    [
        ((*READ, "9 ok drain"), []),
        ((*READ, "9 ok drain 0:1:1"), ["lost_from_log"]),
        ((*READ, "9 ok drain 0:2:2"), []),
        ((*READ, "9 info drain 0:1:1"), []),
        (("9 ok drain 0:1:1", *READ), []),  # stored afterwards
        (("0 info send b@0:1 error=FLUSH_DISK_TIMEOUT", "9 ok drain 0:1:1"), []),
    ],
)
def test_queues_must_not_end_before_what_was_acknowledged(
    lines: tuple[str, ...], anomalies: list[str]
) -> None:
    assert [finding.anomaly for finding in check(history(*lines)).findings] == anomalies


def test_what_is_there_or_deleted_has_not_vanished() -> None:
    assert check(looked_up(*READ, in_queue=True)).counts == {}
    assert check(looked_up(*READ, in_queue=False, first_offset=1)).valid is False
    assert check(looked_up(*READ, in_queue=False, first_offset=2)).counts == {}  # since the drain
    assert check(looked_up(*READ, "9 ok drain 0:5:5 min=3", in_queue=False)).counts == {}


def test_what_a_fault_may_cost_is_allowed() -> None:
    verdict = check(looked_up(*READ, in_queue=False), flush="async", faults=(CUT,))

    assert verdict.counts == {"lost_from_log_allowed": 1}
    assert verdict.valid is True


FULL = fault("disk_full", "n0", at_s=5, healed_s=6)
FOLLOWER_FULL = replace(FULL, targets=("n1",))
WIPED = fault("disk_lost", "n0", at_s=7, healed_s=8)
PAIR: dict[str, Any] = {"replica_sets": {"b": ("n0", "n1")}, "replication": "sync"}


@pytest.mark.parametrize(
    ("ops", "known", "found"),
    [
        ("9 ok drain 0:2:2 min=1 t=10", {}, {"lost_from_log": 1}),
        ("9 ok drain 0:2:2 min=2 t=10", {}, {"lost_from_log": 2}),
        ("9 ok drain 0:2:2 t=10", {}, {}),
        ("9 ok drain 0:2:2 min=1 t=70", {}, {}),  # old enough
        ("9 ok drain 0:2:2 min=1 t=10", {"kept_s": 0.0}, {}),
        ("9 ok drain 0:2:2 min=1 t=10", {"late_groups": ("g",)}, {}),  # its topic was made anew
        ("9 ok drain 0:2:2 min=1 t=10", {"faults": (FULL,)}, {"lost_from_log_allowed": 1}),
        (
            "9 ok drain 0:2:2 min=1 t=10",
            {"faults": (FOLLOWER_FULL,), **PAIR},
            {"lost_from_log": 1},  # its leader had space
        ),
        (
            "9 ok drain 0:2:2 min=1 t=10",
            {"faults": (FOLLOWER_FULL,), **PAIR, "living": ()},
            {"lost_from_log_allowed": 1},  # the follower answers
        ),
        (
            "9 ok drain 0:2:2 min=1 t=10",
            {"faults": (FOLLOWER_FULL, WIPED), **PAIR},
            {"lost_from_log_allowed": 1},  # the leader has what the follower had kept
        ),
        (
            "9 ok drain 0:2:2 min=1 t=10",
            {"faults": (FOLLOWER_FULL, replace(WIPED, bitten_ns=None)), **PAIR},
            {"lost_from_log": 1},
        ),
        (
            "9 ok drain 0:2:2 min=1 t=10",
            {"faults": (fault("failing_disk", "n0", at_s=5, healed_s=6),)},
            {"lost_from_log": 1},
        ),
        (
            "9 ok drain 0:2:2 min=1 t=40",
            {"faults": (replace(FULL, fired_ns=-(10**11), healed_ns=-(10**11)),)},
            {"lost_from_log": 1},  # it had space long before the message came
        ),
        (
            "9 ok drain 0:2:2 min=1 t=10",
            {"faults": (CUT,), "flush": "async"},
            {"lost_from_log": 1},  # costs a tail, and not the begin
        ),
    ],
)
def test_what_is_deleted_before_its_time(
    ops: str, known: dict[str, Any], found: dict[str, int]
) -> None:
    assert check(history(*READ, ops), **{"kept_s": 60.0, **known}).counts == found


def test_what_a_look_up_finds_deleted_before_its_time() -> None:
    ops = looked_up(*READ, "9 ok drain 0:2:2 t=10", in_queue=False, first_offset=2)

    verdict = check(ops, kept_s=60.0)
    assert [finding.key for finding in verdict.findings] == ["a", "b"]
    assert "deleted before its time" in verdict.findings[0].detail


@pytest.mark.parametrize(("node", "found"), [("n0", ""), ("n1", "_allowed"), ("", "_allowed")])
def test_a_follower_that_alone_was_asked_may_have_been_full(node: str, found: str) -> None:
    ops = looked_up(*READ, "9 ok drain 0:2:2 t=10", in_queue=False, first_offset=2)
    ops = [replace(op, value={**op.value, "node": node}) if op.f == "look_up" else op for op in ops]
    known: dict[str, Any] = {"kept_s": 60.0, "faults": (FOLLOWER_FULL,), **PAIR}
    assert check(ops, **known).counts == {f"lost_from_log{found}": 2}


def test_a_full_follower_explains_nothing_that_its_leader_has_deleted() -> None:
    ops = looked_up(*READ, "9 ok drain 0:2:2 t=10", in_queue=False, first_offset=2)
    [asked] = [op for op in ops if op.f == "look_up"]
    both = [replace(asked, value={**asked.value, "node": node}) for node in ("n0", "n1")]
    ops = [*(op for op in ops if op.f != "look_up"), *both]
    assert check(ops, kept_s=60.0, faults=(FOLLOWER_FULL,), **PAIR).counts == {"lost_from_log": 2}


RECOVERED = {"kind": "recovery", "time_ns": 6_000_000_000, "node": "n0", "end_offset": 100}


@pytest.mark.parametrize(
    ("late", "changes", "found"),
    [
        ("1 ok consume b~1 t=40", {}, 1),
        ("1 ok consume a~1 t=40", {}, 0),  # below the end
        ("1 ok consume b~1 t=30", {}, 0),  # a consumer may have kept it
        (
            "1 ok consume b~1 t=40",
            {"replica_sets": {"b": ("n0", "n1")}},
            0,
        ),  # a slave may have had it
        ("1 ok consume b@0:3 t=40", {}, 0),  # stored again
    ],
)
def test_stale_bytes_behind_the_recovered_end(
    late: str, changes: dict[str, Any], found: int
) -> None:
    ops = history("0 ok send a t=1", "0 ok send b t=2", late)

    assert check(ops, RECOVERED, **changes).counts.get("read_beyond_recovery", 0) == found


def test_what_was_acknowledged_after_the_recovery_is_new() -> None:
    ops = history("0 ok send a t=1", "0 ok send b t=7", "1 ok consume b t=40")

    assert check(ops, RECOVERED).counts == {}
