"""The result of one case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from staticfire.harness.conformance.clause import Clause


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    QUIRK = "quirk"  # Java 4.9.8 breaks the clause, too
    EXPECTED = "expected failure"  # the file of expectations lists it
    ERROR = "error"  # of the suite itself
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of a case, with its evidence. Times are seconds of the target's clock."""

    clause: Clause
    outcome: Outcome
    reason: str = ""  # one sentence unless passed
    took_s: float = 0.0
    wire_log: tuple[str, ...] = ()  # only if the case did not pass
