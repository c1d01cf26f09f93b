"""`staticfire analyze --rows`: a row for each run, with the verdict of `staticfire check`; no run is missing."""

from __future__ import annotations

import pickle
import shutil
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, cast

import orjson
import pyarrow.parquet as pq
import pytest

from staticfire.harness.cli.analyze import run_rows, survey
from staticfire.harness.cli.analyze.folders import folders_below
from staticfire.harness.cli.analyze.run_rows import RunRow, failed_row, made_at, row_of, sha256_of
from staticfire.harness.cli.analyze.survey import (
    RUNS_A_CALL,
    comparison_of,
    judged_by,
    with_versions,
)
from staticfire.harness.cli.check.command import judge
from staticfire.harness.run_folder.run_folder import RunFolder
from staticfire.spark_analysis.engine.java import SparkError
from staticfire.spark_analysis.engine.scatter import Scatter
from tests.checkers.test_apache_runs import RUNS, TRUTH
from tests.harness.cli.conftest import Staticfire


def a_row(name: str, **known: Any) -> RunRow:
    return RunRow(run=f"/runs/{name}", made=made_at(Path(name)), **known)


def rows_in(file: Path) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = pq.read_table(file).to_pylist()
    return [{name: value for name, value in row.items() if name != "cpu_s"} for row in rows]


@pytest.fixture
def runs(kept_run: Path, tmp_path: Path) -> Path:
    """A good run, one whose history was changed, one that did not finish, one without history, and no run at all."""
    root = tmp_path / "runs"
    for name in ("good", "changed", "torn"):
        shutil.copytree(kept_run, root / name)
    with (root / "changed" / "history.jsonl").open("ab") as file:
        file.write(b"{}\n")
    (root / "torn" / "verdict.json").unlink()
    (root / "empty").mkdir()
    shutil.copy(kept_run / "campaign.toml", root / "empty")
    (root / "notes").mkdir()
    return root


@pytest.mark.slow
@pytest.mark.parametrize("name", TRUTH)
def test_a_recorded_run_has_the_verdict_of_check(name: str) -> None:
    verdict = judge(RunFolder(RUNS / name), client_only=False)
    row = row_of(RUNS / name)
    assert row.verdict_sha256 == sha256_of(verdict)
    assert (row.valid, row.acked) == (verdict.valid, verdict.counts["acked"])
    assert row.anomalies == tuple(sorted(verdict.violations()))
    assert bool(row.cause) == bool(row.anomalies)
    facts = orjson.loads((RUNS / name / "verdict.json").read_bytes())["facts"]["faults"]
    assert {of["kind"].replace("_", "-") for of in facts if of["bitten_ns"] is not None} == {
        kind.replace("_", "-") for kind in row.faults
    }


@pytest.mark.slow
def test_a_simulated_run_has_the_verdict_of_check(kept_run: Path) -> None:
    verdict = judge(RunFolder(kept_run), client_only=False)
    row = row_of(kept_run)
    recorded = orjson.loads((kept_run / "verdict.json").read_bytes())
    assert row.verdict_sha256 == sha256_of(verdict)
    assert (row.valid, row.seed, row.workload, row.faults) == (True, 1, "queue", ("kill",))
    assert row.commit == recorded["versions"].get("commit", "")


@pytest.mark.slow
def test_what_cannot_be_judged_is_named_and_the_others_go_on(
    staticfire: Staticfire, runs: Path, tmp_path: Path
) -> None:
    file = tmp_path / "rows.parquet"
    said = staticfire("analyze", "--rows", file, runs)
    assert said.status == 2
    assert "planned   5: 2 done, 3 failed, 0 not run" in said.out
    assert len(said.out.splitlines()) <= 25
    rows = {Path(row["run"]).name: row for row in rows_in(file)}
    assert {name: row["valid"] for name, row in rows.items() if not row["failed"]} == {
        "good": "true",
        "torn": "unknown",
    }
    for name, sentence in {
        "changed": "it was cut or edited, or is of another run",
        "empty": "history.jsonl cannot be read: No such file or directory",
        "notes": "notes is no folder of a run: it has none of campaign.toml, history.jsonl",
    }.items():
        assert sentence in rows[name]["reason"]
        assert str(runs / name) in rows[name]["reason"]


