"""The conformance suite as tests, one per case: see `staticfire.harness.plugin.pytest_plugin`."""

from __future__ import annotations

import pytest

from staticfire.harness.conformance.case import cases
from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.site import Site
from staticfire.harness.conformance.sites.suite import run_suite


@pytest.mark.parametrize("clause_id", list(cases()))
def test_clause(clause_id: str, rocketmq_site: Site) -> None:
    suite = run_suite(rocketmq_site, [cases()[clause_id].clause])
    result = suite.results[0]
    if suite.stopped and result.outcome is Outcome.NOT_RUN:
        pytest.fail(suite.stopped, pytrace=False)
    if result.outcome is Outcome.NOT_RUN:
        pytest.skip(result.reason)
    if result.outcome is Outcome.QUIRK:
        pytest.xfail(result.reason)
    if result.outcome is not Outcome.PASSED:
        pytest.fail(_notified(result), pytrace=False)


def _notified(result: CaseResult) -> str:
    clause = result.clause
    head = f"{clause.id} ({clause.level}) {clause.title}: {result.reason}"
    return "\n".join([head, clause.text, f"source: {clause.source}", *result.wire_log])
