"""Results of mutants: the entries that the file allows for a survivor."""

from __future__ import annotations

from pathlib import Path

import pytest

from staticfire.harness.museum import mutants
from staticfire.harness.museum.mutants import (
    EQUIVALENT_SEEDS,
    HUNTS,
    MORE_HUNTS,
    Trial,
    Trials,
    are_found,
    forget_gone,
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


FOUND = Trial(name="f", kind="constant", change=[], found_by="conformance", reason="RMQ-1")
SURVIVOR = Trial(name="s", kind="constant", change=[])
TOO_LONG = Trial(name="t", kind="constant", change=[], reason="a step took more than 60 CPU s")


def test_a_mutant_that_the_system_no_longer_has_is_forgotten() -> None:
    trials = Trials(clean=[], trials=[FOUND, SURVIVOR])
    assert forget_gone(trials, {"f"})
    assert trials.trials == [FOUND]
    assert not forget_gone(trials, {"f", "t"})


@pytest.mark.parametrize(
    ("trials", "is_found", "tried"),
    [
        ([FOUND, FOUND, SURVIVOR], True, 2),
        ([FOUND, SURVIVOR, FOUND], False, 2),
        ([TOO_LONG, FOUND, TOO_LONG, FOUND], True, 4),
        ([FOUND, TOO_LONG], False, 2),  # too few were judged
    ],
)
def test_a_sample_is_found_if_each_judged_mutant_is(
    trials: list[Trial],
    is_found: bool,
    tried: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    left = iter(trials)
    monkeypatch.setattr(mutants, "try_mutation", lambda _mutation, _clean: next(left))
    mutations = [None] * len(trials)
    assert are_found(mutations, 2, []) is is_found  # type: ignore[arg-type]
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == tried
    assert all(("not judged" in line) == line.startswith("t:") for line in lines)
