"""Formats a verdict as lines: the verdict first, then its proofs, then the reasons for unknown."""

from __future__ import annotations

from textwrap import wrap

from staticfire.checkers.guarantees.verdict import Finding, Verdict, explain
from staticfire.checkers.measures.recovery_times import NEVER_CAUGHT_UP, NEVER_RECOVERED
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.truncated_repr import printable

WORDS = {True: "VALID", False: "INVALID", "unknown": "UNKNOWN"}
FINDINGS_MAX = 5
WIDTH = 118
# The most serious anomalies first; others follow in the order of time.
MOST_SERIOUS = ("lost", "unseen", "log_hole", "phantom", "aborted_read", "corrupt")

# Findings that explain a situation in words. They may be violations or not.
DIAGNOSES = ("subscriptions_differ", "hot_key", "consumed_too_long")


def verdict_lines(verdict: RunVerdict) -> list[str]:
    """Return the lines of a verdict, the most important first, so that they may be cut anywhere."""
    mode = "" if verdict.mode == "hardened" else f", {verdict.mode} mode"
    lines = [f"verdict   {WORDS[verdict.valid]}{mode}"]
    lines += [f"  {reason}" for reason in verdict.below_floors]
    lines += [f"  note: {caveat}" for caveat in verdict.caveats]
    lines += diagnosis_lines(verdict)
    for finding in first_violations(verdict)[:FINDINGS_MAX]:
        lines += explain(finding).splitlines()
    lines += [_checker_line(v) for v in verdict.verdicts if v.valid is False]
    lines += [
        f"  {v.checker}: unknown, {v.reason}" for v in verdict.verdicts if v.valid == "unknown"
    ]
    if verdict.valid is True:
        proofs = ", ".join(_proven(v) for v in verdict.verdicts)
        lines += wrap(
            proofs, WIDTH, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False
        )
    return list(map(printable, lines))


def explanations(verdict: RunVerdict) -> list[str]:
    """Return explanations: the first finding of each explaining kind."""
    first: dict[str, Finding] = {}
    for finding in verdict.findings():
        if finding.anomaly in DIAGNOSES:
            first.setdefault(finding.anomaly, finding)
    return [finding.detail for finding in first.values()]


def diagnosis_lines(verdict: RunVerdict) -> list[str]:
    """Return the explanations for a terminal."""
    return [
        line
        for text in explanations(verdict)
        for line in wrap(
            f"diagnosis: {text}",
            WIDTH,
            initial_indent="  ",
            subsequent_indent="    ",
            break_on_hyphens=False,
        )
    ]


def first_violations(verdict: RunVerdict) -> list[Finding]:
    """Return the first violation of each anomaly with the count of all, the most serious anomaly first."""
    first: dict[str, Finding] = {}
    for finding in verdict.findings():
        if finding.judgement == "violation" and finding.anomaly not in DIAGNOSES:
            first.setdefault(finding.anomaly, finding)
    return sorted(first.values(), key=lambda finding: rank(finding.anomaly))


def rank(anomaly: str) -> int:
    """Return the rank of an anomaly; the most serious one has 0."""
    return MOST_SERIOUS.index(anomaly) if anomaly in MOST_SERIOUS else len(MOST_SERIOUS)


def _checker_line(verdict: Verdict) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in verdict.counts.items() if count)
    return f"  {verdict.checker}: violated ({counts})"


def _proven(verdict: Verdict) -> str:
    allowed = {name: count for name, count in verdict.counts.items() if count}
    notes = ", ".join(f"{name} {count}" for name, count in allowed.items())
    # Measured, not judged: a recovery that never ended has no duration.
    word = (
        "not ended" if not allowed.keys().isdisjoint((NEVER_RECOVERED, NEVER_CAUGHT_UP)) else "ok"
    )
    return f"{verdict.checker} {word}" + (f" ({notes})" if notes else "")
