"""Reads all details of a run: its verdict checker by checker, findings, faults, settings and files."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from staticfire.harness.serve.documents import read_campaign, read_faults, read_verdict
from staticfire.harness.serve.folder import Entry, NotServed, ServedFolder
from staticfire.harness.serve.loose import counts, rows, table, tables, text
from staticfire.harness.serve.summaries import RunSummary

FINDINGS_MAX = 20  # of one checker
FILES_MAX = 500
REPORT = "report.html"


@dataclass(frozen=True, slots=True, kw_only=True)
class CheckerPart:
    """The answer of one checker. `word` is ok, violated or unknown."""

    name: str
    word: str
    reason: str
    counts: Mapping[str, int]
    findings: Sequence[Mapping[str, object]]
    left_out: int  # findings that are not shown


@dataclass(frozen=True, slots=True, kw_only=True)
class RunDetails:
    """The content of the page of a run."""

    summary: RunSummary
    checkers: Sequence[CheckerPart]
    faults: Sequence[Mapping[str, object]]
    settings: Mapping[str, object]
    diagnoses: Sequence[str]
    caveats: Sequence[str]
    coverage: Mapping[str, int]
    not_applicable: Sequence[str]
    files: Sequence[Entry]
    nodes: Sequence[str]
    digest: str
    python: str


def details_of(folder: ServedFolder, summary: RunSummary) -> RunDetails:
    """Read a run. Raises NotServed if it does not exist any more."""
    path = (summary.name,)
    document, _ = read_verdict(folder, path)
    verdict = table(document.get("verdict"))
    checkers = [_checker(one) for one in tables(verdict.get("verdicts"))]
    entries = folder.entries(path)
    return RunDetails(
        summary=summary,
        checkers=sorted(checkers, key=lambda one: ("violated", "unknown", "ok").index(one.word)),
        faults=read_faults(folder, path),
        settings=read_campaign(folder, path),
        diagnoses=_texts(document.get("diagnoses")),
        caveats=(*_texts(verdict.get("below_floors")), *_texts(verdict.get("caveats"))),
        coverage=counts(verdict.get("coverage")),
        not_applicable=_texts(verdict.get("not_applicable")),
        files=[entry for entry in entries if not entry.is_folder][:FILES_MAX],
        nodes=_nodes(folder, path),
        digest=text(document.get("digest")),
        python=text(table(document.get("versions")).get("python")),
    )


def _checker(checker: Mapping[str, object]) -> CheckerPart:
    valid = checker.get("valid")
    findings = tables(checker.get("findings"))
    word = "ok" if valid is True else "violated" if valid is False else "unknown"
    return CheckerPart(
        name=text(checker.get("checker")),
        word=word,
        reason=text(checker.get("reason")),
        counts=counts(checker.get("counts")),
        findings=findings[:FINDINGS_MAX],
        left_out=max(0, len(findings) - FINDINGS_MAX),
    )


def _texts(value: object) -> list[str]:
    return [text(one) for one in rows(value) if text(one)]


def _nodes(folder: ServedFolder, path: Sequence[str]) -> list[str]:
    try:
        return [one.name for one in folder.entries((*path, "nodes")) if one.is_folder]
    except NotServed:
        return []
