"""`resimulate`: searches the simulation for the failure of a real run, and reports its attempts."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from tests.harness.cli.conftest import Staticfire
from tests.harness.cli.test_shrink import invalid

RUNS = Path(__file__).parents[2] / "data/apache-runs"


def test_a_simulated_run_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    invalid(run_folder)
    said = staticfire("resimulate", run_folder)
    assert said.status == 254
    assert "is a simulated run already; `staticfire shrink" in said.err


def test_a_run_that_is_valid_is_refused(staticfire: Staticfire) -> None:
    said = staticfire("resimulate", RUNS / "slave-ahead")
    assert said.status == 254
    assert "is valid; only an invalid run" in said.err


@pytest.mark.parametrize("kept", [None, 0, 1])
def test_a_run_without_the_outcomes_of_its_faults_is_refused(
    kept: int | None, staticfire: Staticfire, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(RUNS / "failed-fsync", tmp_path / "run"))
    faults = folder / "faults.jsonl"
    lines = faults.read_text().splitlines(keepends=True)
    faults.write_text("".join(lines[:kept]))
    if kept is None:
        faults.unlink()
    said = staticfire("resimulate", folder)
    assert said.status == 254
    lacks = len(lines) - (kept or 0)
    assert f"is torn: its faults.jsonl lacks {lacks} of {len(lines)} planned faults" in said.err


@pytest.mark.parametrize("options", [("--jobs", 0), ("--budget", 0)])
def test_bounds_of_options(options: tuple[object, ...], staticfire: Staticfire) -> None:
    assert "allowed:" in staticfire("resimulate", RUNS / "failed-fsync", *options).err


@pytest.mark.slow
def test_a_loss_of_apache_is_found_in_our_own_faithful_cluster(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    said = staticfire("resimulate", RUNS / "failed-fsync", "--runs", tmp_path)
    assert said.status == 0
    assert "found     loss (lost) after failing-disk of leader" in said.out
    [folder] = tmp_path.iterdir()
    assert f"staticfire shrink {folder}" in said.out
    assert json.loads((folder / "verdict.json").read_bytes())["verdict"]["valid"] is False


@pytest.mark.slow
def test_what_is_not_found_is_said_with_what_was_tried(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    """A valid run that claims a loss: no run near it has one."""
    folder = Path(shutil.copytree(RUNS / "kills-valid", tmp_path / "run"))
    invalid(folder, anomaly="rolled_back_visible")
    said = staticfire("resimulate", folder, "--budget", 10, "--runs", tmp_path / "runs")
    assert said.status == 2
    assert "\nnot found\n" in said.out
    assert "tried     " in said.out
    assert not (tmp_path / "runs").exists()
