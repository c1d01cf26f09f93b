"""Reports of the conformance suite as pages: the same content as the suite's own report."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from staticfire.harness.conformance.clause import Level, contract
from staticfire.harness.conformance.outputs.about import (
    BREAKS,
    BROKEN_SUITE,
    CONFORMS,
    UNPROVEN,
    verdict_of,
)
from staticfire.harness.conformance.outputs.files import write_outputs
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.serve.conformance import contract_areas, contract_parts, report_at
from staticfire.harness.serve.folder import ServedFolder

PASSED, FAILED, NOT_RUN = Outcome.PASSED, Outcome.FAILED, Outcome.NOT_RUN


def suite(*cases: tuple[Level, Outcome], floor: int = 1, stopped: str = "") -> SuiteResult:
    of_level = {
        level: [one for one in contract().values() if one.level is level] for level in Level
    }
    results = tuple(
        CaseResult(clause=of_level[level].pop(), outcome=outcome, reason="r")
        for level, outcome in cases
    )
    return SuiteResult(target="t", results=results, floor=floor, stopped=stopped)


@pytest.mark.parametrize(
    ("result", "verdict"),
    [
        (suite((Level.MUST, PASSED)), CONFORMS),
        (suite((Level.MUST, FAILED), (Level.MUST, PASSED)), BREAKS),
        (suite((Level.SHOULD, FAILED)), BREAKS),
        (suite((Level.MUST, PASSED), (Level.MAY, FAILED)), CONFORMS),
        (suite((Level.MUST, NOT_RUN)), UNPROVEN),
        (suite((Level.MUST, PASSED), floor=2), UNPROVEN),
        (suite((Level.MUST, PASSED), stopped="it went away"), UNPROVEN),
        (suite((Level.MUST, FAILED), stopped="it went away"), BREAKS),
        (suite((Level.MUST, Outcome.ERROR), (Level.MUST, FAILED)), BROKEN_SUITE),
    ],
)
def test_the_verdict_is_that_of_the_suite(
    result: SuiteResult, verdict: str, tmp_path: Path
) -> None:
    write_outputs(result, tmp_path / "report", profile="p", command="c")
    report = report_at(ServedFolder(tmp_path), ("report",))
    assert report.verdict == verdict_of(result) == verdict
    assert json.loads((tmp_path / "report/conformance.json").read_text())["verdict"] == verdict
    assert report.written.endswith(" UTC")
    assert report.versions.startswith("staticfire ")


def test_a_report_of_an_earlier_version_has_no_date_and_no_versions(tmp_path: Path) -> None:
    write_outputs(suite((Level.MUST, PASSED)), tmp_path / "report", profile="p", command="c")
    path = tmp_path / "report" / "conformance.json"
    document = json.loads(path.read_text())
    for name in ("written", "versions", "verdict"):
        del document[name]
    path.write_text(json.dumps(document))
    report = report_at(ServedFolder(tmp_path), ("report",))
    assert (report.verdict, report.written, report.versions) == (CONFORMS, "", "")


def test_clauses_are_found_by_area_and_words() -> None:
    every = [clause.id for part in contract_parts("", ()) for clause, _ in part.clauses]
    assert sorted(every) == sorted(contract())
    area = contract_areas()[0]
    assert [part.area for part in contract_parts(area, ())] == [area]
    [part] = contract_parts("", ("rmq-txn-09",))
    assert [clause.id for clause, _ in part.clauses] == ["RMQ-TXN-09"]
