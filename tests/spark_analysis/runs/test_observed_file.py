"""Observations beside a history: read where they are needed, bounded, never silently missing."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.checkers.model import history
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.results.verdicts import judge_runs, question_of
from staticfire.spark_analysis.runs.inputs import find_runs
from staticfire.spark_analysis.runs.observed_file import (
    ObservedFile,
    bytes_in_memory,
    observed_file,
)
from staticfire.spark_analysis.runs.partitioning import memory_bound_bytes, partitioned
from tests.support.synthetic import small

# They rest on observations; the last two are asked without any, too.
RESTING = (
    "durable_before_ack",
    "weak_statuses",
    "replica_prefix",
    "queue_entries",
    "routes",
    "name_server_switch",
    "recovery",
    "log_holes",
)


def reasons(verdict: RunVerdict) -> dict[str, str | None]:
    return {of.checker: of.reason for of in verdict.verdicts if of.valid == "unknown"}


@pytest.mark.slow
def test_too_many_are_unknown_with_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    [run] = small(tmp_path)
    size = run.observations.stat().st_size
    monkeypatch.setattr(history, "OBSERVED_BYTES_MAX", size)
    [seen] = judge_runs([run], InProcess())
    monkeypatch.setattr(history, "OBSERVED_BYTES_MAX", size - 1)
    [unseen] = judge_runs([run], InProcess())
    reported = f"observations.jsonl has {size} bytes; at most {size - 1} are taken into memory"
    assert not reasons(seen).keys() & set(RESTING)
    violated = {"log_holes", "recovery"}  # by what the history alone shows
    assert {reasons(unseen)[name] for name in RESTING if name not in violated} == {reported}
    by_name = {of.checker: of for of in unseen.verdicts}
    assert {by_name[name].reason for name in violated} == {reported}


@pytest.mark.slow
def test_no_file_is_not_observed(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    run.observations.unlink()
    [verdict] = judge_runs([run], InProcess())
    assert reasons(verdict)["queue_entries"] == "not observed"
    assert bytes_in_memory(run.observations) == 0


@pytest.mark.slow
def test_a_file_that_changes_or_goes_during_the_analysis_is_no_verdict(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    observed = observed_file(run.observations)
    assert observed is not None
    assert len(observed.read()) > 5
    with pytest.raises(HistoryError, match=r"bytes; it had 7 when the analysis began$"):
        ObservedFile(path=observed.path, size=7).read()
    run.observations.unlink()
    with pytest.raises(OSError, match="observations"):
        observed.read()


@pytest.mark.slow
def test_half_an_observation_is_left_out_and_damage_is_one_sentence(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    before = judge_runs([run], InProcess())[0].to_json()
    whole = run.observations.read_bytes()
    run.observations.write_bytes(whole + b'{"kind": "rec')
    assert judge_runs([run], InProcess())[0].to_json() == before
    run.observations.write_bytes(b"[]\n" + whole)
    with pytest.raises(HistoryError, match=r"^observations\.jsonl line 1: "):
        judge_runs([run], InProcess())


@pytest.mark.slow
def test_memory_counts_them(tmp_path: Path) -> None:
    [run] = small(tmp_path)
    partitions = partitioned([run], InProcess())
    with_them = memory_bound_bytes([run], partitions, 1)
    size = run.observations.stat().st_size
    run.observations.unlink()
    assert with_them - memory_bound_bytes([run], partitions, 1) == 8 * size


@pytest.mark.slow
def test_the_question_holds_no_observations(tmp_path: Path) -> None:
    """It is pickled into every task."""
    [run] = find_runs([small(tmp_path)[0].path])
    question = question_of(run, ())
    assert question.observed == observed_file(run.observations)
    assert question.facts == replace(run.facts, torn=question.facts.torn)
