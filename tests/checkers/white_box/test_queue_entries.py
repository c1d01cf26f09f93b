"""Findings from queue files that the harness read."""

from __future__ import annotations

from typing import Any

import pytest

from staticfire.checkers.guarantees.verdict import Validity, Verdict
from tests.support.history_language import facts, fault, history
from tests.support.one_checker import judged_by

CLEAN = {
    "kind": "queue_entries",
    "time_ns": 5,
    "node": "n0",
    "broker_name": "b",
    "entries": 3,
    "holes": 0,
    "hole_at": [],
    "wrong": 0,
    "wrong_at": [],
    "missing": 0,
}


def check(*observations: dict[str, Any], **changes: Any) -> Verdict:
    return judged_by("queue_entries", history("0 ok send a"), observations, facts(**changes))


@pytest.mark.parametrize(
    ("seen", "anomalies"),
    [
        (CLEAN, []),
        ({**CLEAN, "missing": None}, []),
        ({**CLEAN, "holes": 7, "hole_at": [["t", 0, 4]]}, ["queue_hole"]),
        ({**CLEAN, "wrong": 1, "wrong_at": [["t", 0, 4]]}, ["queue_entry_wrong"]),
        ({**CLEAN, "missing": 2}, ["queue_entry_missing"]),
    ],
)
def test_findings(seen: dict[str, Any], anomalies: list[str]) -> None:
    verdict = check(seen)

    assert [finding.anomaly for finding in verdict.findings] == anomalies
    assert verdict.valid is not bool(anomalies)
    assert check(seen, mode="faithful").valid is True


def test_the_last_look_counts() -> None:
    assert check({**CLEAN, "missing": 2}, CLEAN).valid is True


@pytest.mark.parametrize(
    ("observations", "changes", "valid"),
    [
        ((), {}, "unknown"),
        ((CLEAN,), {"replica_sets": {"b": ("n0",), "c": ("n1",)}}, "unknown"),
        (
            (CLEAN, {**CLEAN, "node": "n1", "broker_name": "c"}),
            {"replica_sets": {"b": ("n0",), "c": ("n1",)}},
            True,
        ),
    ],
)
def test_what_was_not_observed_is_unknown(
    observations: tuple[Any, ...], changes: dict[str, Any], valid: Validity
) -> None:
    assert check(*observations, **changes).valid == valid


def test_a_broker_that_is_gone_cannot_be_looked_at() -> None:
    from dataclasses import replace

    gone = replace(fault("disk_lost", "n1", at_s=1, healed_s=None), permanent=True)
    assert check(CLEAN, replica_sets={"b": ("n0",), "c": ("n1",)}, faults=(gone,)).valid is True
