"""Power loss and the commit log: a suffix may be lost, but nothing from the middle."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by

CUT = fault("power_cut", "n0", at_s=5, healed_s=10)
# a, b and c were acknowledged before the power loss; no member ever read b
BEFORE = ("0 ok send a t=1", "0 ok send b", "0 ok send c@1:0 physical=200", "1 ok consume a")


def check_holes(*ops: str, observations: Any = (), **changes: object) -> Verdict:
    profile = facts(**{"flush": "async", "faults": (CUT,), **changes})
    return judged_by("log_holes", history(*ops), observations, profile)


def recovered(end_offset: int, node: str = "n0", time_s: int = 11) -> dict[str, Any]:
    time_ns = time_s * 1_000_000_000
    return {"time_ns": time_ns, "kind": "recovery", "node": node, "end_offset": end_offset}


def test_losing_the_last_messages_of_the_log_is_no_hole() -> None:
    verdict = check_holes(*BEFORE, "9 ok drain 0:1:1 1:0:0 t=20")

    assert (verdict.valid, verdict.counts["excused_copies"]) == (True, 2)


def test_a_message_further_up_that_survived_proves_a_hole() -> None:
    verdict = check_holes(*BEFORE, "1 ok consume c t=15", "9 ok drain 0:1:1 1:1:1 t=20")

    [finding] = verdict.findings
    assert (verdict.valid, finding.key, finding.physical_offset) == (False, "b", 100)
    assert "key c, further up and acknowledged before the fault, has survived" in finding.detail


@pytest.mark.parametrize(
    ("ops", "why"),
    [
        # consumed before the loss: that it survived is not known, its queue does not reach so far
        (["1 ok consume c", "9 ok drain 0:1:1 1:0:0 t=20"], "the queue ends before it"),
        # its place was used again: it is as lost as b
        (
            ["1 ok consume c", "0 ok send d@1:0 t=15", "2 ok consume d", "9 ok drain 0:1:1 1:1:1"],
            "another message is there now",
        ),
        (
            ["0 ok send d@1:1 physical=300 t=15", "1 ok consume d", "9 ok drain 0:1:1 1:2:2"],
            "sent later",
        ),
    ],
)
def test_a_message_whose_survival_is_not_certain_proves_nothing(ops: list[str], why: str) -> None:
    assert check_holes(*BEFORE, *ops).valid is True, why


@pytest.mark.parametrize(("end_offset", "valid"), [(100, True), (200, False)])
def test_the_end_that_recovery_reports_decides(end_offset: int, valid: bool) -> None:
    drained = "9 ok drain 0:1:1 1:1:1 t=20"

    verdict = check_holes(*BEFORE, "1 ok consume c", drained, observations=[recovered(end_offset)])

    assert verdict.valid is valid


def test_with_sync_replication_the_slave_s_longer_log_counts() -> None:
    both = fault("power_cut", "n0", "n1", at_s=5, healed_s=10)

    verdict = check_holes(
        *BEFORE,
        "9 ok drain 0:1:1 1:0:0 t=20",
        observations=[recovered(100), recovered(200, node="n1")],
        replication="sync",
        replica_sets={"b": ("n0", "n1")},
        faults=(both,),
    )

    assert [finding.key for finding in verdict.findings] == ["b"]


def test_a_loss_that_nothing_excuses_is_not_judged_here_again() -> None:
    verdict = check_holes(*BEFORE, "1 ok consume c", "9 ok drain 0:1:1 1:1:1", flush="sync")

    assert (verdict.valid, verdict.counts["excused_copies"]) == (True, 0)


def test_a_copy_is_missed_even_if_a_retry_reached_its_reader_from_another_broker() -> None:
    verdict = check_holes(
        "0 ok send a t=1 attempts=2",
        "0 ok send b@0:1",
        "1 ok consume a@0:0 broker=c t=15",
        "1 ok consume b",
        "9 ok drain 0:2:2 t=20",
        replica_sets={"b": ("n0",), "c": ("n9",)},
    )

    assert [finding.key for finding in verdict.findings] == ["a"]


def test_a_later_recovery_with_new_messages_proves_nothing() -> None:
    verdict = check_holes(
        *BEFORE,
        "9 ok drain 0:1:1 1:1:1 t=20",
        observations=[recovered(100), recovered(900, time_s=14)],
    )

    assert (verdict.valid, verdict.counts["excused_copies"]) == (True, 2)
