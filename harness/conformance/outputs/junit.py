"""The result as JUnit XML for CI systems. Control characters, which XML cannot hold, are escaped."""

from __future__ import annotations

from xml.etree.ElementTree import Element, SubElement, tostring

from staticfire.harness.conformance.result import CaseResult, Outcome
from staticfire.harness.conformance.sites.suite import SuiteResult
from staticfire.harness.truncated_repr import printable

_TAGS = {
    Outcome.FAILED: "failure",
    Outcome.ERROR: "error",
    Outcome.NOT_RUN: "skipped",
    Outcome.EXPECTED: "skipped",
    Outcome.QUIRK: "skipped",
}


def junit_xml(result: SuiteResult, *, command: str) -> bytes:
    """Return one suite. A case that did not run is skipped with its reason, so it is counted and not green."""
    counts = result.counts()
    suite = Element(
        "testsuite",
        name=printable(f"RocketMQ conformance: {result.target}"),
        tests=str(len(result.results)),
        failures=str(counts[Outcome.FAILED]),
        errors=str(counts[Outcome.ERROR]),
        skipped=str(sum(counts[one] for one, tag in _TAGS.items() if tag == "skipped")),
        time=f"{sum(one.took_s for one in result.results):.3f}",
    )
    for one in result.results:
        _add(suite, one, command)
    suites = Element("testsuites")
    suites.append(suite)
    text: str = tostring(suites, encoding="unicode")
    return f'<?xml version="1.0" encoding="utf-8"?>\n{text}\n'.encode()


def _add(suite: Element, result: CaseResult, command: str) -> None:
    clause = result.clause
    element = SubElement(
        suite,
        "testcase",
        classname=f"RMQ.{clause.area_id}",
        name=f"{clause.id} {clause.title}",
        time=f"{result.took_s:.3f}",
    )
    tag = _TAGS.get(result.outcome)
    if tag is None:
        return
    problem = SubElement(element, tag, message=_lines(result.reason), type=clause.level.value)
    problem.text = _lines(
        f"{clause.text}\nSource: {clause.source}\nRepeat: {command} --select {clause.id}"
    )
    if result.wire_log:
        SubElement(element, "system-out").text = "\n".join(map(printable, result.wire_log))


def _lines(text: str) -> str:
    return "\n".join(map(printable, text.split("\n")))
