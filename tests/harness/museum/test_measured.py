"""Figures of the museum: measuring resumes where it stopped, and reports what it found."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.hunt.breeding import GENERATION
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.museum import searches
from staticfire.harness.museum.__main__ import line_of, main, measure
from staticfire.harness.museum.measured import Measured, read_measured, write_measured
from staticfire.harness.museum.mutant_worker import finding
from staticfire.harness.museum.searches import Search, judge_without
from staticfire.harness.museum.worker import Breeding

NAME = "ack-before-fsync"


def row(**fields: Any) -> dict[str, Any]:
    return {"seed": 3, "workload": "queue", "valid": True, "cpu_s": 1.5} | fields


def invalid(**fields: Any) -> dict[str, Any]:
    return row(valid=False, anomalies=["lost"], checkers=["loss"], faults=["kill"], **fields)


def test_a_search_counts_seeds_until_one_is_invalid() -> None:
    search = Search(bound_cpu_s=10.0)
    search.take(row())
    search.take(row(valid="unknown", failed="OSError: no"))
    assert (search.seeds, search.cpu_s, search.failed, search.is_found) == (2, 3.0, 1, False)
    search.take(invalid(seed=4))
    assert (search.is_found, search.seed, search.checkers) == (True, 4, ["loss"])


def test_a_seed_that_is_invalid_without_the_bug_does_not_end_a_blind_search(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    clean = {19: False, 23: True}  # whether the clean system is valid
    seeds = iter(clean)
    asked = []

    def judged(seed: int, given: dict[str, Any]) -> dict[str, Any]:
        asked.append((seed, given))
        return row(valid=clean[seed])

    def rows_of(*_: object) -> list[dict[str, Any]]:
        return [invalid(seed=next(seeds))]

    monkeypatch.setattr(searches, "judged", judged)
    monkeypatch.setattr(searches, "rows_of", rows_of)
    search = Search(bound_cpu_s=10.0)
    measure(DEFECTS[NAME], search, "blind")
    assert (search.seed, search.off, search.seeds) == (23, "valid", 2)
    assert asked == [(seed, {"workload": "queue", "defect": ""}) for seed in clean]


def test_a_bred_campaign_is_run_again_without_the_bug(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[dict[str, Any]] = []

    def judged(_seed: int, given: dict[str, Any]) -> dict[str, Any]:
        asked.append(given)
        return row()

    bred = draw_campaign(7, {"workload": "retry", "defect": NAME})
    monkeypatch.setattr(searches, "judged", judged)
    search = Search(seed=9, workload="queue", campaign=bred.to_toml())
    assert judge_without(DEFECTS[NAME], search, "guided") == "valid"
    (given,) = asked
    assert draw_campaign(7, given) == replace(bred, defect="")


def test_a_guided_search_breeds_every_other_campaign_after_a_generation() -> None:
    breeding = Breeding()
    drawn = [draw_campaign(seed, {}) for seed in range(2 * GENERATION)]
    ran = []
    for campaign in drawn:
        ran.append(breeding.campaign(campaign))
        breeding.take(ran[-1], {"rolled a log file": 1 << len(ran)})
    is_bred = [one is not campaign for one, campaign in zip(ran, drawn, strict=True)]
    assert is_bred == [False] * GENERATION + [False, True] * (GENERATION // 2)


def test_seed_0_can_be_the_one() -> None:
    search = Search()
    search.take(invalid(seed=0))
    assert search.is_found


def test_figures_are_read_as_they_were_written(tmp_path: Path) -> None:
    measured = {"b": Measured(recipe=Search(seeds=2)), "a": Measured(blind=Search(seed=1))}
    path = tmp_path / "museum.json"
    write_measured(measured, path)
    assert read_measured(path) == measured
    assert read_measured(tmp_path / "none.json") == {}
    assert list(tmp_path.iterdir()) == [path]


def test_a_line_names_checkers_that_were_not_expected() -> None:
    search = Search(off="valid")
    search.take(invalid() | {"checkers": ["filters", "loss"]})
    assert "not expected: filters; off: valid" in line_of(DEFECTS[NAME], search)


def test_an_unknown_piece_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["no-such"]) == 254
    assert "NAME is no-such; allowed: those of `staticfire bugs`" in capsys.readouterr().err


def test_a_failure_of_the_harness_counts_only_if_it_names_a_node() -> None:
    assert finding(row()) == ""
    assert finding(row(valid="unknown", failed="ValueError: 3")) == ""
    assert finding(row(valid="unknown", failed="broker-a-0 ended")) == "broker-a-0 ended"
    assert finding(invalid()) == "loss"