@pytest.mark.slow
@pytest.mark.needs_spark
def test_the_rows_are_the_same_on_spark(
    staticfire: Staticfire, staticfire_process: Staticfire, runs: Path, tmp_path: Path
) -> None:
    here, there = tmp_path / "here.parquet", tmp_path / "there.parquet"
    staticfire("analyze", "--rows", here, runs)
    spark = ("--master", "local[2]", "--memory", 512)
    said = staticfire_process("analyze", "--rows", there, *spark, runs)
    assert said.status == 2, said.err
    assert rows_in(there) == rows_in(here)


def test_a_huge_history_is_refused(kept_run: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(run_rows, "LINES_BYTES_MAX", 1000)
    row = row_of(kept_run)
    assert row.failed
    assert "bytes, and --rows judges at most 1000; `staticfire check` judges it alone" in row.reason


def test_huge_columns_are_refused(run_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (run_folder / "history.jsonl").unlink()
    monkeypatch.setattr(run_rows, "ROWS_MAX", 10)
    row = row_of(run_folder)
    assert row.failed
    assert (
        "message events, and --rows judges at most 10; `staticfire analyze` without --rows"
        in row.reason
    )


def test_an_error_of_a_checker_is_the_failure_of_one_run(
    kept_run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(*_arguments: object, **_options: object) -> None:
        raise KeyError("x")

    monkeypatch.setattr(run_rows, "judge", fail)
    row = row_of(kept_run)
    assert row.failed
    assert row.reason.startswith(f"{kept_run}: KeyError: 'x', at ")


def test_folders_of_runs_and_others_are_found(tmp_path: Path) -> None:
    for name in ("b/campaign.toml", "a/20261120-101500-queue-1/history.jsonl", "c/x/y/file"):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    for name in ("b/nodes/broker-a-0", "analysis", ".git/objects"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "analysis" / "witnesses.jsonl").touch()
    (tmp_path / "link").symlink_to(tmp_path)
    (tmp_path / "file").touch()
    found = [str(folder.relative_to(tmp_path)) for folder in folders_below(tmp_path)]
    assert found == ["a/20261120-101500-queue-1", "b", "c/x/y", "link"]


def test_runs_of_one_path_are_compared_by_commit_in_the_order_of_their_first_run() -> None:
    rows = [
        a_row("20261103-000000-queue-1", commit="aaa", anomalies=("lost",), valid=False),
        a_row("20261101-000000-queue-1", commit="bbb", anomalies=("phantom",), valid=False),
        a_row("20261102-000000-queue-2", commit="bbb", faults=("kill",)),
        a_row("20261104-000000-queue-2", commit="aaa", anomalies=("lost", "phantom"), valid=False),
        a_row("20261102-120000-queue-3", anomalies=("unseen",), valid=False),
        failed_row(Path("/runs/notes"), "no run"),
    ]
    found = dict.fromkeys((Path(row.run) for row in rows), "runs")
    ordered = with_versions(rows, found)
    comparison = comparison_of(ordered)
    assert comparison.runs == {"bbb": 2, "aaa": 2, "no commit": 1}
    assert list(comparison.runs)[-1] == "no commit"  # which is no newer version
    assert comparison.by_label == {
        "lost": {"aaa": 2},
        "phantom": {"aaa": 1, "bbb": 1},
        "unseen": {"no commit": 1},
    }
    [regression] = comparison.regressions
    assert (regression.anomaly, regression.before, regression.after) == ("lost", "bbb", "aaa")
    assert len(ordered) == len(rows)


def test_several_paths_are_versions_in_the_order_given() -> None:
    rows = [a_row("a", commit="x"), a_row("b", commit="y")]
    found = {Path("/runs/b"): "runs-4.9", Path("/runs/a"): "runs-5.0"}
    assert [(row.run, row.version) for row in with_versions(rows, found)] == [
        ("/runs/b", "runs-4.9"),
        ("/runs/a", "runs-5.0"),
    ]


class FakeExecutors:
    """Of which a process ends whenever it is given the run `deadly`."""

    width = 2

    def __init__(self) -> None:
        self.calls: list[int] = []  # their lengths

    def results(self, calls: Iterable[bytes]) -> Iterator[tuple[int, bytes | SparkError]]:
        for number, call in enumerate(calls):
            folders: list[Path] = pickle.loads(call)
            self.calls.append(len(folders))
            if any(folder.name == "deadly" for folder in folders):
                yield number, SparkError("a Python worker died")
            else:
                yield number, pickle.dumps([a_row(folder.name) for folder in folders])


def test_a_run_that_ends_its_executor_hides_no_other() -> None:
    folders = [Path(f"/runs/{name}") for name in (*range(RUNS_A_CALL * 3), "deadly")]
    executors = FakeExecutors()
    rows = list(judged_by(cast(Scatter, executors), folders))
    assert sorted(row.run for row in rows) == sorted(map(str, folders))
    assert [row.reason for row in rows if row.failed] == ["/runs/deadly: a Python worker died"]
    assert max(executors.calls) == RUNS_A_CALL


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (SparkError("the master is gone"), "the master is gone"),
    ],
)
def test_what_ends_early_keeps_its_rows(
    error: BaseException,
    said: str,
    staticfire: Staticfire,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def end_at_second(folder: Path) -> RunRow:
        if folder.name == "2":
            raise error
        return a_row(folder.name, valid=True)

    for name in ("1", "2", "3"):
        (tmp_path / "runs" / name / "history.parquet").mkdir(parents=True)
    monkeypatch.setattr(survey, "row_of", end_at_second)
    file = tmp_path / "rows.parquet"
    reported = staticfire("analyze", "--rows", file, tmp_path / "runs")
    assert reported.status == 255
    assert "planned   3: 1 done, 0 failed, 2 not run" in reported.out
    assert (
        f"{said}: 2 of 3 runs are not judged; the rows of the others are in {file}" in reported.err
    )
    assert len(rows_in(file)) == 1


def test_other_forms_say_the_same(
    staticfire: Staticfire, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def judged(folder: Path) -> RunRow:
        if folder.name == "3":
            return failed_row(folder, "it is torn")
        return RunRow(
            run=str(folder),
            made=folder.name,
            commit=folder.name,
            valid=False,
            anomalies=("lost",),
            faults=("kill",),
            cause="loss",
        )

    for name in ("1", "2", "3"):
        (tmp_path / "runs" / name / "history.parquet").mkdir(parents=True)
    monkeypatch.setattr(survey, "row_of", judged)
    command = ("analyze", "--rows", tmp_path / "rows.parquet", tmp_path / "runs")
    said = staticfire(*command, "--json", "--junit", tmp_path / "junit.xml")
    document = orjson.loads(said.out)
    assert said.status == document["exit_status"] == 1
    assert document["runs"] == {"planned": 3, "done": 2, "failed": 1, "not_run": 0}
    assert document["comparison"]["by_fault"] == {"lost": {"kill": 2}}
    assert b'tests="3" failures="2" errors="1"' in (tmp_path / "junit.xml").read_bytes()
    said = staticfire(*command, "--markdown")
    assert "| anomaly by version (runs) | 1 (1) | 2 (1) |\n| --- | --- | --- |" in said.out
    assert "| anomaly by fault | kill |\n| --- | --- |\n| lost | 2 |" in said.out


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("{tmp}/none",), "none is not a folder; give a folder of runs"),
        (("{tmp}",), "holds no runs; give a folder of runs"),
        (("--out", "x", "."), "--out and --rows do not go together; leave one of them out"),
        (("--follow", "."), "--follow and --rows do not go together; leave one of them out"),
        (
            ("--master", "sc://127.0.0.1:1", "."),
            "--master is 'sc://127.0.0.1:1'; allowed with --rows: local[N], spark://HOST:PORT, yarn",
        ),
        (("--rows", "{tmp}/none/x", "."), "none/x cannot be written: No such file or directory"),
    ],
)
def test_bad_arguments(
    staticfire: Staticfire, arguments: tuple[str, ...], sentence: str, tmp_path: Path
) -> None:
    given = [argument.format(tmp=tmp_path) for argument in arguments]
    said = staticfire("analyze", "--rows", tmp_path / "rows.parquet", *given)
    assert said.status == 254
    assert sentence in said.err
    assert len(said.err.splitlines()) == 1
    assert list(tmp_path.iterdir()) == []
