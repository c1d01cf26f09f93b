"""`bugs` lists and describes the planted bugs; `reproduce` finds one by its recipe, keeps the run and explains it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.bugs import reproduce
from staticfire.harness.cli.hunt.seeds import SeedResult
from staticfire.harness.defect_loader import VARIABLE
from staticfire.harness.workloads.catalogue import WORKLOADS
from tests.harness.cli.conftest import Staticfire

NAME = "ack-before-fsync"


def result(
    seed: int, valid: bool | str, workload: str = "queue", failed: bool = False
) -> SeedResult:
    return SeedResult(
        seed=seed,
        workload=workload,
        valid=valid,
        digest="",
        acked=1,
        bitten=(),
        dirty_power_cut=False,
        cpu_s=1.5,
        summary=("harness error: no disk",) if failed else (),
        failed=failed,
        anomalies=("lost",) if valid is False else (),
    )


@pytest.fixture
def seeds(monkeypatch: pytest.MonkeyPatch) -> list[tuple[dict[str, Any], int]]:
    """The campaigns that were asked for; none is run, and seed 3 is the only one that is invalid."""
    asked: list[tuple[dict[str, Any], int]] = []

    def run_seeds(order: range, given: dict[str, Any], *_: object) -> Iterator[SeedResult]:
        for seed in order:
            asked.append((given, seed))
            yield result(seed, seed != 3, given.get("workload", "queue"))

    monkeypatch.setenv(VARIABLE, NAME)  # as in the process that has the bug
    monkeypatch.setattr(reproduce, "run_seeds", run_seeds)
    return asked


def test_every_bug_has_a_line(staticfire: Staticfire) -> None:
    said = staticfire("bugs")
    assert said.status == 0
    lines = said.out.splitlines()
    assert [line.split()[0] for line in lines[:-1]] == list(DEFECTS)
    assert lines[-1].startswith(f"{len(DEFECTS)} of {len(DEFECTS)} bugs; ")


def test_a_checker_and_a_text_narrow_the_list(staticfire: Staticfire) -> None:
    by_checker = staticfire("bugs", "--checker", "durable_before_ack").out.splitlines()[:-1]
    assert [line.split()[0] for line in by_checker] == [
        name for name, bug in DEFECTS.items() if "durable_before_ack" in bug.checkers
    ]
    assert 0 < len(by_checker) < len(DEFECTS)
    both = staticfire(
        "bugs", "--checker", "durable_before_ack", "--grep", "flush that did not happen"
    ).out
    assert both.splitlines()[0].startswith(NAME)
    assert both.splitlines()[1].startswith(f"1 of {len(DEFECTS)} bugs")


def test_a_bug_is_described_with_its_diff_and_recipe(staticfire: Staticfire) -> None:
    said = staticfire("bugs", NAME)
    assert DEFECTS[NAME].title in said.out
    assert DEFECTS[NAME].source in said.out
    assert "flush = 'sync'" in said.out
    for line in DEFECTS[NAME].diff.decode().splitlines():
        assert line in said.out


@pytest.mark.parametrize("command", ["bugs", "reproduce"])
def test_an_unknown_bug_is_refused_with_those_like_it(command: str, staticfire: Staticfire) -> None:
    said = staticfire(command, "ack-before-fsnc")
    assert said.status == 254
    assert said.err.startswith(
        "staticfire: NAME is 'ack-before-fsnc'; did you mean ack-before-fsync"
    )


def test_an_unknown_checker_is_refused(staticfire: Staticfire) -> None:
    said = staticfire("bugs", "--checker", "los")
    assert said.status == 254
    assert said.err.startswith("staticfire: --checker is 'los'; did you mean loss?")


@pytest.mark.parametrize("options", [("--budget", "0"), ("--budget", "nan"), ("--jobs", "0")])
def test_an_effort_that_is_none_is_refused(
    options: tuple[str, str], staticfire: Staticfire
) -> None:
    said = staticfire("reproduce", NAME, *options)
    assert said.status == 254
    assert options[0] in said.err


def test_a_recipe_runs_until_a_seed_shows_the_bug(
    seeds: list[tuple[dict[str, Any], int]], staticfire: Staticfire
) -> None:
    said = staticfire("reproduce", NAME, "--json", "--jobs", 2)
    assert said.status == 0
    row = json.loads(said.out)
    assert (row["how"], row["seeds"], row["seed"], row["cpu_s"]) == ("recipe", 4, 3, 6.0)
    assert row["anomalies"] == ["lost"]
    assert [seed for _, seed in seeds] == [0, 1, 2, 3]
    assert all(given["fsync_us"] == 20000 for given, _ in seeds)


def test_a_blind_search_draws_everything_and_takes_the_workloads_in_turn(
    seeds: list[tuple[dict[str, Any], int]], staticfire: Staticfire
) -> None:
    said = staticfire("reproduce", NAME, "--blind", "--json", "--jobs", 2)
    assert json.loads(said.out)["how"] == "blind"
    assert all(given.keys() == {"workload", "defect"} for given, _ in seeds)
    assert [given["workload"] for given, _ in seeds[:-2:2]] == list(WORKLOADS)
    assert [seed for _, seed in seeds[-2:]] == [2, 3]


def test_a_search_ends_with_its_budget(
    seeds: list[tuple[dict[str, Any], int]],
    staticfire: Staticfire,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    times = iter([0.0, 5.0, 10.0])
    monkeypatch.setattr(reproduce, "time", SimpleNamespace(monotonic=lambda: next(times)))
    said = staticfire("reproduce", NAME, "--budget", 10)
    assert said.status == 2
    assert "not found 2 seeds in 10 s, none invalid" in said.out
    assert len(seeds) == 2


def test_seeds_that_cannot_be_run_are_an_error_and_not_a_bug_unfound(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    failed = [result(0, "unknown", failed=True)]
    monkeypatch.setenv(VARIABLE, NAME)
    monkeypatch.setattr(reproduce, "run_seeds", lambda *_: iter(failed))
    monkeypatch.setattr(reproduce, "SEEDS_MAX", 1)
    said = staticfire("reproduce", NAME)
    assert said.status == 255
    assert "no seed could be run; the first says: harness error: no disk" in said.err


@pytest.mark.slow  # a campaign, twice
def test_a_bug_is_found_kept_and_explained(tmp_path: Path, staticfire_process: Staticfire) -> None:
    said = staticfire_process(
        "reproduce", "offsets-not-read-at-start", "--jobs", 1, "--runs", tmp_path / "runs"
    )
    assert said.status == 0, said.err
    assert "duplicate_unexplained" in said.out
    [kept] = (tmp_path / "runs").iterdir()
    assert f"staticfire replay {kept}" in said.out
    assert json.loads((kept / "verdict.json").read_bytes())["verdict"]["valid"] is False


@pytest.mark.slow  # crashes of the store in a process of their own
def test_a_bug_that_only_the_store_shows_becomes_a_small_cycle(
    tmp_path: Path, staticfire_process: Staticfire
) -> None:
    bug = "cut-leaves-the-old-tail"
    said = staticfire_process("reproduce", bug, "--jobs", 1, "--runs", tmp_path / "runs")
    assert said.status == 0, said.err
    path = tmp_path / "runs" / f"{bug}-cycle.json"
    assert f"staticfire crash-store --repeat {path}" in said.out
    assert "of 200 cycles failed" in said.out  # it looks at the failures after each 200
    again = staticfire_process("crash-store", "--repeat", path)
    assert again.status == 1
    assert again.out.splitlines()[-1].startswith("FAILED: ")
    assert set(again.out.splitlines()) <= set(said.out.splitlines())
