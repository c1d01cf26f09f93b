"""Verdicts: three-valued answers with counts, and findings that prove them.

A finding is one anomaly with the data by which a reader finds it in the history. A tally is the result of a kernel for
one partition: counts, and the first findings of each anomaly and judgement. Merging tallies is associative and
commutative, and the empty tally is the identity: counts add up, and the first ten findings in a total order do not
depend on how the history is partitioned.
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
        """Return the key of a total order that depends only on the finding itself."""
        position = (self.topic, self.broker, self.queue, self.queue_offset, self.physical_offset)
        return (
            *_ordered(self.anomaly, self.judgement, self.op_index, self.time_ns, self.key),
            *_ordered(*position, self.group, self.detail, self.other_key),
        )

    def to_json(self) -> dict[str, object]:
        return {name: value for name, value in asdict(self).items() if value is not None}

    @classmethod
    def from_json(cls, fields: Mapping[str, Any]) -> Self:
        """Read the output of `to_json`. RunVerdict.from_json checks the types of the fields."""
        return cls(**{**fields, "judgement": Judgement(fields["judgement"])})


def _ordered(*values: object) -> Iterable[tuple[bool, object]]:
    return ((value is not None, value) for value in values)


def explain(finding: Finding) -> str:
    """Format one finding as two lines: the anomaly with its position, then the judgement with its detail."""
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
    """Format a time of a run in seconds, cut to whole milliseconds, without floating point."""
    whole_s, rest_ns = divmod(time_ns, NS_PER_S)
    return f"{whole_s}.{rest_ns // 1_000_000:03d}s"


def first_witnesses(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """Return the first WITNESSES_MAX findings of each anomaly and judgement, sorted by these, then by `sort_key`."""
    sorts: dict[tuple[str, Judgement], list[Finding]] = {}
    for finding in findings:
        sorts.setdefault((finding.anomaly, finding.judgement), []).append(finding)
    return tuple(finding for sort in sorted(sorts) for finding in _first(sorts[sort]))


def _first(findings: list[Finding]) -> list[Finding]:
    """Return the first WITNESSES_MAX findings of one anomaly and judgement.

    The op index decides their order first and is fast to compare, so it preselects them.
    """
    if len(findings) > WITNESSES_MAX:
        last = sorted(finding.op_index for finding in findings)[WITNESSES_MAX - 1]
        findings = [finding for finding in findings if finding.op_index <= last]
    return sorted(findings, key=Finding.sort_key)[:WITNESSES_MAX]


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """The result of a kernel for one partition.

    `measured` and `longest` are for kernels that measure: distributions over time by name, and maxima by (name, number
    of the measured object).
    """

    counts: Mapping[str, int] = field(default_factory=dict)
    findings: tuple[Finding, ...] = ()
    measured: Mapping[str, Measured] = field(default_factory=dict)
    longest: Mapping[tuple[str, int], int] = field(default_factory=dict)

    @classmethod
    def of(cls, findings: Iterable[Finding], **counts: int) -> Self:
        """Make a tally with `counts`, and with the number of findings by `count_name`."""
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
    """The answer of one checker. `reason` says why it is unknown, or what a True is based on; `series` is JSON.

    `reportable`: the share of the run in which the checker could have reported each anomaly, for anomalies whose share
    depends on more than the faults (`reportable.py` computes the others).
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
        """Read the output of `to_json`. RunVerdict.from_json checks the types of the fields."""
        findings = tuple(map(Finding.from_json, fields["findings"]))
        return cls(**{**fields, "findings": findings})


def combine(valid: Iterable[Validity]) -> Validity:
    """Combine answers: False beats unknown, and unknown beats True. Without any answer the result is unknown."""
    answers = list(valid)
    if False in answers:
        return False
    return True if answers and "unknown" not in answers else "unknown"
