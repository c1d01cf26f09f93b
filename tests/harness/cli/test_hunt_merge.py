"""Merged rows of several hunts: one for each seed and commit, in both forms; contradictions are named."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import orjson
import pyarrow.parquet as pq
import pytest

from staticfire.harness.cli.hunt import command, seeds
from staticfire.harness.cli.hunt.row_files import encoded, read_rows
from staticfire.harness.cli.hunt.seeds import SeedResult, failed_seed
from tests.harness.cli.conftest import Staticfire
from tests.harness.cli.test_hunt import seed_result

FULL = replace(
    seed_result(7, False),
    seed=2**63 - 1,
    coverage={"mark": 3, "other": 0},
    caveats=("a caveat",),
    anomalies=("lost", "unseen"),
    fingerprint="loss (lost)",
    bred="bred/bred-7.toml",
    commit="abc",
)


def write(path: Path, *results: SeedResult) -> Path:
    path.write_bytes(encoded(results, path))
    return path


@pytest.mark.parametrize("name", ["rows.jsonl", "rows.parquet"])
def test_rows_are_read_as_they_were_written(name: str, tmp_path: Path) -> None:
    results = [FULL, seed_result(1, True), failed_seed(2, {"workload": "retry"}, "no memory")]
    path = write(tmp_path / name, *results)
    assert sorted(read_rows(path), key=str) == sorted(results, key=str)


def test_parquet_has_a_column_for_each_part_of_a_row(tmp_path: Path) -> None:
    path = write(tmp_path / "rows.parquet", FULL)
    assert set(pq.read_schema(path).names) == set(SeedResult.__slots__)


def test_a_hunt_writes_parquet_and_goes_on_with_it(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    run: list[int] = []

    def answer(seed: int, *_: object) -> SeedResult:
        run.append(seed)
        return seed_result(seed, True)

    monkeypatch.setattr(seeds, "run_seed", answer)
    out = tmp_path / "rows.parquet"
    assert staticfire("hunt", "--seeds", "0-2", "--jobs", 1, "--out", out).status == 0
    said = staticfire("hunt", "--seeds", "0-4", "--jobs", 1, "--out", out, "--resume")
    assert run == [0, 1, 2, 3, 4]
    assert "planned   5: 5 done, 0 failed, 0 not run" in said.out
    assert [row.seed for row in read_rows(out)] == [0, 1, 2, 3, 4]
    assert [path.name for path in tmp_path.iterdir()] == ["rows.parquet"]


def test_rows_of_another_commit_are_not_gone_on_with(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(seeds, "run_seed", lambda seed, *_: seed_result(seed, True))
    monkeypatch.setattr(command, "versions", lambda: {"commit": "aaa"})
    hunt = ("hunt", "--seeds", "0-1", "--jobs", 1, "--out", tmp_path / "rows.jsonl")
    assert staticfire(*hunt).status == 0
    monkeypatch.setattr(command, "versions", lambda: {"commit": "bbb"})
    said = staticfire(*hunt, "--resume")
    assert said.status == 254
    assert "holds rows of commit aaa and the code is that of commit bbb" in said.err
    assert "`staticfire hunt merge` puts both together" in said.err


def test_commits_are_kept_apart_and_a_seed_is_kept_once(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    old = [replace(seed_result(seed, True), commit="old") for seed in range(3)]
    lost = replace(failed_seed(3, {}, "no memory"), commit="old")
    new = [replace(seed_result(seed, seed != 1), commit="new") for seed in range(3)]
    one = write(tmp_path / "one.jsonl", *old, lost)
    other = write(tmp_path / "other.parquet", old[0], *new)
    third = write(tmp_path / "third.jsonl", replace(seed_result(3, True), commit="old"))
    out = tmp_path / "all.parquet"
    said = staticfire("hunt", "merge", one, other, third, "--out", out)
    assert said.status == 0
    assert said.out.splitlines() == [
        "merged    3 files: 7 seeds of 2 commits",
        "commit    new: 3 seeds: 2 valid, 1 invalid, 0 unknown, 0 failed; 2 CPU s",
        "cause     unnamed in 1 seed, first seed 1 of queue",
        "commit    old: 4 seeds: 4 valid, 0 invalid, 0 unknown, 0 failed; 2 CPU s",
    ]
    rows = [(row.commit, row.seed, row.failed) for row in read_rows(out)]
    assert rows == [("new", n, False) for n in range(3)] + [("old", n, False) for n in range(4)]
    assert staticfire("hunt", "merge", out, one, "--out", out).status == 0
    assert len(read_rows(out)) == 7


def test_a_seed_with_two_digests_is_named_once_all_is_written(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    first = replace(seed_result(5, True), commit="abc")
    one = write(tmp_path / "one.jsonl", first)
    other = write(tmp_path / "other.jsonl", replace(first, digest="another"))
    out = tmp_path / "all.jsonl"
    said = staticfire("hunt", "merge", one, other, "--out", out)
    assert said.status == 255
    assert "seed 5 of queue at commit abc has digest digest-5 in" in said.err
    assert [row.digest for row in read_rows(out)] == ["digest-5"]


@pytest.mark.parametrize(
    ("commit", "environment"), [("abc-dirty", "simulation"), ("abc", "processes")]
)
def test_what_may_differ_is_no_contradiction(
    commit: str, environment: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    first = replace(seed_result(5, True), commit=commit, environment=environment)
    one = write(tmp_path / "one.jsonl", first)
    other = write(tmp_path / "other.jsonl", replace(first, digest="another"))
    assert staticfire("hunt", "merge", one, other, "--out", tmp_path / "all.jsonl").status == 0


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"{}\n", "line 1 is no row of a hunt"),
        (b"PAR1 and no more", "holds no rows of a hunt"),
        (None, "cannot be used: No such file or directory"),
    ],
)
def test_a_file_without_rows_is_named(
    data: bytes | None, words: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    path, out = tmp_path / "rows", tmp_path / "all.jsonl"
    if data is not None:
        path.write_bytes(data)
    said = staticfire("hunt", "merge", path, "--out", out)
    assert said.status == 254
    assert f"{path}" in said.err
    assert words in said.err
    assert said.err.count("\n") == 1
    assert not out.exists()


def test_a_torn_last_line_is_left_out(staticfire: Staticfire, tmp_path: Path) -> None:
    path = tmp_path / "rows.jsonl.part"
    path.write_bytes(orjson.dumps(FULL.row) + b"\n" + orjson.dumps(FULL.row)[:20])
    assert staticfire("hunt", "merge", path, "--out", tmp_path / "all.jsonl").status == 0
    assert read_rows(tmp_path / "all.jsonl") == [FULL]
