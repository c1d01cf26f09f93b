"""Workers of a hunt: a seed that ends its process or takes too long has failed, and no other seed is lost."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import orjson
import pytest

from staticfire.harness.cli.hunt import seeds
from staticfire.harness.cli.hunt.placement import Placement
from staticfire.harness.cli.hunt.seeds import Judging, SeedResult
from staticfire.harness.cli.hunt.workers import Task, workers_here
from staticfire.harness.cli.status import HarnessError
from staticfire.harness.machines.options import MachineOptions
from tests.harness.cli.conftest import Staticfire
from tests.harness.cli.test_hunt import seed_result

JUDGING = Judging(client_only=False, provider=MachineOptions())
KILLED, LEFT, HUNG = 2, 3, 4


def fails_for_some(seed: int, _options: dict[str, Any], _judging: Any) -> SeedResult:
    if seed == KILLED:
        os.kill(os.getpid(), signal.SIGKILL)
    if seed == LEFT:
        os._exit(7)
    if seed == HUNG:
        time.sleep(3600)
    return seed_result(seed, True)


@pytest.fixture
def failing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seeds, "run_seed", fails_for_some)


@pytest.mark.usefixtures("failing")
def test_a_seed_that_ends_its_process_hides_no_other() -> None:
    results = run(range(HUNG), jobs=2)
    assert sorted(results) == [0, 1, KILLED, LEFT]
    assert {seed: result.summary[0] for seed, result in results.items() if result.failed} == {
        KILLED: "harness error: its process was ended by SIGKILL",
        LEFT: "harness error: its process ended with status 7",
    }


@pytest.mark.usefixtures("failing")
def test_a_seed_that_hangs_is_given_up_after_its_limit() -> None:
    """One process has a limit, too."""
    results = run([HUNG, HUNG + 1], jobs=1, limit_s=0.2)
    assert sorted(results) == [HUNG, HUNG + 1]
    assert results[HUNG].summary == ("harness error: it took more than 0.2 s",)


def run(order: Iterable[int], *, jobs: int, limit_s: float | None = None) -> dict[int, SeedResult]:
    tasks = [Task(seed, {}, JUDGING) for seed in order]
    with workers_here(jobs, limit_s) as workers:
        return {result.seed: result for result in workers.results(tasks)}


@pytest.mark.usefixtures("failing")
def test_the_hunt_accounts_for_every_seed(staticfire: Staticfire, tmp_path: Path) -> None:
    out = tmp_path / "rows.jsonl"
    hunt = ("hunt", "--seeds", "0-3", "--jobs", 2, "--out", out)
    said = staticfire(*hunt)
    assert said.status == 255
    assert said.out.splitlines()[-1] == "planned   4: 2 done, 2 failed, 0 not run"
    assert "seed 3: unknown\nharness error: its process ended with status 7" in said.out
    assert [orjson.loads(line)["seed"] for line in out.read_bytes().splitlines()] == [0, 1, 2, 3]


def test_seeds_that_were_not_run_are_counted(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    def answer(seed: int, options: dict[str, Any], judging: Any) -> SeedResult:
        return replace(seed_result(seed, seed != 2), interrupted=seed == 5)

    monkeypatch.setattr(seeds, "run_seed", answer)
    hunt = ("hunt", "--seeds", "0-9", "--jobs", 1)
    assert "planned   10: 3 done, 0 failed, 7 not run" in staticfire(*hunt, "--until-found").out
    assert "planned   10: 6 done, 0 failed, 4 not run" in staticfire(*hunt).out


def test_what_ends_the_workers_keeps_the_rows(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    class Ending:
        def results(self, tasks: Sequence[Task]) -> Iterator[SeedResult]:
            yield seed_result(tasks[0].seed, True)
            raise HarnessError("Spark has ended: the master does not answer")

    @contextmanager
    def workers(_placement: Placement, *, is_real: bool) -> Iterator[Ending]:
        yield Ending()

    monkeypatch.setattr(Placement, "workers", workers)
    out = tmp_path / "rows.parquet"
    said = staticfire("hunt", "--seeds", "0-9", "--out", out)
    assert said.status == 255
    assert f"the master does not answer; their rows are in {out}.part" in said.err
    assert "planned   10: 1 done, 0 failed, 9 not run" in said.out


def test_a_full_disk_is_one_sentence(
    staticfire: Staticfire, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(seeds, "run_seed", lambda seed, *_: seed_result(seed, True))
    said = staticfire("hunt", "--seeds", "0-9", "--jobs", 1, "--out", "/dev/full")
    assert said.status == 255
    assert said.err == "staticfire: --out /dev/full cannot be written: No space left on device\n"


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("--seed-limit", "0"), "--seed-limit is 0; allowed: more than 0"),
        (("--seed-limit", "nan"), "--seed-limit is nan; allowed: more than 0"),
        (("--jobs", "2", "--master", "local[2]"), "leave one of them out"),
        (("--master", "sc://h:1"), "--master is 'sc://h:1'; allowed: local[N], spark://HOST:PORT"),
        (
            ("--environment", "processes", "--master", "local[2]"),
            "--master is for simulated seeds; allowed: --environment simulation",
        ),
        (
            ("--environment", "processes", "--seed-limit", "9"),
            "--seed-limit is for simulated seeds",
        ),
        (("merge",), "Missing argument 'ROWS...'"),
        (("mrege",), "No such command 'mrege'"),
    ],
)
def test_wrong_options_are_one_sentence(
    options: tuple[str, ...], words: str, staticfire: Staticfire
) -> None:
    said = staticfire("hunt", *options)
    assert said.status == 254
    assert words in said.err
    assert said.err.count("\n") == 1
