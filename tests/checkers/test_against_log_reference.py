"""Holes in the commit log against a plain reference, on random histories with a power cut.

`HISTORIES=2000 pytest tests/checkers/test_against_log_reference.py` tries more of them.
"""

from __future__ import annotations

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from staticfire.checkers.guarantees.verdict import Verdict
from tests.support.history_language import facts
from tests.support.log_histories import FACTS, GROUPS, log_history
from tests.support.one_checker import judged_by
from tests.support.reference_log import log_holes

STEADY = settings(max_examples=int(os.environ.get("HISTORIES", "60")))


def verdict_and_reference(seed: int) -> tuple[Verdict, set[str]]:
    ops, observations, cut = log_history(seed)
    verdict = judged_by("log_holes", ops, observations, facts(**FACTS, faults=(cut,)))
    return verdict, log_holes(ops, observations, GROUPS, "b", cut)


@pytest.mark.slow
@STEADY
@given(st.integers(0, 2**32))
def test_log_holes(seed: int) -> None:
    verdict, expected = verdict_and_reference(seed)
    assert verdict.counts.get("log_hole", 0) == len(expected)
    assert {finding.key for finding in verdict.findings} <= expected


@pytest.mark.slow
def test_holes_and_suffixes_occur() -> None:
    both = [verdict_and_reference(seed)[0].counts for seed in range(40)]
    assert sum("log_hole" in counts for counts in both) > 5
    assert sum(counts["excused_copies"] > counts.get("log_hole", 0) for counts in both) > 5
