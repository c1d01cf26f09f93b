"""Every case passes on our hardened cluster and fails on a mutant of it; faithful ones show documented quirks."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest

from harness.conformance.case import cases
from harness.conformance.clause import contract
from harness.conformance.result import Outcome
from harness.conformance.sites.simulated import SimulatedSite, run_in_world
from harness.conformance.suite import run_suite
from tests.conformance.mutants.mutant import MUTANTS, Mutant

for path in sorted((Path(__file__).parent / "mutants").glob("*.py")):
    importlib.import_module(f"tests.conformance.mutants.{path.stem}")

# Clauses that no mutant breaks, and why: a case that was never seen to fail may be unable to.
UNPROVEN: dict[str, str] = {}


@pytest.mark.parametrize("clause_id", cases())
def test_hardened_cluster_keeps_the_clause(clause_id: str) -> None:
    result = run_suite(SimulatedSite(), [contract()[clause_id]]).results[0]

    assert result.outcome is Outcome.PASSED, f"{result.reason}\n" + "\n".join(result.wire_log)


@pytest.mark.parametrize("mutant", MUTANTS, ids=lambda mutant: f"{mutant.clause}-{mutant.name}")
def test_mutant_is_detected(mutant: Mutant, monkeypatch: pytest.MonkeyPatch) -> None:
    case, campaign = cases()[mutant.clause], SimulatedSite().campaign
    mutant.plant(monkeypatch)

    result = run_in_world(case, campaign)

    assert result.outcome is Outcome.FAILED, f"{result.outcome}: {result.reason}"


def test_every_case_is_proven_or_says_why_not() -> None:
    proven = {mutant.clause for mutant in MUTANTS}

    assert proven | UNPROVEN.keys() == cases().keys()
    assert not proven & UNPROVEN.keys()


@pytest.mark.parametrize("area", dict.fromkeys(one.area_id for one in contract().values()))
def test_faithful_cluster_shows_the_documented_quirks_and_no_others(area: str) -> None:
    clauses = [clause for clause in contract().values() if clause.area_id == area]

    result = run_suite(SimulatedSite(options={"mode": "faithful"}), clauses)

    shown = {one.clause.id for one in result.results if one.outcome is Outcome.QUIRK}
    assert shown == {clause.id for clause in clauses if clause.quirk}
    assert result.broken == ()
    assert result.errors == ()
