"""Verdicts that are based on observations inside nodes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict

NOT_OBSERVED = "not observed"


def observed_verdict(
    checker: str, findings: Sequence[Finding], counts: Mapping[str, int], missing: str | None
) -> Verdict:
    """Make a verdict. If `missing` says what was not observed, the verdict is unknown, unless there are violations."""
    tally = Tally.of(findings, **counts)
    violated = any(finding.judgement is Judgement.VIOLATION for finding in findings)
    return Verdict(
        checker=checker,
        valid=False if violated else (True if missing is None else "unknown"),
        counts=tally.counts,
        findings=tally.findings,
        reason=missing,
    )
