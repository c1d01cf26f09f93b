"""A page with a column a target and a row a case; what failed opens with its wire log. It loads nothing."""

from __future__ import annotations

from collections.abc import Sequence

from jinja2 import Environment, PackageLoader, StrictUndefined

from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult

_SIGNS = {
    Outcome.PASSED: "✓",
    Outcome.FAILED: "✗",
    Outcome.QUIRK: "~",
    Outcome.EXPECTED: "(✗)",
    Outcome.ERROR: "!",
    Outcome.NOT_RUN: "–",
}


def html_matrix(results: Sequence[SuiteResult]) -> str:
    """All targets side by side; a case that a target was not asked is empty there."""
    clauses = {one.clause.id: one.clause for result in results for one in result.results}
    environment = Environment(
        loader=PackageLoader("staticfire.harness.conformance.outputs"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    return environment.get_template("matrix.html").render(
        targets=[result.target for result in results],
        counts=[result.counts() for result in results],
        outcomes=list(Outcome),
        signs=_SIGNS,
        rows=[
            (clause, [_of(result, clause.id) for result in results]) for clause in clauses.values()
        ],
    )


def _of(result: SuiteResult, clause_id: str) -> object:
    return next((one for one in result.results if one.clause.id == clause_id), None)
