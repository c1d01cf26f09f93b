"""A second system behind the face: its runs are judged, its planted bug is found, and the core does not know it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest

from staticfire.faults.model.fault import PlannedFault
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.results.run_result import RunResult
from staticfire.harness.runs.real_runner import run_for_real
from staticfire.harness.runs.simulated_runner import run_simulated
from staticfire.harness.systems.registry import name_module

ROOT = Path(__file__).parents[3]
SOUND = "tests.support.toylog.system:TOYLOG"
FORGETFUL = "tests.support.toylog.system:FORGETFUL"
LINES_MAX = 600
REAL = {"environment": "processes", "time_s": 14.0, "faults": ("kill",), "acks_min": 50}
# That every one of them meets a server that has just written is one case in thousands.
KILLS = tuple(
    PlannedFault(
        fault_id=number,
        kind="kill",
        at_s=2.0 + 3.0 * number,
        duration_s=1.0,
        targets=("broker-a-0",),
    )
    for number in range(4)
)


name_module(SOUND)
name_module(FORGETFUL)


def simulated(system: str, seed: int) -> RunResult:
    return run_simulated(draw_campaign(seed, {"system": system, "time_s": 30.0, "acks_min": 50}))


def anomalies(result: RunResult) -> set[str]:
    return set(result.verdict.violations())


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_sound_server_is_valid_in_the_simulation(seed: int) -> None:
    result = simulated(SOUND, seed)
    assert result.verdict.valid is True, result.verdict
    assert any(fault.bitten for fault in result.faults)


@pytest.mark.slow
def test_the_bug_is_found_in_the_simulation() -> None:
    result = simulated(FORGETFUL, 0)
    assert result.verdict.valid is False
    assert "lost" in anomalies(result)


@pytest.mark.slow
def test_the_code_of_another_system_is_not_ranked(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from staticfire.harness.cli import status_of

    options = ["--system", FORGETFUL, "--seed", "0", "--time", "10", "--faults", "kill"]
    assert status_of(["run", *options, "--runs", str(tmp_path)]) == 1
    [run] = tmp_path.iterdir()
    capfd.readouterr()
    assert status_of(["explain", str(run), "--system", FORGETFUL, "--code"]) == 254
    [line] = capfd.readouterr().err.splitlines()
    assert f"is of the system {FORGETFUL!r}; --counterfactuals explains" in line


@pytest.mark.slow
def test_a_seed_repeats_itself() -> None:
    assert simulated(SOUND, 5).digest == simulated(SOUND, 5).digest


@pytest.mark.slow
@pytest.mark.parametrize(("system", "valid"), [(SOUND, True), (FORGETFUL, False)])
def test_both_in_processes(system: str, valid: bool) -> None:
    campaign = draw_campaign(2, {"system": system, **REAL})
    result = run_for_real(replace(campaign, plan=KILLS))
    assert result.verdict.valid is valid, (result.verdict.unanswered(), result.verdict.violations())
    if not valid:
        assert "lost" in anomalies(result)


def test_it_is_small_and_no_other_file_names_it() -> None:
    own = sorted((ROOT / "tests/support/toylog").glob("*.py"))
    assert sum(len(path.read_text().splitlines()) for path in own) <= LINES_MAX
    folders = ("staticfire", "harness", "faults", "checkers", "spark_analysis", "system_under_test")
    named = [
        path
        for folder in folders
        for path in (ROOT / folder).rglob("*.py")
        if "toylog" in path.read_text(encoding="utf-8").lower()
    ]
    assert named == []
