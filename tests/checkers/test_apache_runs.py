"""Recorded campaigns on a real Apache RocketMQ: expected findings are reported, and no others."""

from __future__ import annotations

import tomllib
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.cli.check.command import judge
from staticfire.harness.run_folder.run_folder import RunFolder

RUNS = Path(__file__).parent.parent / "data" / "apache-runs"
TRUTH: dict[str, dict[str, Any]] = tomllib.loads((RUNS / "truth.toml").read_text(encoding="utf-8"))


def test_every_run_has_its_truth() -> None:
    assert sorted(TRUTH) == sorted(folder.name for folder in RUNS.iterdir() if folder.is_dir())


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTH)
def test_a_recorded_run(name: str) -> None:
    truth = TRUTH[name]
    verdict = judge(RunFolder(RUNS / name), client_only=False)

    assert verdict.valid is truth["valid"]
    violations = violations_of(verdict)
    must: dict[str, int] = truth.get("must", {})
    assert {anomaly: violations[anomaly] for anomaly in must} == must
    assert violations.keys() - must.keys() <= set(truth.get("may", ()))
    assert violations.keys().isdisjoint(truth.get("must_not", ()))
    for anomaly, words in truth.get("says", {}).items():
        details = [finding.detail for finding in verdict.findings() if finding.anomaly == anomaly]
        assert details
        assert all(words in detail for detail in details)


def violations_of(verdict: RunVerdict) -> Counter[str]:
    """How many violations of each anomaly the verdict counts, witnessed or not."""
    named = {
        finding.anomaly
        for finding in verdict.findings()
        if finding.judgement is Judgement.VIOLATION
    }
    return Counter(
        {name: sum(each.counts.get(name, 0) for each in verdict.verdicts) for name in named}
    )
