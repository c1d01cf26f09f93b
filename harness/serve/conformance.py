"""Reads reports of `staticfire conform --out` in the folder, and the contract."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.harness.conformance.case import cases
from staticfire.harness.conformance.clause import Clause, contract
from staticfire.harness.conformance.outputs.about import (
    BREAKS,
    BROKEN_SUITE,
    CONFORMS,
    UNPROVEN,
    verdict_from,
)
from staticfire.harness.serve.documents import json_object
from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.loose import counts, number, table, tables, text

REPORT = "conformance.json"
BYTES_MAX = 32 << 20
FOLDERS_MAX = 2000
# Outcomes in the order in which a page lists them.
ORDER = ("failed", "error", "expected failure", "quirk", "not run", "passed")
STATES = {CONFORMS: "valid", BREAKS: "invalid", UNPROVEN: "unknown", BROKEN_SUITE: "damaged"}


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report. `cases` are in the order of their outcome, then of their area."""

    path: tuple[str, ...]  # of its folder
    target: str
    profile: str
    command: str
    stopped: str
    written: str  # "" in reports of earlier versions, for which the time of the file counts
    versions: str
    floor: int  # cases that must have run
    changed_ns: int
    counts: Mapping[str, int]
    cases: Sequence[Mapping[str, Any]]

    @property
    def verdict(self) -> str:
        """The verdict in the words of `staticfire conform`."""
        cases = [(case["level"], case["outcome"]) for case in self.cases]
        return verdict_from(cases, floor=self.floor, is_stopped=bool(self.stopped))

    @property
    def state(self) -> str:
        """The verdict as the word that decides its colour."""
        return STATES[self.verdict]

    @property
    def areas(self) -> list[str]:
        """The areas of the cases, sorted by name."""
        return sorted({case["area"] for case in self.cases} - {""})


def reports(folder: ServedFolder) -> list[Report]:
    """Return all reports, in the folder itself and in those below it. Raises NotServed."""
    names = [entry.name for entry in folder.entries() if entry.is_folder][:FOLDERS_MAX]
    found = (_read(folder, path) for path in ((), *((name,) for name in names)))
    return [report for report in found if report is not None]


def report_at(folder: ServedFolder, path: Sequence[str]) -> Report:
    """Return the report at a path. Raises NotServed if there is none."""
    report = _read(folder, tuple(path))
    if report is None:
        raise NotServed(f"no {REPORT} that can be read")
    return report


def _read(folder: ServedFolder, path: tuple[str, ...]) -> Report | None:
    name = (*path, REPORT)
    try:
        changed_ns = folder.entry(name).changed_ns
        document = json_object(folder.read(name, BYTES_MAX))
    except NotServed:
        return None
    if document.get("schema_version") != 1:
        return None
    cases = sorted(
        (_case(one) for one in tables(document.get("cases"))),
        key=lambda case: (_rank(case["outcome"]), case["area"], case["id"]),
    )
    return Report(
        path=path,
        target=text(document.get("target")),
        profile=text(document.get("profile")),
        command=text(document.get("command")),
        stopped=text(document.get("stopped")),
        written=text(document.get("written")),
        versions=", ".join(
            f"{name} {text(of)}" for name, of in table(document.get("versions")).items()
        ),
        floor=max(1, int(number(document.get("floor")) or 1)),
        changed_ns=changed_ns,
        counts=counts(table(document.get("counts"))),
        cases=cases,
    )


def _case(case: Mapping[str, Any]) -> dict[str, Any]:
    names = ("id", "area", "level", "title", "outcome", "reason", "clause", "source", "repeat")
    log = case.get("wire_log")
    lines = [line for line in log if isinstance(line, str)] if isinstance(log, list) else []
    return {**{name: text(case.get(name)) for name in names}, "wire_log": lines}


def _rank(outcome: str) -> int:
    return ORDER.index(outcome) if outcome in ORDER else len(ORDER)


@dataclass(frozen=True, slots=True, kw_only=True)
class ContractPart:
    """The clauses of one area, each with a mark whether a case tries it."""

    area: str
    clauses: Sequence[tuple[Clause, bool]]


def contract_parts(area: str, words: Sequence[str]) -> list[ContractPart]:
    """Return the clauses of an area ("" for all) that contain all the words, by area."""
    found: dict[str, list[tuple[Clause, bool]]] = {}
    for clause in contract().values():
        haystack = f"{clause.id}\n{clause.title}\n{clause.text}".casefold()
        if area in ("", clause.area) and all(word in haystack for word in words):
            found.setdefault(clause.area, []).append((clause, clause.id in cases()))
    return [ContractPart(area=name, clauses=clauses) for name, clauses in found.items()]


def contract_areas() -> list[str]:
    """Return all areas, in the order of the contract."""
    return list(dict.fromkeys(clause.area for clause in contract().values()))
