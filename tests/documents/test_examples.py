"""Examples in docs/examples/ work: campaigns, the pytest project, the script over the columns, workflows."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
import yaml

from staticfire.harness.campaign.file import read_options
from staticfire.harness.cli import status_of
from staticfire.harness.draws.campaign import draw_campaign
from tests.documents.pages import ROOT
from tests.documents.parsing import arguments_of, parse

EXAMPLES = ROOT / "docs" / "examples"
CAMPAIGNS = sorted((EXAMPLES / "campaigns").glob("*.toml"))
WORKFLOWS = sorted((EXAMPLES / "workflows").glob("*.yml"))


def run_python(*arguments: str, folder: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    return subprocess.run(
        [sys.executable, *arguments],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=280,
        check=False,
    )


@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_a_campaign_can_be_drawn(path: Path) -> None:
    options = read_options(path.read_text(encoding="utf-8"), path.name)
    plans = [draw_campaign(seed, options).plan for seed in range(3)]
    assert all(plans)
    if "plan" in options:
        assert plans[0] == plans[1] == plans[2]  # it is written out


@pytest.mark.slow
@pytest.mark.parametrize("path", CAMPAIGNS, ids=lambda path: path.stem)
def test_a_campaign_is_valid_and_its_faults_bite(
    path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    status = status_of(["run", "--campaign", str(path), "--seed", "1", "--runs", str(tmp_path)])
    out = capsys.readouterr().out
    assert status == 0, out
    assert "never bit" not in out
    [run] = tmp_path.iterdir()
    ran = run_python(str(EXAMPLES / "scripts" / "slowest_sends.py"), str(run), folder=tmp_path)
    assert ran.returncode == 0, ran.stderr
    head, *rows = ran.stdout.splitlines()
    assert re.fullmatch(r"\d+ acknowledged sends", head)
    assert len(rows) == 5
    assert any("no fault" not in row for row in rows)  # the slowest ones wait for a fault to end


@pytest.mark.slow
@pytest.mark.real
def test_the_pytest_project_passes(tmp_path: Path) -> None:
    project = shutil.copytree(EXAMPLES / "pytest_project", tmp_path / "project")
    ran = run_python("-m", "pytest", "-q", "-p", "no:cacheprovider", folder=project)
    assert ran.returncode == 0, ran.stdout + ran.stderr
    assert "2 passed" in ran.stdout


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_commands_of_a_workflow_parse(path: Path) -> None:
    workflow = yaml.safe_load(path.read_text(encoding="utf-8"))
    found = 0
    for job in workflow["jobs"].values():
        for step in job["steps"]:
            script = re.sub(r"\\\n\s*", " ", step.get("run", ""))
            for line in re.findall(r"^(?:until )?(staticfire .*)$", script, re.MULTILINE):
                arguments = arguments_of(re.sub(r"\$\{.*?\}", "", line))
                parse([_without_variables(word) for word in arguments or ()])
                found += 1
    assert found


def _without_variables(word: str) -> str:
    known = {"$NAME_SERVER": "127.0.0.1:9876"}
    return "0-9" if word.startswith("$first") else known.get(word, re.sub(r"\$\w+", "x", word))
