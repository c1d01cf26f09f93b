"""Verdicts: three-valued answers with counts, and findings that prove them.

A finding is one anomaly with everything that a reader needs to look it up. A tally is the result of a kernel for one
partition: counts and the first findings of each sort. Tallies merge in any order and grouping, and the empty tally
changes nothing: counts add up, and the first ten of a total order do not depend on how the history is cut.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, Self, TypeVar

from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement
from staticfire.checkers.model.time_series import Measured

Validity = bool | Literal["unknown"]
K = TypeVar("K")
V = TypeVar("V")
WITNESSES_MAX = 10  # of each anomaly and judgement


@dataclass(frozen=True, slots=True, kw_only=True)
class Finding:
    """One anomaly. Fields that do not apply are None."""

    anomaly: str
    judgement: Judgement
    op_index: int  # the op that proves it; -1 when an observation does
    time_ns: int
    detail: str  # the broken promise, or why the anomaly is allowed
    key: str | None = None  # of the message
    topic: str | None = None
    broker: str | None = None
    queue: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None
    group: str | None = None
    other_key: str | None = None  # of a second message that is part of the proof

    def sort_key(self) -> tuple[object, ...]:
        """Return the key of a total order that depends on nothing but the finding itself."""
        position = (self.topic, self.broker, self.queue, self.queue_offset, self.physical_offset)
        return (
            *_ordered(self.anomaly, self.judgement, self.op_index, self.time_ns, self.key),
            *_ordered(*position, self.group, self.detail, self.other_key),
        )

    def to_json(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read what to_json wrote; RunVerdict.from_json checks its types."""
        return cls(**{**fields, "judgement": Judgement(fields["judgement"])})


def _ordered(*values: object) -> Iterable[tuple[bool, object]]:
    return ((value is not None, value) for value in values)


def explain(finding: Finding) -> str:
    """Format one finding as two lines: the anomaly and its position; then the promise, or why it is allowed."""
    parts = [finding.anomaly.upper().replace("_", " ")]
    if finding.key is not None:
        parts.append(f"key {finding.key}")
    if finding.topic is not None:
        parts.append(f"topic {finding.topic}")
    if finding.broker is not None:
        parts.append(f"broker {finding.broker}")
    if finding.queue is not None:
        parts.append(f"queue {finding.queue}")
    if finding.queue_offset is not None:
        parts.append(f"offset {finding.queue_offset}")
    if finding.physical_offset is not None:
        parts.append(f"physical offset {finding.physical_offset}")
    if finding.group is not None:
        parts.append(f"group {finding.group}")
    parts.append(f"{_TIME_OF.get(finding.anomaly, 'at')} t={seconds(finding.time_ns)}")
    return f"{'  '.join(parts)}\n  {finding.judgement}: {finding.detail}"


_TIME_OF = {
    "lost": "acked SEND_OK at",
    "unseen": "acked SEND_OK at",
    "log_hole": "acked SEND_OK at",
    "acked_not_durable": "acked SEND_OK at",
}


def seconds(time_ns: int) -> str:
    """Format a time of a run in virtual seconds, to the millisecond, without rounding of floats."""
    whole_s, rest_ns = divmod(time_ns, NS_PER_S)
    return f"{whole_s}.{rest_ns // 1_000_000:03d}s"


def first_witnesses(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Sort the findings, then keep the first WITNESSES_MAX of each anomaly and judgement."""
    sorts: dict[tuple[str, Judgement], list[Finding]] = {}
    for finding in findings:
        sorts.setdefault((finding.anomaly, finding.judgement), []).append(finding)
    return tuple(finding for sort in sorted(sorts) for finding in _first(sorts[sort]))


def _first(findings: list[Finding]) -> list[Finding]:
    """Return the first WITNESSES_MAX of one sort. The op comes first in their order, and is fast to compare."""
    if len(findings) > WITNESSES_MAX:
        last = sorted(finding.op_index for finding in findings)[WITNESSES_MAX - 1]
        findings = [finding for finding in findings if finding.op_index <= last]
    return sorted(findings, key=Finding.sort_key)[:WITNESSES_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The result of a kernel for one partition.

    `measured` and `longest` are for kernels that measure: distributions over time by name, and numbers by (name, what
    was measured), of which the larger one is kept.
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    measured: Mapping[str, Measured] = field(default_factory=dict)
    longest: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, findings: Iterable[Finding], **counts: int) -> Self:
        """Count findings under their anomaly, with the judgement unless they are violations."""
        found = list(findings)
        total = dict(counts)
        for finding in found:
            name = count_name(finding.anomaly, finding.judgement)
            total[name] = total.get(name, 0) + 1
        return cls(counts=total, findings=first_witnesses(found))

    def merge(self, other: Self) -> Self:
        names = sorted(self.counts.keys() | other.counts.keys())
        counts = {name: self.counts.get(name, 0) + other.counts.get(name, 0) for name in names}
        findings = first_witnesses((*self.findings, *other.findings))
        return type(self)(
            counts=counts,
            findings=findings,
            measured=_together(self.measured, other.measured, Measured.merge),
            longest=_together(self.longest, other.longest, max),
        )


def _together(one: Mapping[K, V], other: Mapping[K, V], put: Callable[[V, V], V]) -> Mapping[K, V]:
    if not one or not other:
        return one or other
    total = dict(one)
    for key, value in other.items():
        total[key] = put(total[key], value) if key in total else value
    return total


def count_name(anomaly: str, judgement: Judgement) -> str:
    """Return the name of a count: `lost` counts violations, `lost_allowed` the losses that a fault excuses."""
    return anomaly if judgement is Judgement.VIOLATION else f"{anomaly}_{judgement}"


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """The answer of one checker. `reason` says why it is unknown, or what a True rests on; `series` is JSON.

    `reportable`: the share of the run in which each anomaly could have been reported, for anomalies that need evidence
    beside the faults (`reportable.py` has the others).
    """

    checker: str
    valid: Validity
    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    reason: str | None = None
    series: Mapping[str, Any] = field(default_factory=dict)  # measurements, for plots
    reportable: Mapping[str, float] = field(default_factory=dict)

    def to_json(self) -> dict[str, object]:
        return {
            "checker": self.checker,
            "valid": self.valid,
            "counts": dict(sorted(self.counts.items())),
            "findings": [finding.to_json() for finding in self.findings],
            "reason": self.reason,
            **({"series": self.series} if self.series else {}),
            **({"reportable": dict(self.reportable)} if self.reportable else {}),
        }

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read what to_json wrote; RunVerdict.from_json checks its types."""
        findings = tuple(map(Finding.from_json, fields["findings"]))
        return cls(**{**fields, "findings": findings})


def combine(valid: Iterable[Validity]) -> Validity:
    """False beats unknown, and unknown beats True; without any verdict the answer is unknown."""
    answers = list(valid)
    if False in answers:
        return False
    return True if answers and "unknown" not in answers else "unknown"
