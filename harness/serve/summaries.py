"""Summaries of runs, which the table of runs shows, filters and sorts."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from staticfire.harness.serve.documents import read_campaign, read_verdict
from staticfire.harness.serve.folder import Entry, NotServed, ServedFolder
from staticfire.harness.serve.loose import counts, number, rows, table, tables, text

CACHED_MAX = 20_000  # runs
VALID, INVALID, UNKNOWN = "valid", "invalid", "unknown"
UNFINISHED, DAMAGED = "unfinished", "damaged"
STATES = (INVALID, UNKNOWN, DAMAGED, UNFINISHED, VALID)  # the worst first
_RUN_FILES = ("campaign.toml", "history.jsonl", "history.parquet", "verdict.json")


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSummary:
    """The summary of a run. `version` is the Staticfire that recorded it; None and empty text: unknown."""

    name: str
    state: str
    workload: str = ""
    environment: str = ""
    target: str = ""
    mode: str = ""
    seed: int | None = None
    version: str = ""
    anomalies: Mapping[str, int] = field(default_factory=dict)
    acked: int | None = None
    delivered: int | None = None
    faults: int | None = None  # that bit
    run_s: float | None = None
    defect: str = ""
    problem: str = ""

    @property
    def haystack(self) -> str:
        """The text in which searches look."""
        parts = (self.name, self.workload, self.target, self.defect, self.version, self.state)
        return "\n".join((*parts, *self.anomalies)).casefold()


SORTS: Mapping[str, Callable[[RunSummary], object]] = {
    "name": lambda run: run.name,
    "verdict": lambda run: STATES.index(run.state),
    "workload": lambda run: run.workload,
    "seed": lambda run: -1 if run.seed is None else run.seed,
    "acked": lambda run: -1 if run.acked is None else run.acked,
    "delivered": lambda run: -1 if run.delivered is None else run.delivered,
    "faults": lambda run: -1 if run.faults is None else run.faults,
    "anomalies": lambda run: sum(run.anomalies.values()),
    "version": lambda run: run.version,
    "seconds": lambda run: -1.0 if run.run_s is None else run.run_s,
}


class Summaries:
    """Summaries of the runs of a folder. A run is read again only if one of its documents changed."""

    def __init__(self, folder: ServedFolder) -> None:
        self._folder = folder
        self._kept: dict[str, tuple[object, RunSummary]] = {}
        self._lock = threading.Lock()

    def all(self) -> list[RunSummary]:
        """Return every run, sorted by name. Raises NotServed if the folder does not exist any more."""
        names = [entry.name for entry in self._folder.entries() if entry.is_folder]
        found = [self.of(name) for name in names]
        return [run for run in found if run is not None]

    def of(self, name: str) -> RunSummary | None:
        """Return one run; None for a folder without one."""
        try:
            entries = {one.name: one for one in self._folder.entries((name,))}
        except NotServed:
            return None
        if not any(file in entries for file in _RUN_FILES):
            return None
        mark = tuple(map(_mark, (entries.get("campaign.toml"), entries.get("verdict.json"))))
        with self._lock:
            kept = self._kept.get(name)
        if kept is not None and kept[0] == mark:
            return kept[1]
        summary = summary_of(self._folder, name)
        with self._lock:
            if len(self._kept) >= CACHED_MAX:
                self._kept.clear()
            self._kept[name] = mark, summary
        return summary


def _mark(entry: Entry | None) -> object:
    return None if entry is None else (entry.size, entry.changed_ns, entry.number)


def summary_of(folder: ServedFolder, name: str) -> RunSummary:
    """Read one run."""
    campaign = read_campaign(folder, (name,))
    document, problem = read_verdict(folder, (name,))
    verdict, facts = table(document.get("verdict")), table(document.get("facts"))
    counted = counts(verdict.get("counts"))
    seed = number(campaign.get("seed"))
    return RunSummary(
        name=name,
        state=DAMAGED if problem else state_of(document),
        workload=text(campaign.get("workload")),
        environment=text(campaign.get("environment")),
        target=text(campaign.get("target")),
        mode=text(facts.get("mode")) or text(campaign.get("mode")),
        seed=None if seed is None else int(seed),
        version=version_of(document),
        anomalies=violations_of(verdict),
        acked=counted.get("acked"),
        delivered=counted.get("deliveries"),
        faults=len(rows(verdict.get("faults_bitten"))) if verdict else None,
        run_s=number(document.get("run_s")),
        defect=text(campaign.get("defect")),
        problem=problem,
    )


def state_of(document: Mapping[str, object]) -> str:
    """Return the verdict as a word."""
    if not document:
        return UNFINISHED
    valid = table(document.get("verdict")).get("valid")
    if valid is True:
        return VALID
    return INVALID if valid is False else UNKNOWN


def version_of(document: Mapping[str, object]) -> str:
    """Return version and commit of the Staticfire that recorded a run."""
    versions = table(document.get("versions"))
    parts = (text(versions.get("staticfire")), text(versions.get("commit")))
    return " ".join(part for part in parts if part)


def violations_of(verdict: Mapping[str, object]) -> dict[str, int]:
    """Return violations by anomaly: the checker's counts under the anomalies' names, or else the findings."""
    found: dict[str, int] = {}
    for checker in tables(verdict.get("verdicts")):
        counted = counts(checker.get("counts"))
        for finding in tables(checker.get("findings")):
            anomaly = text(finding.get("anomaly"))
            if finding.get("judgement") == "violation" and anomaly:
                found.setdefault(anomaly, counted.get(anomaly, 1))
    return found


@dataclass(frozen=True, slots=True, kw_only=True)
class Filter:
    """The filter and the order of a table of runs. Empty text fits everything."""

    query: str = ""
    workload: str = ""
    state: str = ""
    version: str = ""
    sort: str = "name"
    is_descending: bool = True

    def apply(self, runs: Sequence[RunSummary]) -> list[RunSummary]:
        """Return the runs that fit, in order."""
        words = self.query.casefold().split()
        found = [
            run
            for run in runs
            if self.workload in ("", run.workload)
            and self.state in ("", run.state)
            and self.version in ("", run.version)
            and all(word in run.haystack for word in words)
        ]
        key = SORTS.get(self.sort, SORTS["name"])
        return sorted(found, key=lambda run: (key(run), run.name), reverse=self.is_descending)
