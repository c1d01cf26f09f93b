"""The head of a report: its verdict in words, the selected cases, versions and date."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

from staticfire.harness.conformance.clause import BINDING
from staticfire.harness.conformance.result import Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.version import versions

CONFORMS, BREAKS, UNPROVEN, BROKEN_SUITE = "conforms", "does not conform", "unproven", "error"
SENTENCES = {
    CONFORMS: "Every MUST and SHOULD that ran is kept.",
    BREAKS: "A MUST or a SHOULD is not kept.",
    UNPROVEN: "Too few cases ran to prove anything.",
    BROKEN_SUITE: "The suite failed by itself, so nothing is proven.",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class About:
    """The head of a report. Fields that an earlier version did not record are empty."""

    profile: str = ""
    command: str = ""  # repeats the run
    written: str = ""  # such as "2026-11-20 10:15 UTC"
    versions: Mapping[str, str] = field(default_factory=dict)  # of Staticfire and Python

    @property
    def version_text(self) -> str:
        """Return the versions in one line; empty if none was recorded."""
        return ", ".join(f"{name} {value}" for name, value in self.versions.items())


def about_now(profile: str, command: str) -> About:
    """Return the head of a report written now."""
    written = datetime.now(UTC).strftime("%Y-%m-%d %H:%M UTC")
    return About(profile=profile, command=command, written=written, versions=versions())


def verdict_of(result: SuiteResult) -> str:
    """Return one of the keys of SENTENCES. The exit status of `staticfire conform` follows the same order."""
    cases = [(one.clause.level, one.outcome) for one in result.results]
    return verdict_from(cases, floor=result.floor, is_stopped=bool(result.stopped))


def verdict_from(cases: Sequence[tuple[str, str]], *, floor: int, is_stopped: bool) -> str:
    """Return the verdict from the level and outcome of each case. `floor` is the least number of cases that ran."""
    if any(outcome == Outcome.ERROR for _, outcome in cases):
        return BROKEN_SUITE
    if any(outcome == Outcome.FAILED and level in BINDING for level, outcome in cases):
        return BREAKS
    ran = sum(outcome != Outcome.NOT_RUN for _, outcome in cases)
    return UNPROVEN if is_stopped or ran < floor else CONFORMS
