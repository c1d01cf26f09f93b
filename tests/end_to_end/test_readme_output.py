"""What the README says that commands print is what they print, but for times and names of folders."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
SAMPLES = re.findall(r"```\n\$ (staticfire run [^\n]*)\n(.*?)```", README, re.DOTALL)
TIMEOUT_S = 300


def steady(text: str) -> list[str]:
    """The lines without what differs from run to run."""
    text = re.sub(r"[0-9.]+ CPU s", "N CPU s", text)
    return re.sub(r"\S*[0-9]{8}-[0-9]{6}-", "runs/STAMP-", text).splitlines()


def test_there_are_samples() -> None:
    assert len(SAMPLES) == 2


@pytest.mark.parametrize(("command", "shown"), SAMPLES, ids=[command for command, _ in SAMPLES])
def test_a_command_prints_what_the_readme_says(command: str, shown: str, tmp_path: Path) -> None:
    _, *words = shlex.split(command)
    argv = [sys.executable, "-m", "staticfire", *words, "--runs", "runs"]
    ran = subprocess.run(
        argv, cwd=tmp_path, capture_output=True, text=True, timeout=TIMEOUT_S, check=False
    )
    assert ran.returncode in (0, 1), ran.stderr
    assert steady(ran.stdout) == steady(shown)
