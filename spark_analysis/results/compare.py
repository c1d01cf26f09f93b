"""Compares runs: anomalies by fault and by version, and regressions of each version against the one before.

The label of a run is its version, such as the name of the path below which it was found. Versions keep the given order.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.verdict import Validity
from staticfire.checkers.verdicts.compose import RunVerdict

NO_FAULT = "no fault"


@dataclass(frozen=True, slots=True, kw_only=True)
class Compared:
    """The facts of a run that a comparison needs."""

    label: str
    valid: Validity
    anomalies: Sequence[str]  # with violations
    faults: Sequence[str]  # kinds that bit


@dataclass(frozen=True, slots=True, kw_only=True)
class Regression:
    """An anomaly of a version that no run of the previous version has."""

    anomaly: str
    before: str
    after: str
    runs: int  # of the later version


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Counts of runs. A run counts for an anomaly if it has at least one violation of it."""

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


def compared(label: str, verdict: RunVerdict, facts: RunFacts) -> Compared:
    return Compared(
        label=label,
        valid=verdict.valid,
        anomalies=violations(verdict),
        faults=bitten_kinds(facts),
    )


def compare(runs: Sequence[Compared]) -> Comparison:
    """Compare runs. The order of versions is that of their first runs."""
    by_fault: dict[str, Counter[str]] = {}
    by_label: dict[str, Counter[str]] = {}
    for run in runs:
        for anomaly in run.anomalies:
            by_fault.setdefault(anomaly, Counter()).update(run.faults or [NO_FAULT])
            by_label.setdefault(anomaly, Counter())[run.label] += 1
    invalid = Counter(run.label for run in runs if run.valid is False)
    labels = [run.label for run in runs]
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


def bitten_kinds(facts: RunFacts) -> list[str]:
    """Return the kinds of fault that bit, sorted."""
    return sorted({fault.kind for fault in facts.faults if fault.bitten_ns is not None})


def violations(verdict: RunVerdict) -> list[str]:
    """Return the anomalies with violations in a run, sorted."""
    return sorted({found.anomaly for found in verdict.findings() if found.judgement == "violation"})
