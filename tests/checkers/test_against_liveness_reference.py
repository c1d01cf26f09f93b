"""Client waits, group ownership and requests against plain references, on random histories.

Every anomaly occurs in them.

`HISTORIES=2000 pytest tests/checkers/test_against_liveness_reference.py` tries more of them.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import Verdict
from staticfire.checkers.model.history import Op
from staticfire.checkers.verdicts.compose import check_run
from tests.support import gap_histories, group_histories, reference_groups, reference_waits
from tests.support.gap_histories import gap_history
from tests.support.group_histories import group_history
from tests.support.history_language import facts
from tests.support.one_checker import only

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
SEEDS = st.integers(0, 2**32)  # a history is made by one: shrinking it would take minutes
GAPS = ("send_gap", "start_gap", "delivery_gap")


OF_GROUPS = {
    "groups": ("queue_unowned", "double_ownership"),
    "subscriptions": ("subscriptions_differ",),
    "requests": ("wrong_answer", "duplicate_reply", "phantom_reply", "lost_reply"),
}


def verdict_of(ops: list[Op], name: str, **known: object) -> Verdict:
    verdicts = check_run(ops, [], facts(**known), only(name)).verdicts
    nothing_asked = Verdict(checker=name, valid=True)
    return next((verdict for verdict in verdicts if verdict.checker == name), nothing_asked)


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_gaps(seed: int) -> None:
    ops, crashes = gap_history(seed)
    verdict = verdict_of(ops, "availability_gaps", faults=crashes, **gap_histories.FACTS)
    waits = reference_waits.waits(ops, gap_histories.FACTS, crashes)

    long = [wait for wait in waits if wait[-1] > gap_histories.GAP_MAX_S * 1e9]
    counted = Counter(anomaly for anomaly, *_ in long)
    longest = {
        f"longest_{gap}_ms": max([ns for of, _, ns in waits if of == gap], default=0) // 10**6
        for gap in GAPS
    }
    assert verdict.counts == {**longest, **counted}
    found = {finding.key for finding in verdict.findings if finding.anomaly == "send_gap"}
    assert found <= {key for anomaly, key, _ in long if anomaly == "send_gap"}


@pytest.mark.slow
def test_every_gap_occurs() -> None:
    occurred: Counter[str] = Counter()
    for seed in range(30):
        ops, crashes = gap_history(seed)
        verdict = verdict_of(ops, "availability_gaps", faults=crashes, **gap_histories.FACTS)
        occurred.update(finding.anomaly for finding in verdict.findings)
    assert set(occurred) == set(GAPS)


def counts_of(verdict: Verdict) -> Counter[str]:
    return Counter({name: verdict.counts.get(name, 0) for name in OF_GROUPS[verdict.checker]})


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_groups(seed: int) -> None:
    ops, faults = group_history(seed)
    verdict = verdict_of(ops, "groups", faults=faults, **group_histories.FACTS)
    expected = reference_groups.ownership(ops, group_histories.FACTS, faults)

    by_anomaly: Counter[str] = Counter()
    for (anomaly, *_), times in expected.items():
        by_anomaly[anomaly] += times
    assert counts_of(verdict) == by_anomaly
    for of in verdict.findings:
        assert (of.anomaly, of.group, (of.topic, of.broker, of.queue)) in expected


@pytest.mark.slow
@STEADY
@given(SEEDS)
def test_subscriptions_and_answers(seed: int) -> None:
    ops, faults = group_history(seed)
    known = {"faults": faults, **group_histories.FACTS}
    differ = verdict_of(ops, "subscriptions", **known)
    assert {finding.group for finding in differ.findings} == reference_groups.differing_groups(ops)

    answers = verdict_of(ops, "requests", **known)
    expected = reference_groups.answers(ops, faults)
    by_anomaly: Counter[str] = Counter()
    for (anomaly, _), times in expected.items():
        by_anomaly[anomaly] += times
    assert counts_of(answers) == by_anomaly
    assert {(finding.anomaly, finding.key) for finding in answers.findings} <= set(expected)


@pytest.mark.slow
def test_every_anomaly_of_groups_occurs() -> None:
    occurred: Counter[str] = Counter()
    for seed in range(100):
        ops, faults = group_history(seed)
        for name in OF_GROUPS:
            occurred += counts_of(verdict_of(ops, name, faults=faults, **group_histories.FACTS))
    assert set(occurred) == {anomaly for of in OF_GROUPS.values() for anomaly in of}
