"""Hunts on Spark: the rows that processes of this machine make, also of a planted bug and of bred campaigns."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.harness.cli.hunt.row_files import read_rows
from staticfire.harness.cli.hunt.seeds import SeedResult
from tests.harness.cli.conftest import SHORT, Said
from tests.support.sample import sample_of

pytestmark = [pytest.mark.slow, pytest.mark.needs_spark]


def known(path: Path) -> list[SeedResult]:
    """The rows without the times that a run took."""
    return [replace(row, cpu_s=0.0, wall_s=0.0, summary=()) for row in read_rows(path)]


HUNTS = [
    pytest.param(("--workload", "queue,retry", *SHORT), id="two workloads"),
    pytest.param(("--defect", "ack-before-fsync"), id="planted"),
    pytest.param(("--guided", *SHORT), id="guided"),
]


@pytest.mark.parametrize("options", sample_of(HUNTS, 1))
def test_the_rows_are_the_same(
    options: tuple[str, ...], staticfire_process: Callable[..., Said], tmp_path: Path
) -> None:
    seeds = "0-17" if "--guided" in options else "0-2"
    hunt = ("hunt", "--seeds", seeds, *options, "--bred", tmp_path / "bred", "--out")
    here, there = tmp_path / "here.jsonl", tmp_path / "there.parquet"
    local = staticfire_process(*hunt, here, "--jobs", 2)
    spark = staticfire_process(*hunt, there, "--master", "local[2]", "--memory", 512)
    assert spark.status == local.status, spark.err
    assert known(there) == known(here)
    assert "0 failed, 0 not run" in spark.out


def test_a_seed_that_takes_too_long_has_failed(
    staticfire_process: Callable[..., Said], tmp_path: Path
) -> None:
    out = tmp_path / "rows.jsonl"
    hunt = ("hunt", "--seeds", "0-2", "--master", "local[2]", "--memory", 512, "--out", out)
    said = staticfire_process(*hunt, "--seed-limit", "0.01")
    assert said.status == 255
    assert "planned   3: 0 done, 3 failed, 0 not run" in said.out
    assert [row.summary for row in read_rows(out)] == [
        ("harness error: it took more than 0.01 s",)
    ] * 3
