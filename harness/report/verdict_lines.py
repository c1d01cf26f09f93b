"""A verdict in words: the answer first, then what proves it, then what could not be answered."""

from __future__ import annotations

from checkers.compose import RunVerdict
from checkers.verdict import Verdict, explain

WORDS = {True: "VALID", False: "INVALID", "unknown": "UNKNOWN"}
FINDINGS_MAX = 5


def verdict_lines(verdict: RunVerdict) -> list[str]:
    """The verdict, most important line first: a reader may cut it anywhere."""
    lines = [f"verdict   {WORDS[verdict.valid]}"]
    lines += [f"  {reason}" for reason in verdict.below_floors]
    violations = [f for f in verdict.findings() if f.judgement == "violation"]
    for finding in violations[:FINDINGS_MAX]:
        lines += explain(finding).splitlines()
    lines += [_checker_line(v) for v in verdict.verdicts if v.valid is False]
    lines += [
        f"  {v.checker}: unknown, {v.reason}" for v in verdict.verdicts if v.valid == "unknown"
    ]
    if verdict.valid is True:
        lines.append("  " + ", ".join(_proven(v) for v in verdict.verdicts))
    return lines


def _checker_line(verdict: Verdict) -> str:
    counts = ", ".join(f"{name} {count}" for name, count in verdict.counts.items() if count)
    return f"  {verdict.checker}: violated ({counts})"


def _proven(verdict: Verdict) -> str:
    allowed = {name: count for name, count in verdict.counts.items() if count}
    notes = ", ".join(f"{name} {count}" for name, count in allowed.items())
    return f"{verdict.checker} ok" + (f" ({notes})" if notes else "")
