"""One seed, one campaign: whatever process, hash seed, environment and order of seeds it runs in.

The check over many seeds is the same two commands by hand: see tests/README.md.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import orjson
import pytest

from staticfire.faults.defects import SYSTEM
from staticfire.faults.defects.diffs import apply_diff

ROOT = Path(__file__).parents[2]
CONTROL = ROOT / "tests" / "data" / "controls" / "register-in-set-order.diff"
CAMPAIGN = (
    *("--masters", "2", "--slaves", "1,1", "--name-servers", "3", "--time", "5"),
    *("--faults", "kill,power-cut,partition-one,pause,client-crash"),
)


def digests(folder: Path, hash_seed: str, *options: str, ballast: int = 0) -> dict[int, str]:
    """Run two seeds in a fresh interpreter whose imports come from `folder` first, then from the project.

    `ballast` bytes of environment move everything in memory.
    """
    out = folder / "out.jsonl"
    command = [sys.executable, "-m", "staticfire", "hunt", "--seeds", "1-2", "--jobs", "1"]
    environment = {
        "PATH": os.environ["PATH"],
        "PYTHONPATH": str(ROOT),
        "PYTHONHASHSEED": hash_seed,
        "BALLAST": "x" * ballast,
    }
    done = subprocess.run(
        [*command, *CAMPAIGN, "--out", str(out), *options],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=120,
    )
    assert done.returncode in (0, 2), done.stdout + done.stderr  # 2: too short to prove anything
    rows = [orjson.loads(line) for line in out.read_bytes().splitlines()]
    return {row["seed"]: row["digest"] for row in rows}


def test_two_processes_agree_about_a_campaign(tmp_path: Path) -> None:
    first = digests(tmp_path, "1")
    second = digests(tmp_path, "987654", "--reverse", ballast=3000)
    assert first == second
    assert len(set(first.values())) == 2


@pytest.fixture
def folder_with_control(tmp_path: Path) -> Path:
    """A folder whose system under test iterates a set of text."""
    package = tmp_path / "staticfire"
    package.mkdir()
    shutil.copy(ROOT / "staticfire" / "__init__.py", package)
    ignore = shutil.ignore_patterns("__pycache__")
    shutil.copytree(ROOT / SYSTEM, package / SYSTEM, ignore=ignore)
    apply_diff(CONTROL.read_text(encoding="utf-8"), package)
    return tmp_path


def test_a_broker_that_iterates_a_set_of_text_is_seen(folder_with_control: Path) -> None:
    first = digests(folder_with_control, "1")
    assert digests(folder_with_control, "1") == first
    assert digests(folder_with_control, "987654") != first
