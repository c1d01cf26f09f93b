"""Bugs that hunts found in our own cluster: each as a shrunk campaign, and its fix as a reverse diff.

NAME.toml is the campaign that `staticfire shrink` left, NAME.diff takes the fix back. A new one is made with
`shrink` on a run of the bug; README.md in this folder says what each was.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from staticfire.faults.defects.diffs import apply_diff
from staticfire.harness.campaign.file import load_options
from tests.support.reverted import FACE, reverted, staticfire_at

HERE = Path(__file__).parent
NAMES = sorted(path.stem for path in HERE.glob("*.toml"))
SOUND, BROKEN = 0, 1


def test_each_has_its_diff_and_a_word_on_it() -> None:
    assert NAMES
    assert sorted(path.stem for path in HERE.glob("*.diff")) == NAMES
    described = (HERE / "README.md").read_text()
    assert all(f"`{name}`" in described for name in NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_nothing_of_its_workload_is_drawn(name: str) -> None:
    options = load_options(str(HERE / f"{name}.toml"))
    assert "ops" in options
    assert options["plan"] is not None


@pytest.mark.parametrize("name", NAMES)
def test_its_diff_applies(name: str, tmp_path: Path) -> None:
    diff = (HERE / f"{name}.diff").read_text(encoding="utf-8")
    files = re.findall(r"^\+\+\+ b/(\S+)", diff, re.MULTILINE)
    assert files
    before = {}
    for file in files:
        before[file] = (FACE / file).read_text(encoding="utf-8")
        (tmp_path / file).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / file).write_text(before[file], encoding="utf-8")
    apply_diff(diff, tmp_path)
    assert all((tmp_path / file).read_text(encoding="utf-8") != before[file] for file in files)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_it_is_valid_now_and_invalid_without_the_fix(name: str, tmp_path: Path) -> None:
    command = ("run", "--campaign", HERE / f"{name}.toml", "--runs", tmp_path / "runs")
    broken = staticfire_at(reverted(HERE / f"{name}.diff", tmp_path / "system"), *command)
    assert broken.returncode == BROKEN, broken.stdout + broken.stderr
    sound = staticfire_at(tmp_path / "nothing", *command)
    assert sound.returncode == SOUND, sound.stdout + sound.stderr
