"""The runs of a workload over the versions that recorded them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import median

from staticfire.harness.serve.summaries import STATES, RunSummary

NO_VERSION = "not known"


@dataclass(frozen=True, slots=True, kw_only=True)
class VersionTrend:
    """The runs of one version: counts of verdicts, anomalies, and the median of acknowledged sends."""

    version: str
    first: str  # its first run; names begin with the time
    runs: int
    states: Mapping[str, int]
    anomalies: Mapping[str, int]  # runs that have it
    acked: float | None

    @property
    def is_known(self) -> bool:
        """Whether the runs name the version that recorded them."""
        return self.version != NO_VERSION

    def share(self, state: str) -> float:
        """Return a count as percent of its runs."""
        return 100 * self.states.get(state, 0) / self.runs


def trend_of(runs: Sequence[RunSummary]) -> list[VersionTrend]:
    """Return a line for each version, in the order of their first runs."""
    by_version: dict[str, list[RunSummary]] = {}
    for run in sorted(runs, key=lambda run: run.name):
        by_version.setdefault(run.version or NO_VERSION, []).append(run)
    return [_trend(version, found) for version, found in by_version.items()]


def _trend(version: str, runs: Sequence[RunSummary]) -> VersionTrend:
    states = Counter(run.state for run in runs)
    acked = [run.acked for run in runs if run.acked is not None]
    anomalies = Counter(name for run in runs for name in run.anomalies)
    return VersionTrend(
        version=version,
        first=runs[0].name,
        runs=len(runs),
        states={state: states[state] for state in STATES},
        anomalies=dict(anomalies.most_common()),
        acked=median(acked) if acked else None,
    )
