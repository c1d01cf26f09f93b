"""Verdicts in two passes: the same as all at once, whatever the partitions; missing files are never a wrong green."""

from __future__ import annotations

import inspect
import json
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from staticfire.checkers.availability.availability_gaps import AVAILABILITY_GAPS
from staticfire.checkers.engine.engine import judge_columns
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import LossPromises
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.verdicts.compose import (
    ALL_CHECKERS,
    RunVerdict,
    asked_of,
    kernels_of,
    run_verdict,
)
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.results import verdicts
from staticfire.spark_analysis.results.analysis import analyse, laid_out
from staticfire.spark_analysis.results.verdicts import CHECKERS, judge_runs
from staticfire.spark_analysis.runs import partitioning, raw
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, RunInput, find_runs
from staticfire.spark_analysis.runs.observed_file import observed_file
from staticfire.spark_analysis.runs.partitioning import partitioned, partitions_of
from tests.checkers.formats.columnar.test_round_trip import record
from tests.support.default_checkers import DEFAULTS
from tests.support.gap_histories import FACTS as GAP_FACTS
from tests.support.gap_histories import gap_history
from tests.support.sample import sample_of
from tests.support.synthetic import small

SHAPES = [{}, {"groups": 5, "fan_out": 5, "seed": 3}, {"batch": 1}]
SHAPES_AND_ROWS = list(product(SHAPES, [1, 3000, 10**9]))


def at_once(run: RunInput) -> RunVerdict:
    """The whole history in memory, one partition, every checker given everything."""
    history = ColumnarHistory(run.history)
    observed = observed_file(run.observations)
    context = Context(
        facts=run.facts,
        timeline=history.timeline(),
        promises=LossPromises(run.facts),
        observations=() if observed is None else observed.read(),
    )
    columns = history.columns()
    by_kernel, first = judge_columns(columns, context, kernels_of(asked_of(CHECKERS, context)))
    return run_verdict(CHECKERS, columns, context, by_kernel, first.totals)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rows"), sample_of(SHAPES_AND_ROWS, 4), ids=str)
