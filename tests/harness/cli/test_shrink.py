"""`shrink` refuses what it cannot make small in one sentence, and makes a planted loss small."""

from __future__ import annotations

import json
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.harness.cli.conftest import Said

Staticfire = Callable[..., Said]


def test_a_run_that_is_not_invalid_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "verdict.json"
    document = json.loads(path.read_bytes())
    document["verdict"]["valid"] = True
    path.write_text(json.dumps(document))
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "is valid; only a run that is invalid can be shrunk" in said.err
    assert not (run_folder / "shrunk").exists()


def test_a_run_that_did_not_finish_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    (run_folder / "verdict.json").unlink()
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "the run did not finish" in said.err


def test_a_run_without_its_seed_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "campaign.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("seed = ")))
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "lacks seed" in said.err


def test_a_run_of_a_real_environment_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "campaign.toml"
    text = path.read_text()
    path.write_text(text.replace('environment = "simulation"', 'environment = "processes"'))
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "only a simulated run repeats" in said.err


@pytest.mark.parametrize("options", [("--jobs", 0), ("--budget", 0), ("--budget", "nan")])
def test_bounds_of_options(options: tuple[object, ...], staticfire: Staticfire) -> None:
    said = staticfire("shrink", "nowhere", *options)
    assert said.status == 254
    assert "allowed:" in said.err


@pytest.mark.slow
def test_a_planted_loss_becomes_one_fault_and_a_few_sends(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    options = ("--seed", 1, "--defect", "ack-before-fsync", "--runs", tmp_path)
    assert staticfire("run", *options).status == 1
    [folder] = tmp_path.iterdir()
    assert staticfire("shrink", folder, "--budget", 600, "--jobs", 2).status == 0
    campaign = tomllib.loads((folder / "shrunk/shrunk.toml").read_text())["campaign"]
    assert len(campaign["plan"]) <= 3
    assert 0 < campaign["sends_max"] <= 10
    compile((folder / "shrunk/test_shrunk.py").read_text(), "test_shrunk.py", "exec")
    again = ("--campaign", folder / "shrunk/shrunk.toml", "--runs", tmp_path / "again")
    assert staticfire("run", *again).status == 1
