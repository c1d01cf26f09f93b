"""Verdicts as JUnit XML: a case a checker, or a case a run. Control characters, which XML cannot hold, are escapes.

An invalid verdict has failures, an unknown one has errors and no failure, a valid one has neither. So a CI system gets
from the file the same result as from the exit status.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal
from xml.etree.ElementTree import Element, SubElement, tostring

from staticfire.checkers.guarantees.verdict import Verdict, explain
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.truncated_repr import printable

Outcome = Literal["passed", "failure", "error", "skipped"]
TEXT_MAX = 20_000  # characters of one case


@dataclass(frozen=True, slots=True, kw_only=True)
class Case:
    """One test case. `time_s` is wall time; 0 where it was not measured for the case alone."""

    classname: str
    name: str
    outcome: Outcome
    message: str = ""
    text: str = ""
    time_s: float = 0.0


def junit_xml(name: str, cases: Sequence[Case], wall_s: float) -> bytes:
    """Return one suite that took `wall_s` seconds."""
    outcomes = [case.outcome for case in cases]
    suite = Element(
        "testsuite",
        name=printable(name),
        tests=str(len(cases)),
        failures=str(outcomes.count("failure")),
        errors=str(outcomes.count("error")),
        skipped=str(outcomes.count("skipped")),
        time=f"{wall_s:.3f}",
    )
    for case in cases:
        one = SubElement(
            suite,
            "testcase",
            classname=printable(case.classname),
            name=printable(case.name),
            time=f"{case.time_s:.3f}",
        )
        if case.outcome != "passed":
            problem = SubElement(one, case.outcome, message=_lines(case.message))
            problem.text = _lines(case.text)
    suites = Element("testsuites")
    suites.append(suite)
    text: str = tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def verdict_cases(verdict: RunVerdict, classname: str) -> list[Case]:
    """Return a case for each checker, and one for the evidence that the run must have."""
    cases = [_evidence(verdict, classname)]
    cases += [_checker(of, classname) for of in verdict.verdicts]
    cases += [
        Case(
            classname=classname,
            name=name,
            outcome="skipped",
            message="it has no question to this run",
        )
        for name in verdict.not_applicable
    ]
    return cases


def outcome_of(valid: object) -> Outcome:
    if valid is True:
        return "passed"
    return "failure" if valid is False else "error"


def _evidence(verdict: RunVerdict, classname: str) -> Case:
    is_enough = not verdict.below_floors
    return Case(
        classname=classname,
        name="evidence",
        # the verdict of an invalid run does not depend on it
        outcome="passed" if is_enough else "skipped" if verdict.valid is False else "error",
        message=verdict.below_floors[0] if verdict.below_floors else "",
        text="\n".join(verdict.below_floors),
    )


def _checker(verdict: Verdict, classname: str) -> Case:
    violations = [one for one in verdict.findings if one.judgement == "violation"]
    counts = ", ".join(f"{name} {count}" for name, count in verdict.counts.items() if count)
    return Case(
        classname=classname,
        name=verdict.checker,
        outcome=outcome_of(verdict.valid),
        message=(violations[0].detail if violations else verdict.reason) or counts,
        text="\n".join([*map(explain, violations), counts]),
    )


def _lines(text: str) -> str:
    return "\n".join(map(printable, text[:TEXT_MAX].split("\n")))
