"""The result of one case."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from staticfire.harness.conformance.clause import Clause


class Outcome(StrEnum):
    PASSED = "passed"
    FAILED = "failed"
    QUIRK = "quirk"  # Java 4.9.8 does not keep the clause either
    EXPECTED = "expected failure"  # it is in the file of expectations
    ERROR = "error"  # of the suite itself
    NOT_RUN = "not run"


@dataclass(frozen=True, slots=True, kw_only=True)
class CaseResult:
    """The outcome of a case, with its evidence. Seconds are those of the clock where the target runs."""

    clause: Clause
    outcome: Outcome
    reason: str = ""  # one sentence unless passed
    took_s: float = 0.0
    wire_log: tuple[str, ...] = ()  # of a case that did not pass
