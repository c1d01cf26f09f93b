"""The same on Spark: verdicts to the bit, layout, latency, counters of a stream, errors in one sentence."""

from __future__ import annotations

import shutil
from collections import Counter
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson
import pytest

from staticfire.checkers.model.history import HistoryError
from staticfire.spark_analysis.engine.engines import InProcess, OnSpark
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.results.analysis import analyse, laid_out
from staticfire.spark_analysis.results.stream import follow_runs
from staticfire.spark_analysis.results.verdicts import judge_runs
from staticfire.spark_analysis.runs import partitioning, raw
from staticfire.spark_analysis.runs.partitioning import partitioned
from tests.support.default_checkers import DEFAULTS
from tests.support.synthetic import disagreements, small

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.needs_spark


@pytest.mark.slow
@pytest.mark.parametrize("shape", [{}, {"groups": 5, "fan_out": 5, "batch": 3, "seed": 4}], ids=str)
def test_verdict_and_latency_are_equal_to_the_bit(
    spark: SparkSession, shape: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(raw, "PART_ROWS", 5000)
    monkeypatch.setattr(partitioning, "PARTITION_ROWS", 2000)
    [here] = small(tmp_path / "here", **shape)
    reported: list[tuple[str, int, int]] = []
    engine = OnSpark(spark, lambda *done: reported.append(done))
    [there] = laid_out(small(tmp_path / "there", layout="raw", **shape), engine)
    one = analyse([replace(here, label="run")], InProcess())
    other = analyse([replace(there, label="run")], engine)
    assert orjson.dumps(one.to_json()) == orjson.dumps(other.to_json())
    assert one.judged[0].slices == other.judged[0].slices
    assert disagreements(tmp_path / "here", other.judged[0].verdict) == []
    assert {what for what, done, total in reported if done == total} == {
        "layout",
        "first pass",
        "second pass",
        "rows again",
        "latency",
    }


@pytest.mark.slow
def test_one_long_queue_is_many_tasks_and_a_checker_that_raises_is_unknown(
    spark: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One queue has nine tenths of the rows. No gap is longer than infinity, which is no number of nanoseconds."""
    monkeypatch.setattr(partitioning, "PARTITION_ROWS", 1000)
    [run] = small(tmp_path, skew=4.0, queues=8)
    run = replace(run, facts=replace(run.facts, gap_max_s=float("inf")))
    whole = judge_runs([run], InProcess())[0].to_json()
    monkeypatch.setattr(partitioning, "WHOLE_ROWS", 4000)
    reported: list[tuple[str, int, int]] = []
    engine = OnSpark(spark, lambda *done: reported.append(done))

    partitions = partitioned([run], engine)
    judged = judge_runs([run], engine, partitions=partitions)[0]

    assert judged.to_json() == whole
    assert max(of.unit.rows for of in partitions) < 0.25 * run.manifest.rows
    assert ("first pass", min(len(partitions), 2 * engine.parallel)) in {
        (what, total) for what, _, total in reported
    }
    reasons = {of.checker: of.reason for of in judged.verdicts if of.reason}
    assert "OverflowError" in str(reasons["availability_gaps"])
    assert not [
        why for name, why in reasons.items() if "failed" in why and name != "availability_gaps"
    ]


@pytest.mark.slow
def test_checkers_with_nothing_but_defaults_see_every_row(
    spark: SparkSession, tmp_path: Path
) -> None:
    """Workers cannot import them by name from the project's own list."""
    [run] = small(tmp_path, queues=8)

    here = judge_runs([run], InProcess(), DEFAULTS)[0]
    there = judge_runs([run], OnSpark(spark), DEFAULTS)[0]

    assert there.to_json() == here.to_json()
    assert there.valid is False
    assert {of.counts["a_send"] for of in there.verdicts} == {there.counts["sends"]}


@pytest.mark.slow
def test_a_missing_part_is_one_sentence_and_no_verdict(spark: SparkSession, tmp_path: Path) -> None:
    [run] = small(tmp_path)
    (run.history / run.manifest.message_events[-1].path).unlink()
    with pytest.raises(HistoryError, match=r"part-0\.parquet is missing; the manifest names it$"):
        judge_runs([run], OnSpark(spark))


def fill_the_disk(_item: int) -> int:
    raise RuntimeError("java.io.IOException: No space left on device")


@pytest.mark.slow
def test_a_failure_of_spark_is_one_sentence(spark: SparkSession) -> None:
    with pytest.raises(
        SparkError, match=r"^sum failed on Spark: the disk for spilled data is full"
    ):
        OnSpark(spark).map("sum", fill_the_disk, [1], [1])


@pytest.mark.slow
def test_a_stream_counts_parts_as_they_are_finished(spark: SparkSession, tmp_path: Path) -> None:
    [run] = small(tmp_path / "source")
    growing = tmp_path / "runs" / "r" / "history.parquet" / "ops"
    growing.mkdir(parents=True)
    source = run.history / run.manifest.op_parts[0].path
    shutil.copy(source, growing / "part-0.parquet")
    lines: list[str] = []

    def grow() -> bool:
        """A second part comes after the first batch."""
        if len(lines) == 1 and not (growing / "part-1.parquet").exists():
            shutil.copy(source, growing / ".part-1.parquet.tmp")
            (growing / ".part-1.parquet.tmp").rename(growing / "part-1.parquet")
        return len(lines) >= 2

    counts = follow_runs(spark, [tmp_path / "runs"], lines.append, until=grow)
    once: Counter[tuple[str, str]] = Counter()
    for judged in analyse([run], InProcess()).judged:
        for at in judged.slices:
            once[at.f, "ok"] += at.ok
    assert counts["send", "ok"] == 2 * once["send", "ok"]
    assert counts["consume", "ok"] == 2 * once["consume", "ok"]
    assert len(lines) == 2
    with pytest.raises(HistoryError, match="is not a folder"):
        follow_runs(spark, [tmp_path / "nowhere"], lines.append)
