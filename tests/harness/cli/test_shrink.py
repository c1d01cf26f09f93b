"""`shrink` refuses what it cannot make small in one sentence, and makes a planted loss small."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from tests.harness.cli.conftest import Staticfire


def test_a_run_that_is_not_invalid_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "verdict.json"
    document = json.loads(path.read_bytes())
    document["verdict"]["valid"] = True
    path.write_text(json.dumps(document))
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "is valid; only an invalid run can be shrunk or resimulated" in said.err
    assert not (run_folder / "shrunk").exists()


def test_a_run_without_its_seed_is_refused(run_folder: Path, staticfire: Staticfire) -> None:
    path = run_folder / "campaign.toml"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith("seed = ")))
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "lacks seed" in said.err


def invalid(folder: Path, **finding: object) -> None:
    """Let the verdict of a run say that a message was lost."""
    path = folder / "verdict.json"
    document = json.loads(path.read_bytes())
    document["verdict"]["valid"] = False
    loss = next(one for one in document["verdict"]["verdicts"] if one["checker"] == "loss")
    lost = {"anomaly": "lost", "judgement": "violation", "op_index": 5, "time_ns": 10**9}
    found = {**lost, "detail": "gone", "key": "p0-0", "broker": "broker-a", **finding}
    loss |= {"valid": False, "counts": {found["anomaly"]: 1}, "findings": [found]}
    path.write_text(json.dumps(document))


def test_of_a_run_of_real_machines_the_commands_are_printed(
    run_folder: Path, staticfire: Staticfire
) -> None:
    path = run_folder / "campaign.toml"
    text = path.read_text()
    path.write_text(text.replace('environment = "simulation"', 'environment = "processes"'))
    invalid(run_folder)
    said = staticfire("shrink", run_folder)
    assert said.status == 0
    kill, command = "loss (lost) after kill of leader", "--until-found --anomaly lost"
    assert f"failure   {kill}" in said.out
    assert f"staticfire resimulate {run_folder}" in said.out
    assert f"recipe.toml --seeds 0-19 {command}  # does kill of broker-a-0 alone" in said.out
    recipe = tomllib.loads((run_folder / "shrunk/recipe.toml").read_text())["campaign"]
    assert [one["kind"] for one in recipe["plan"]] == ["kill"]
    assert recipe["environment"] == "processes"


@pytest.mark.slow
def test_a_run_that_this_version_does_not_repeat_is_refused(
    run_folder: Path, staticfire: Staticfire
) -> None:
    invalid(run_folder)
    said = staticfire("shrink", run_folder)
    assert said.status == 254
    assert "is not repeated by this version: since it was recorded" in said.err
    assert said.err.count("\n") == 1
    assert not (run_folder / "shrunk").exists()


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
    assert len(campaign["ops"]) <= 10
    assert (folder / "shrunk/story.txt").read_text().startswith("cause     loss (lost)")
    compile((folder / "shrunk/test_shrunk.py").read_text(), "test_shrunk.py", "exec")
    again = ("--campaign", folder / "shrunk/shrunk.toml", "--runs", tmp_path / "again")
    assert staticfire("run", *again).status == 1


@pytest.mark.slow
def test_a_shrink_that_is_killed_leaves_the_best_so_far(
    staticfire: Staticfire, tmp_path: Path
) -> None:
    options = ("--seed", 1, "--defect", "ack-before-fsync", "--runs", tmp_path)
    assert staticfire("run", *options).status == 1
    [folder] = tmp_path.iterdir()
    command = [sys.executable, "-m", "staticfire", "shrink", str(folder), "--jobs", "1"]
    (own := tmp_path.with_name(f"{tmp_path.name}-own")).mkdir()  # what it leaves goes with the test
    environment = {**os.environ, "TMPDIR": str(own), "STATICFIRE_STATE": str(own / "state")}
    made = subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, start_new_session=True, env=environment
    )
    try:
        assert made.stdout is not None
        steps = [next(line for line in made.stdout if "of load" in line) for _ in range(2)]
    finally:
        os.killpg(made.pid, signal.SIGKILL)
        made.communicate()
    assert "872 ops" not in steps[1]
    campaign = tomllib.loads((folder / "shrunk/shrunk.toml").read_text())["campaign"]
    assert f"{len(campaign['plan'])} faults, {len(campaign['ops'])} ops" in steps[1]
    again = ("--campaign", folder / "shrunk/shrunk.toml", "--runs", tmp_path / "again")
    assert staticfire("run", *again).status == 1
