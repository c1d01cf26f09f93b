"""`staticfire synthesize` and `analyze` as commands: files, 25 lines, exit statuses, error messages."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from staticfire.checkers.guarantees.verdict import Validity
from staticfire.harness.cli.check.command import judge
from staticfire.harness.run_folder.facts_file import doubted_verdict, facts_of_run
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.spark_analysis.engine.engines import InProcess
from staticfire.spark_analysis.results import verdicts
from staticfire.spark_analysis.results.verdicts import judge_runs
from staticfire.spark_analysis.runs import partitioning
from staticfire.spark_analysis.runs.inputs import FACTS_FILE, find_runs
from tests.harness.cli.conftest import Staticfire, without_checksums

SMALL = ("--ops", "8000", "--queues", "12", "--rows-a-chunk", "6000")


@pytest.mark.slow
def test_a_synthetic_history_is_analysed(staticfire: Staticfire, tmp_path: Path) -> None:
    said = staticfire("synthesize", tmp_path, *SMALL, "--plant", "1")
    assert said.status == 0
    assert "anomalies planted, see truth.json" in said.out
    said = staticfire("analyze", tmp_path)
    assert said.status == 1
    lines = said.out.splitlines()
    assert lines[1] == "verdict   INVALID"
    assert "memory at most about" in lines[0]
    assert len(lines) <= 25
    out = tmp_path / "analysis"
    document = orjson.loads((out / "verdict.json").read_bytes())
    assert document["valid"] is False
    witnesses = [orjson.loads(line) for line in (out / "witnesses.jsonl").read_bytes().splitlines()]
    assert {"lost", "phantom"} <= {finding["anomaly"] for finding in witnesses}
    assert b"<svg" in (out / "latency.svg").read_bytes()
    again = (out / "verdict.json").read_bytes()
    assert staticfire("analyze", tmp_path).status == 1  # what it wrote is no further run
    assert (out / "verdict.json").read_bytes() == again


@pytest.mark.slow
def test_valid_and_unknown(staticfire: Staticfire, tmp_path: Path) -> None:
    assert staticfire("synthesize", tmp_path, *SMALL, "--plant", "0", "--layout", "raw").status == 0
    said = staticfire("analyze", tmp_path, "--out", tmp_path / "out")
    assert (said.status, said.out.splitlines()[1]) == (0, "verdict   VALID")
    facts = orjson.loads((tmp_path / FACTS_FILE).read_bytes())
    facts["floors"]["acked_min"] = 10**9
    del facts["checksums"]
    (tmp_path / FACTS_FILE).write_bytes(orjson.dumps(facts))
    said = staticfire("analyze", tmp_path, "--out", tmp_path / "out")
    assert (said.status, said.out.splitlines()[1]) == (2, "verdict   UNKNOWN")


@pytest.mark.slow
def test_several_versions(staticfire: Staticfire, tmp_path: Path) -> None:
    for name, plant in (("v1", "0"), ("v2", "1")):
        options = (*SMALL, "--semantics", "0", "--plant", plant)
        assert staticfire("synthesize", tmp_path / name / "run", *options).status == 0
    said = staticfire("analyze", tmp_path / "v1", tmp_path / "v2", "--out", tmp_path / "out")
    assert said.status == 1
    assert "regression lost: in 1 runs of v2, in none of v1" in said.out
    assert len(said.out.splitlines()) <= 25


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("nowhere",), "nowhere does not exist; give the folder of a run, or of many runs"),
        (("--engine", "in-process", "--master", "local[2]", "."), "--master is for --engine spark"),
        (("--engine", "duckdb", "."), "'duckdb' is not one of 'in-process', 'spark'"),
        ((), "Missing argument 'PATH...'"),
    ],
)
def test_bad_arguments(
    staticfire: Staticfire, arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    said = staticfire("analyze", *arguments)
    assert said.status == 254
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1


@pytest.mark.slow
def test_a_history_that_is_there_is_not_overwritten(staticfire: Staticfire, tmp_path: Path) -> None:
    assert staticfire("synthesize", tmp_path, *SMALL).status == 0
    said = staticfire("synthesize", tmp_path, *SMALL)
    assert said.status == 254
    assert "holds a history already" in said.err
    said = staticfire("synthesize", tmp_path / "b", "--ops", "0")
    assert said.status == 254
    assert said.err == "staticfire: ops is 0; allowed are 1 to 100000000000\n"


def _break_nothing(_seen: list[dict[str, Any]]) -> None:
    """As it was."""


def _lose_a_copy(seen: list[dict[str, Any]]) -> None:
    first = next(of for of in seen if of["kind"] == "ack_durability")
    first.update(durable_on=[], cached_on=[], unobserved=[])


def _lose_an_entry(seen: list[dict[str, Any]]) -> None:
    last = next(of for of in reversed(seen) if of["kind"] == "queue_entries")
    last.update(missing=1)


def _look_nowhere(seen: list[dict[str, Any]]) -> None:
    seen[:] = [of for of in seen if of["kind"] != "route"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("change", "valid", "partition_rows"),
    [
        (_break_nothing, True, 1),
        (_break_nothing, True, 1 << 18),
        (_lose_a_copy, False, 1),
        (_lose_an_entry, False, 1),
        (_look_nowhere, "unknown", 1),
    ],
)
def test_a_run_is_judged_as_check_judges_it(
    change: Callable[[list[dict[str, Any]]], None],
    valid: Validity,
    partition_rows: int,
    run_folder: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """All but latency, which is measured from the ops here."""
    monkeypatch.setattr(partitioning, "PARTITION_ROWS", partition_rows)
    file = without_checksums(run_folder) / "observations.jsonl"
    seen = [orjson.loads(line) for line in file.read_bytes().splitlines()]
    change(seen)
    file.write_bytes(b"".join(orjson.dumps(of) + b"\n" for of in seen))
    checked = judge(RunFolder(run_folder), client_only=False)
    [run] = find_runs([run_folder], facts_of_run)
    [plain] = judge_runs([run], InProcess())
    analysed = doubted_verdict(run.path, run.facts, plain)
    kept = tuple(of for of in checked.verdicts if of.checker != verdicts.REPLACED)
    assert analysed.to_json() == replace(checked, verdicts=kept).to_json()
    assert analysed.valid == valid
