"""Reads the files of a recorded run for an export, one line at a time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import INT64_MAX, HistoryError, decode_observation
from staticfire.checkers.model.plain_files import plain_size
from staticfire.harness.histories.sources import Source, source_at
from staticfire.harness.run_folder.facts_file import facts_of_run
from staticfire.harness.run_folder.node_logs import NodeLine, json_lines, node_lines
from staticfire.harness.run_folder.run_folder import RunFolder

FAULT_BYTES_MAX = 64 << 20
Record = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Fault:
    """A planned fault. `struck_ns` is None if it never struck, `healed_ns` if it was still on at the end."""

    kind: str
    targets: tuple[str, ...]
    fired_ns: int | None
    struck_ns: int | None
    healed_ns: int | None
    bitten: bool
    evidence: str  # JSON


@dataclass(frozen=True, slots=True, kw_only=True)
class ShownFinding:
    """A finding of the verdict."""

    time_ns: int
    anomaly: str
    judgement: str
    key: str | None
    detail: str


@dataclass(frozen=True, slots=True, kw_only=True)
class RecordedRun:
    """A recorded run. `name` is that of its folder; `source` has its ops."""

    name: str
    folder: Path
    facts: RunFacts
    source: Source

    def observations(self) -> Iterator[Record]:
        """Yield the observations of the nodes. Raises HistoryError, OSError."""
        for number, record in json_lines(self.folder / "observations.jsonl"):
            try:
                yield decode_observation(record)
            except HistoryError as error:
                raise HistoryError(f"observations.jsonl line {number}: {error}") from error

    def node_lines(self) -> Iterator[NodeLine]:
        """Yield the logs of all servers, one after the other. Raises HistoryError, OSError."""
        return node_lines(self.folder)

    def faults(self) -> list[Fault]:
        """Return the planned faults by the time at which they fired. Raises HistoryError, OSError."""
        path = self.folder / "faults.jsonl"
        if path.exists() and plain_size(path) > FAULT_BYTES_MAX:
            raise HistoryError(
                f"{path} has more than {FAULT_BYTES_MAX} bytes; at most these are read"
            )
        found = [_fault(number, record) for number, record in json_lines(path)]
        return sorted(found, key=lambda one: (one.fired_ns or 0, one.kind, one.targets))

    def findings(self) -> Iterator[ShownFinding]:
        """Yield the findings that the verdict kept; none for an unfinished run. Raises HistoryError."""
        if not RunFolder(self.folder).is_finished:
            return
        verdict = RunFolder(self.folder).read_verdict()["verdict"]
        try:
            findings = [one for checker in verdict["verdicts"] for one in checker["findings"]]
            for one in findings:
                yield ShownFinding(
                    time_ns=int(one["time_ns"]),
                    anomaly=str(one["anomaly"]),
                    judgement=str(one["judgement"]),
                    key=one.get("key"),
                    detail=str(one["detail"]),
                )
        except (KeyError, TypeError, ValueError) as error:
            raise HistoryError(f"{self.folder}/verdict.json holds no verdict: {error}") from error

    def nodes_of(self, broker: str) -> Sequence[str]:
        """Return the servers of a broker, the master first; the broker's name if the facts have none."""
        return self.facts.replica_sets.get(broker) or (broker,)

    def groups_of(self, topic: str) -> list[str]:
        """Return the consumer groups that read a topic."""
        return [group for group, topics in self.facts.groups.items() if topic in topics]


def recorded_run(folder: Path) -> RecordedRun:
    """Open the run in a folder, and compare its files with their checksums. Raises HistoryError, OSError."""
    if not folder.is_dir():
        raise HistoryError(f"{folder} is no folder; give the folder of a run")
    source = source_at(folder)
    name = folder.resolve().name
    return RecordedRun(name=name, folder=folder, facts=facts_of_run(folder), source=source)


def _fault(number: int, record: Record) -> Fault:
    try:
        return Fault(
            kind=str(record["kind"]),
            targets=tuple(map(str, record["targets"])),
            fired_ns=_time(record.get("fired_ns")),
            struck_ns=_time(record.get("struck_ns")),
            healed_ns=_time(record.get("healed_ns")),
            bitten=record["bitten"] is True,
            evidence=orjson.dumps(record["evidence"]).decode(),
        )
    except (KeyError, TypeError) as error:
        raise HistoryError(f"faults.jsonl line {number}: no fault") from error


def _time(value: Any) -> int | None:
    return value if type(value) is int and 0 <= value <= INT64_MAX else None
