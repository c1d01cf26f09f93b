"""Groups the violations of a verdict by cause, the most serious cause first."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.verdicts.compose import RunVerdict
from staticfire.harness.report.verdict_lines import first_violations, rank
from staticfire.harness.results.fingerprint import CAUSES, Fingerprint


@dataclass(frozen=True, slots=True, kw_only=True)
class Cause:
    """One cause: its leading anomaly, what follows from it, and the first finding that shows it."""

    fingerprint: Fingerprint
    count: int  # violations of the leading anomaly
    consequences: Mapping[str, int]  # violations of other anomalies of the same cause
    witness: Finding

    @property
    def headline(self) -> str:
        """The cause with its counts."""
        more = ", ".join(f"{name} {count:,}" for name, count in self.consequences.items())
        text = f"{self.fingerprint}: {self.count:,}"
        return f"{text}; with it {more}" if more else text


def causes_of(verdict: RunVerdict) -> list[Cause]:
    """Return each cause that the violations show."""
    counts = verdict.violations()
    first = {finding.anomaly: finding for finding in first_violations(verdict)}
    left = sorted(first, key=lambda name: (rank(name), name))
    families = [[name for name in family if name in first] for family in CAUSES.values()]
    in_family = {name for family in families for name in family}
    known = [
        _cause(name, family, counts, first)
        for name, family in zip(CAUSES, families, strict=True)
        if family
    ]
    return known + [_cause(name, [name], counts, first) for name in left if name not in in_family]


def _cause(
    name: str, family: list[str], counts: Mapping[str, int], first: Mapping[str, Finding]
) -> Cause:
    leading = family[0]
    return Cause(
        fingerprint=Fingerprint(name, leading),
        count=counts.get(leading, 0),
        consequences={name: counts.get(name, 0) for name in family[1:]},
        witness=first[leading],
    )


def loss_sentence(verdict: RunVerdict) -> str:
    """Return a sentence with the numbers of lost, of never consumed and of acknowledged messages."""
    acked = verdict.counts.get("acked", 0)
    losses = next((of for of in verdict.verdicts if of.checker == "loss"), None)
    if losses is None or losses.valid == "unknown":
        return f"{acked:,} messages acknowledged; whether any was lost is unknown"
    lost = losses.counts.get("lost", 0)
    allowed = losses.counts.get("lost_allowed", 0)
    unseen = losses.counts.get("unseen", 0)
    missing = f"{lost:,} lost, {unseen:,} not consumed by a group," if unseen else f"{lost:,} lost"
    text = f"{missing} of {acked:,} acknowledged"
    return f"{text} ({allowed:,} more lost as promised)" if allowed else text