def test_partitions_do_not_change_the_verdict(
    shape: dict[str, Any], rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(partitioning, "PARTITION_ROWS", rows)
    [run] = small(tmp_path, **shape)
    queues = len({part.queue for part in run.manifest.message_events})
    assert len(partitions_of(run, 0)) in {1: {queues}, 10**9: {1}}.get(rows, set(range(2, queues)))
    assert judge_runs([run], InProcess())[0].to_json() == at_once(run).to_json()


@pytest.mark.slow
@pytest.mark.parametrize("layout", ["per-queue", "raw"])
def test_a_long_queue_is_judged_in_pieces(
    layout: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nine of ten message events are in one queue, and no task has more than a part of it."""
    monkeypatch.setattr(raw, "PART_ROWS", 3000)
    monkeypatch.setattr(partitioning, "PARTITION_ROWS", 1000)
    runs = laid_out(small(tmp_path, layout=layout, skew=4.0, queues=8), InProcess())
    before = partitioned(runs, InProcess())
    monkeypatch.setattr(partitioning, "WHOLE_ROWS", 4000)

    partitions = partitioned(runs, InProcess())

    rows = runs[0].manifest.rows
    assert max(partition.unit.rows for partition in before) > 0.8 * rows
    assert max(partition.unit.rows for partition in partitions) < 0.25 * rows
    assert len(partitions) > len(before) + 5
    judged = judge_runs(runs, InProcess(), partitions=partitions)
    assert judged[0].to_json() == at_once(runs[0]).to_json()


@pytest.mark.slow
@pytest.mark.parametrize("asked", ["rows", "rows_again"])
def test_whatever_a_checker_raises_is_its_own_answer(asked: str, tmp_path: Path) -> None:
    [run] = small(tmp_path)
    run = replace(run, facts=replace(run.facts, gap_max_s=1000.0, orderly=("g",)))
    good = judge_runs([run], InProcess())[0]

    def fail(*_: object) -> Columns:
        raise RuntimeError("boom")

    change: dict[str, Any] = {asked: fail}
    broken = [replace(of, **change) if of is AVAILABILITY_GAPS else of for of in verdicts.CHECKERS]
    reported = judge_runs([run], InProcess(), broken)[0]

    others = [of for of in reported.verdicts if of.checker != AVAILABILITY_GAPS.name]
    [own] = [of for of in reported.verdicts if of.checker == AVAILABILITY_GAPS.name]
    assert others == [of for of in good.verdicts if of.checker != AVAILABILITY_GAPS.name]
    assert (own.valid, own.reason) == ("unknown", "the checker failed: RuntimeError: boom")


@pytest.mark.slow
def test_checkers_with_nothing_but_defaults_see_every_row(tmp_path: Path) -> None:
    [run] = small(tmp_path, queues=8)
    checkers = (*DEFAULTS, *verdicts.CHECKERS)
    columns, _ = ColumnarHistory(run.history).whole()

    judged = judge_runs([run], InProcess(), checkers)[0]

    seen = {of.checker: of.counts for of in judged.verdicts if of.checker.startswith("rows")}
    rows = sorted((len(columns.sends), len(columns.deliveries), len(columns.commits)))
    assert min(rows) > 0
    assert [sorted(counts.values()) for counts in seen.values()] == [rows] * len(DEFAULTS)


@pytest.mark.slow
@pytest.mark.parametrize("rows", [1, 3000])
def test_gaps_are_found_across_partitions(
    rows: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Three seeds of random clients, judged together with a run that promises nothing about gaps."""
    monkeypatch.setattr(partitioning, "PARTITION_ROWS", rows)
    runs = small(tmp_path / "synthetic")
    for seed in range(3):
        ops, crashes = gap_history(seed, together=True)
        folder = tmp_path / f"gaps-{seed}"
        record(ops, folder / "history.parquet")
        facts = RunFacts(flush="sync", replication="none", faults=crashes, **GAP_FACTS)
        (folder / FACTS_FILE).write_text(json.dumps(facts.to_json()))
        runs += find_runs([folder])

    together = judge_runs(runs, InProcess())

    assert [of.to_json() for of in together] == [at_once(run).to_json() for run in runs]
    assert any(of.anomaly == "send_gap" for run in together for of in run.findings())


@pytest.mark.slow
def test_runs_together_are_judged_as_each_alone(tmp_path: Path) -> None:
    runs = [
        run
        for name, shape in (("a", dict[str, Any]()), ("b", {"seed": 2}), ("c", {"plant": 0}))
        for run in small(tmp_path / name, **shape)
    ]
    together = judge_runs(runs, InProcess())
    assert [of.to_json() for of in together] == [
        judge_runs([run], InProcess())[0].to_json() for run in runs
    ]


@pytest.mark.slow
def test_a_missing_or_damaged_part_is_one_sentence(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    part = run.history / run.manifest.message_events[3].path
    data = part.read_bytes()
    part.write_bytes(data[:100] + bytes([data[100] ^ 1]) + data[101:])
    with pytest.raises(HistoryError, match="is damaged: its checksum"):
        judge_runs([run], InProcess())
    part.unlink()
    with pytest.raises(HistoryError, match="is missing; the manifest names it"):
        judge_runs([run], InProcess())


KINDS = {
    "manifest": "manifest.json",
    "message_events": "queue-5/*",
    "unanswered": "queue--1/*",
    "ops": "ops/*",
    "events": "events.jsonl",
}


@pytest.mark.slow
@pytest.mark.parametrize("damage", ["missing", "cut", "empty", "exchanged"])
@pytest.mark.parametrize("kind", sample_of(list(KINDS), 2))
def test_whatever_file_lacks_there_is_a_sentence_and_no_verdict(
    kind: str, damage: str, tmp_path: Path
) -> None:
    """Of the history laid out per queue; `exchanged` is the same file of another history."""
    small(tmp_path / "run")
    small(tmp_path / "other", seed=2)
    [file, *_] = sorted((tmp_path / "run").rglob(KINDS[kind]))
    [another, *_] = sorted((tmp_path / "other").rglob(KINDS[kind]))
    data = file.read_bytes()
    if damage == "missing":
        file.unlink()
    else:
        file.write_bytes(
            {"cut": data[:-7], "empty": b"", "exchanged": another.read_bytes()}[damage]
        )
    said = "a verdict\n"
    try:
        analyse(find_runs([tmp_path / "run"]), InProcess())
    except (HistoryError, OSError) as error:
        said = str(error)
    assert "\n" not in said


@pytest.mark.slow
def test_inputs_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(HistoryError, match="does not exist; give the folder of a run"):
        find_runs([tmp_path / "nowhere"])
    with pytest.raises(HistoryError, match="holds no history in columns"):
        find_runs([tmp_path])
    small(tmp_path / "run")
    (tmp_path / "run" / FACTS_FILE).write_text("{}")
    with pytest.raises(HistoryError, match=r"the facts in .*facts\.json are damaged: 'groups'"):
        find_runs([tmp_path])
    (tmp_path / "run" / FACTS_FILE).unlink()
    with pytest.raises(HistoryError, match="nothing says what this run promised"):
        find_runs([tmp_path])


@pytest.mark.parametrize(
    "checker", [of for of in ALL_CHECKERS if of.kernel is None], ids=lambda of: of.name
)
def test_a_checker_that_reads_rows_says_which(checker: Checker) -> None:
    """Or it would see none of a large history, and be green. What is not read is called `_columns`."""
    first = next(iter(inspect.signature(checker.check).parameters))
    assert first in {"_columns", "columns"}
    assert (checker.rows is no_rows) == (first == "_columns")
