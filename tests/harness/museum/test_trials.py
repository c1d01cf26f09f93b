"""Results of mutants: the entries that the file allows for a survivor."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.museum.mutants import (
    EQUIVALENT_SEEDS,
    HUNTS,
    MORE_HUNTS,
    Trial,
    Trials,
    read_trials,
    write_trials,
)


def written(path: Path, trial: Trial) -> Path:
    write_trials(Trials(clean=["d"], trials=[trial]), path)
    return path


def test_the_hunts_are_as_many_seeds_as_an_equivalent_mutant_needs() -> None:
    seeds = [seed for seed, _ in (*HUNTS, *MORE_HUNTS)]
    assert len(set(seeds)) == len(seeds) == EQUIVALENT_SEEDS


def test_trials_are_read_as_they_were_written(tmp_path: Path) -> None:
    trial = Trial(name="m.py:1:1 constant", kind="constant", change=["- 1", "+ 2"], hunts=12)
    read = read_trials(written(tmp_path / "mutants.json", trial))
    assert (read.clean, read.trials) == (["d"], [trial])


@pytest.mark.parametrize(
    ("found_by", "hunts", "differs", "is_taken"),
    [
        ("", EQUIVALENT_SEEDS, 0, True),
        ("", EQUIVALENT_SEEDS - 1, 0, False),
        ("", EQUIVALENT_SEEDS, 1, False),
        ("conformance", EQUIVALENT_SEEDS, 0, False),
    ],
)
def test_a_reason_alone_makes_no_mutant_equivalent(
    tmp_path: Path, found_by: str, hunts: int, differs: int, is_taken: bool
) -> None:
    trial = Trial(name="m.py:1:1 constant", kind="constant", change=[], equivalent="a bound")
    trial.found_by, trial.hunts, trial.differs = found_by, hunts, differs
    path = written(tmp_path / "mutants.json", trial)
    if is_taken:
        assert read_trials(path).trials == [trial]
    else:
        with pytest.raises(ValueError, match="allowed: 0 of 20 or more"):
            read_trials(path)
