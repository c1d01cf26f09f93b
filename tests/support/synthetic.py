"""Small synthetic histories for tests, and whether a verdict says exactly what was planted in them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import orjson

from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.verdict import WITNESSES_MAX, Finding
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.spark_analysis.runs.inputs import RunInput, find_runs
from staticfire.spark_analysis.synthesis.synthesize import TRUTH_FILE, synthesize
from staticfire.spark_analysis.synthesis.workload_profile import WorkloadProfile

Machine = tuple[str | None, str | None, int | None]
Known = tuple[str, str | None, bool, str | None, Machine, int | None, int | None]


def small(folder: Path, *, layout: str = "per-queue", **shape: Any) -> list[RunInput]:
    """A history of a few thousand ops, unless `shape` says otherwise."""
    options = {"ops": 8000, "queues": 12, "rows_a_chunk": 6000, "plant": 1, **shape}
    synthesize(folder, WorkloadProfile(**options), layout=layout)
    return find_runs([folder])


def truth_of(folder: Path) -> dict[str, Any]:
    reported: dict[str, Any] = orjson.loads((folder / TRUTH_FILE).read_bytes())
    return reported


def disagreements(folder: Path, verdict: RunVerdict) -> list[str]:
    """Planted and not found, found and not planted; empty when the verdict is right to the witness."""
    truth = truth_of(folder)
    planted = list(map(_planted, truth["findings"]))
    found = [_seen(finding) for finding in verdict.findings()]
    wanted = Counter(finding[0] for finding in planted)
    counted: Counter[str] = Counter()
    for of in verdict.verdicts:
        for name, count in of.counts.items():
            anomaly = name.removesuffix("_allowed").removesuffix("_informational")
            if anomaly in wanted:
                counted[anomaly] += count
    wrong = [
        f"{anomaly}: planted {wanted[anomaly]}, counted {counted[anomaly]}"
        for anomaly in wanted | counted
        if wanted[anomaly] != counted[anomaly]
    ]
    wrong += [f"found, not planted: {of}" for of in found if not _is_among(of, planted)]
    few = {anomaly for anomaly, count in wanted.items() if count <= WITNESSES_MAX}
    wrong += [
        f"planted, not found: {of}" for of in planted if of[0] in few and not _matches(of, found)
    ]
    return wrong


def _planted(finding: dict[str, Any]) -> Known:
    get = finding.get
    place = (get("topic"), get("broker"), get("queue"))
    named = (finding["anomaly"], get("key"), finding["explained"])
    return (*named, get("group"), place, get("queue_offset"), get("physical_offset"))


def _seen(finding: Finding) -> Known:
    place = (finding.topic, finding.broker, finding.queue)
    explained = finding.judgement is not Judgement.VIOLATION
    named = (finding.anomaly, finding.key, explained, finding.group, place)
    return (*named, finding.queue_offset, finding.physical_offset)


# A copy is reported at its last delivery. An aborted read has only the offset of its delivery, a misrouted one both.
_KEY_TELLS = frozenset({"duplicate", "duplicate_unexplained"})


def _fits(reported: Known, seen: Known) -> bool:
    same = reported[:3] == seen[:3] and (reported[3] is None or reported[3] == seen[3])
    return same and (reported[0] in _KEY_TELLS or reported[4:] == seen[4:])


def _is_among(seen: Known, planted: Iterable[Known]) -> bool:
    return any(_fits(reported, seen) for reported in planted)


def _matches(reported: Known, found: Iterable[Known]) -> bool:
    return any(_fits(reported, seen) for seen in found)
