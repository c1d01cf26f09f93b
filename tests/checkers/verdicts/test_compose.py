"""One verdict from many checkers: priorities, minimum evidence, crashes, and JSON."""

from __future__ import annotations

from dataclasses import replace
from typing import NoReturn

import orjson
import pytest

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.facts import MinimumEvidence, RunFacts
from staticfire.checkers.guarantees.verdict import Validity
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.verdicts.compose import CLIENT_CHECKERS, RunVerdict, check_run
from tests.support.history_language import facts, fault, history

GOOD = ("0 ok send a", "1 ok consume a", "9 ok probe b", "9 ok drain")


def check(*ops: str, **changes: object) -> RunVerdict:
    return check_run(history(*ops), [], facts(**changes), CLIENT_CHECKERS)


def test_a_good_run_is_valid() -> None:
    run = check(*GOOD)

    assert run.valid is True
    assert run.counts == {
        "sends": 1,
        "acked": 1,
        "weak": 0,
        "unknown": 0,
        "failed": 0,
        "deliveries": 1,
    }


CUT = fault("power_cut", "n0", at_s=1, healed_s=2)
LOST_DISK = fault("disk_lost", "n0", at_s=1, healed_s=None)
BLUNT = fault("kill", "n0", at_s=1, healed_s=2, bitten=False)


@pytest.mark.parametrize(
    ("changes", "valid", "why"),
    [
        (
            {"floors": MinimumEvidence(acked_min=2)},
            "unknown",
            "1 acknowledged sends; the floor is 2",
        ),
        ({"faults": (CUT,)}, True, None),
        ({"faults": (CUT, BLUNT)}, True, None),
        ({"faults": (BLUNT,)}, "unknown", "0 of 1 planned faults bit; the floor is 1"),
        ({"floors": MinimumEvidence(bitten_min=9)}, True, None),  # no fault was asked for
        (
            {"faults": (fault("partition", "n0", at_s=1, healed_s=None),)},
            "unknown",
            "fault partition-1 (partition) was never healed",
        ),
        ({"faults": (replace(LOST_DISK, permanent=True),)}, True, None),
        (
            {"faults": (CUT, replace(BLUNT, error="KeyError: 'n7'"))},
            "unknown",
            f"fault {BLUNT.fault_id} ({BLUNT.kind}) failed: KeyError: 'n7'",
        ),
    ],
)
def test_a_run_below_a_floor_is_never_valid(
    changes: dict[str, object], valid: Validity, why: str | None
) -> None:
    run = check(*GOOD, **changes)

    assert run.valid == valid
    assert run.below_floors == (() if why is None else (why,))


def test_a_fault_that_failed_or_was_on_when_the_run_broke_off_proves_nothing() -> None:
    on = fault("partition", "n0", at_s=1, healed_s=None)
    broken_off = check(*GOOD, faults=(on,), unfinished=True)
    assert broken_off.below_floors[0] == "0 of 1 planned faults bit; the floor is 1"
    assert (broken_off.faults_bitten, broken_off.faults_not_bitten) == ((), ("partition-1",))
    failed = check(*GOOD, faults=(replace(on, error="KeyError: 'n7'"),))
    assert failed.below_floors[0] == "0 of 1 planned faults bit; the floor is 1"
    healed = check(*GOOD, faults=(replace(on, healed_ns=2 * 10**9),), unfinished=True)
    assert healed.faults_bitten == ("partition-1",)


def test_a_run_below_a_floor_may_be_invalid() -> None:
    assert check("0 ok send a", "9 ok drain", floors=MinimumEvidence(acked_min=9)).valid is False


def test_without_a_drain_nothing_is_valid() -> None:
    run = check(*GOOD[:-1], torn=True)

    assert run.valid == "unknown"
    assert run.below_floors == ("not drained (the history is torn): group g on t: never drained",)


def test_a_planned_fault_that_did_not_bite_is_listed() -> None:
    run = check(*GOOD, faults=(CUT, BLUNT))

    assert (run.faults_bitten, run.faults_not_bitten) == (("power_cut-1",), ("kill-1",))


def crash(_columns: Columns, _context: Context) -> NoReturn:
    raise ZeroDivisionError("by zero")


CRASHING = Checker(name="crashing", anomalies=(), check=crash, rows=no_rows)


@pytest.mark.parametrize(
    ("ops", "valid"), [(GOOD, "unknown"), (("0 ok send a", "9 ok drain"), False)]
)
def test_a_crashing_checker_is_unknown_and_hides_no_finding(
    ops: tuple[str, ...], valid: Validity
) -> None:
    run = check_run(history(*ops), [], facts(), (CRASHING, *CLIENT_CHECKERS))

    assert run.valid == valid
    assert run.verdicts[0].valid == "unknown"
    assert run.verdicts[0].reason == "the checker failed: ZeroDivisionError: by zero"


def test_an_observation_that_makes_no_sense_is_unknown() -> None:
    nonsense = {"time_ns": 1, "kind": "ack_durability", "key": "a"}

    run = check_run(history(*GOOD), [nonsense], facts())

    [verdict] = [verdict for verdict in run.verdicts if verdict.checker == "durable_before_ack"]
    assert verdict.reason == "the checker failed: KeyError: 'unobserved'"


def test_an_empty_history_is_unknown() -> None:
    assert check().valid == "unknown"


def test_violations_come_before_what_is_allowed() -> None:
    run = check(
        "0 ok send a",
        "1 info consume a",
        "1 ok consume a",
        "2 ok consume z",
        "9 ok drain",
    )

    assert [finding.anomaly for finding in run.findings()] == ["phantom", "duplicate"]


def test_a_run_verdict_survives_json() -> None:
    run = check("0 ok send a", "2 ok consume z group=h", "9 ok drain", faults=(CUT, BLUNT))

    assert RunVerdict.from_json(orjson.loads(orjson.dumps(run.to_json()))) == run


def test_facts_survive_json() -> None:
    known = facts(faults=(CUT, BLUNT), living=("b",), floors=MinimumEvidence(acked_min=7))

    assert RunFacts.from_json(orjson.loads(orjson.dumps(known.to_json()))) == known
