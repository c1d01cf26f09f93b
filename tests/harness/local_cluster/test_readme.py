"""The examples of the README run as they stand there."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from staticfire.harness.cli.admin import admin
from tests.harness.test_pytest_plugin import PLUGIN

ROOT = Path(__file__).parents[3]
README = (ROOT / "README.md").read_text(encoding="utf-8")
BLOCKS = re.findall(r"```python\n(.*?)```", README, re.DOTALL)


def run(folder: Path, *arguments: object) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, *map(str, arguments)],
        cwd=folder,
        env={"PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=60,
    )


@pytest.mark.real
def test_the_context_manager(tmp_path: Path) -> None:
    [example] = [
        block for block in BLOCKS if block.startswith("from staticfire import LocalCluster")
    ]
    done = run(tmp_path, "-c", example)
    assert (done.returncode, done.stderr) == (0, "")
    assert re.match(
        r"name servers 127\.0\.0\.1:\d+\nbrokers \[('127\.0\.0\.1:\d+'(, )?){4}\]\n$", done.stdout
    )


@pytest.mark.real
def test_the_fixture(tmp_path: Path) -> None:
    [example] = [block for block in BLOCKS if "rocketmq_cluster" in block]
    (tmp_path / "test_example.py").write_text(example)
    done = run(tmp_path, "-m", "pytest", "-q", *PLUGIN, tmp_path)
    assert done.returncode == 0, done.stdout


def test_every_command_of_admin_is_in_the_table() -> None:
    section = README.partition("## Administration")[2].partition("\n## ")[0]
    rows = [line for line in section.splitlines() if line.startswith("|")]
    assert sorted(re.findall(r"`(\w+)`", "\n".join(rows))) == sorted(admin.commands)
