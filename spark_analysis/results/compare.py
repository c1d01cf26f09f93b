"""Many runs side by side: which anomalies under which faults, and what a later version has that an earlier one had not.

Runs are versions by their label: the path that they were found below, in the order given.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.verdicts.compose import RunVerdict

NO_FAULT = "no fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An anomaly in runs of a later version that no run of the version before it has."""

    anomaly: str
    before: str
    after: str
    runs: int  # of the later version


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Counts of runs. An anomaly is there when a run has at least one violation of that name."""

    runs: dict[str, int]  # by label
    invalid: dict[str, int]  # by label
    by_fault: dict[str, dict[str, int]]  # anomaly -> kind of fault that bit -> runs
    by_label: dict[str, dict[str, int]]  # anomaly -> label -> runs
    regressions: tuple[Regression, ...]

    def to_json(self) -> dict[str, object]:
        return {
            "runs": self.runs,
            "invalid": self.invalid,
            "by_fault": self.by_fault,
            "by_label": self.by_label,
            "regressions": [
                {"anomaly": of.anomaly, "before": of.before, "after": of.after, "runs": of.runs}
                for of in self.regressions
            ],
        }


def compare(
    labels: Sequence[str], verdicts: Sequence[RunVerdict], facts: Sequence[RunFacts]
) -> Comparison:
    """Compare runs: three sequences of the same length."""
    by_fault: dict[str, Counter[str]] = {}
    by_label: dict[str, Counter[str]] = {}
    for label, verdict, known in zip(labels, verdicts, facts, strict=True):
        kinds = sorted({f.kind for f in known.faults if f.bitten_ns is not None}) or [NO_FAULT]
        for anomaly in violations(verdict):
            by_fault.setdefault(anomaly, Counter()).update(kinds)
            by_label.setdefault(anomaly, Counter())[label] += 1
    invalid = Counter(
        label for label, verdict in zip(labels, verdicts, strict=True) if verdict.valid is False
    )
    order = list(dict.fromkeys(labels))
    return Comparison(
        runs=dict(Counter(labels)),
        invalid={label: invalid[label] for label in order},
        by_fault={anomaly: dict(sorted(by_fault[anomaly].items())) for anomaly in sorted(by_fault)},
        by_label={anomaly: dict(sorted(by_label[anomaly].items())) for anomaly in sorted(by_label)},
        regressions=tuple(
            Regression(anomaly=anomaly, before=before, after=after, runs=of_label[after])
            for before, after in pairwise(order)
            for anomaly, of_label in sorted(by_label.items())
            if of_label[after] and not of_label[before]
        ),
    )


def violations(verdict: RunVerdict) -> list[str]:
    """The anomalies of which a run has violations, sorted."""
    return sorted({found.anomaly for found in verdict.findings() if found.judgement == "violation"})
