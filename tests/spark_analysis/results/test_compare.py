"""Many runs side by side."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.results.analysis import analyse
from staticfire.spark_analysis.results.compare import NO_FAULT, Comparison
from staticfire.spark_analysis.results.latency import Slice
from staticfire.spark_analysis.results.plot import can_plot, plot_versions
from tests.support.synthetic import small


@pytest.mark.slow
def test_faults_labels_and_regressions(tmp_path: Path) -> None:
    clean = [replace(run, label="v1") for run in small(tmp_path / "v1", plant=0)]
    [bad] = [
        replace(run, label="v2") for run in small(tmp_path / "v2", plant=1, outages=0, semantics=0)
    ]
    killed = FaultFacts(
        fault_id="f", kind="pause", targets=("broker-0",), fired_ns=1, bitten_ns=1, healed_ns=2
    )
    paused = replace(bad, facts=replace(bad.facts, faults=(killed,)))
    analysis = analyse([*clean, bad, paused], InProcess())
    comparison = analysis.comparison
    assert comparison.runs == {"v1": 1, "v2": 2}
    assert comparison.invalid == {"v1": 0, "v2": 2}
    assert comparison.by_fault["lost"] == {NO_FAULT: 1, "pause": 1}
    assert {"lost", "phantom"} <= {of.anomaly for of in comparison.regressions}
    assert {(of.before, of.after, of.runs) for of in comparison.regressions} == {("v1", "v2", 2)}
    assert analysis.valid is False


@pytest.mark.slow
def test_an_anomaly_that_was_there_before_is_no_regression(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    again = [replace(run, label=label) for label in ("v1", "v2")]
    assert analyse(again, InProcess()).comparison.regressions == ()


@pytest.mark.slow
@pytest.mark.skipif(not can_plot(), reason="needs matplotlib")
@pytest.mark.parametrize("anomalies", [{}, {"lost": {"v2": 2}, "phantom": {"v1": 1, "v2": 1}}])
def test_versions_have_a_plot(anomalies: dict[str, dict[str, int]], tmp_path: Path) -> None:
    comparison = Comparison(
        runs={"v1": 3, "v2": 2},
        invalid={"v1": 1, "v2": 2},
        by_fault={},
        by_label=anomalies,
        regressions=(),
    )
    second = Slice(at_s=0, f="send", ok=9, not_ok=0, p50_us=1500, p99_us=42_000, max_us=50_000)
    plot_versions(tmp_path / "versions.svg", comparison, {"v1": [second], "v2": []})
    comments = re.findall("<!-- (.*?) -->", (tmp_path / "versions.svg").read_text())
    for word in ("any (invalid)", *anomalies, "v1 (3 runs)", "v2 (2 runs)", "1.5", "42"):
        assert word in comments
