"""Minimal plans made by hand, and the results of `shrink` for the same planted bugs.

`tests/data/minima/` holds the campaigns made by hand, `tests/data/shrunk/` those that `shrink` has written.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.campaign.file import load_options
from tests.harness.cli.conftest import Staticfire
from tests.support.sample import sample_of

DATA = Path(__file__).parents[2] / "data"
NAMES = sorted(path.stem for path in (DATA / "minima").glob("*.toml"))


def size(path: Path) -> int:
    options = load_options(str(path))
    return len(options["plan"]) + len(options["ops"])


def test_there_are_ten() -> None:
    assert len(NAMES) == 10
    assert sorted(path.stem for path in (DATA / "shrunk").glob("*.toml")) == NAMES


@pytest.mark.parametrize("name", NAMES)
def test_what_was_shrunk_is_at_most_half_as_large_again(name: str) -> None:
    minimum = size(DATA / f"minima/{name}.toml")
    assert size(DATA / f"shrunk/{name}.toml") <= 1.5 * minimum


@pytest.mark.slow
@pytest.mark.parametrize("folder", ["minima", "shrunk"])
@pytest.mark.parametrize("name", sample_of(NAMES, 2))
def test_each_fails_with_its_bug_alone(
    name: str, folder: str, staticfire: Staticfire, tmp_path: Path
) -> None:
    campaign = DATA / folder / f"{name}.toml"
    planted = staticfire("run", "--campaign", campaign, "--defect", name, "--runs", tmp_path)
    sound = staticfire("run", "--campaign", campaign, "--defect", "", "--runs", tmp_path)
    assert (planted.status, sound.status) == (1, 0)
