"""What clients wait for, log holes and the like, against plain references, on random histories.

Every anomaly occurs in them.

`HISTORIES=2000 pytest tests/checkers/test_against_liveness_reference.py` tries more of them.
"""

from __future__ import annotations

import os
from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from checkers.compose import check_run
from checkers.history import Op
from checkers.verdict import Verdict
from tests.support import gap_histories, reference_waits
from tests.support.gap_histories import gap_history
from tests.support.history_language import facts

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))
SEEDS = st.integers(0, 2**32)  # a history is made by one: shrinking it would take minutes
GAPS = ("send_gap", "start_gap", "delivery_gap")


def verdict_of(ops: list[Op], name: str, **known: object) -> Verdict:
    verdicts = check_run(ops, [], facts(**known)).verdicts
    return next(verdict for verdict in verdicts if verdict.checker == name)


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


def test_every_gap_occurs() -> None:
    occurred: Counter[str] = Counter()
    for seed in range(30):
        ops, crashes = gap_history(seed)
        verdict = verdict_of(ops, "availability_gaps", faults=crashes, **gap_histories.FACTS)
        occurred.update(finding.anomaly for finding in verdict.findings)
    assert set(occurred) == set(GAPS)
