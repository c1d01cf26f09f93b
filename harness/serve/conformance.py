"""Reports of `staticfire conform --out` in the folder: verdict on top, failures first, by area."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.harness.serve.documents import json_object
from staticfire.harness.serve.folder import NotServed, ServedFolder
from staticfire.harness.serve.loose import counts, table, tables, text

REPORT = "conformance.json"
BYTES_MAX = 32 << 20
FOLDERS_MAX = 2000
# Outcomes in the order in which a page lists them.
ORDER = ("failed", "error", "expected failure", "quirk", "not run", "passed")
BAD = ("failed", "error")


@dataclass(frozen=True, slots=True, kw_only=True)
class Report:
    """A report. `cases` are in the order of their outcome, then of their area."""

    path: tuple[str, ...]  # of its folder
    target: str
    profile: str
    command: str
    stopped: str
    changed_ns: int
    counts: Mapping[str, int]
    cases: Sequence[Mapping[str, Any]]

    @property
    def is_conforming(self) -> bool:
        """Whether no case failed, and the suite was not stopped."""
        return not self.stopped and not any(self.counts.get(outcome) for outcome in BAD)


def reports(folder: ServedFolder) -> list[Report]:
    """All reports: in the folder itself, and in those below it. Raises NotServed."""
    names = [entry.name for entry in folder.entries() if entry.is_folder][:FOLDERS_MAX]
    found = (_read(folder, path) for path in ((), *((name,) for name in names)))
    return [report for report in found if report is not None]


def report_at(folder: ServedFolder, path: Sequence[str]) -> Report:
    """Raises NotServed if there is none."""
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
