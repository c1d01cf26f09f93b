"""Searches for one planted bug: by its recipe, blind, or guided, in a process with a bound of CPU time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from staticfire.faults.defects import Defect
from staticfire.harness.campaign.file import read_options
from staticfire.harness.defect_loader import VARIABLE, planted
from staticfire.harness.museum.processes import rows_of
from staticfire.harness.museum.worker import judged, recipe_of
from staticfire.harness.workloads.catalogue import WORKLOADS

SEEDS_MAX = 100_000  # the bound of CPU time ends a search long before this one
# the way to search; `guided` is blind and breeds campaigns
Way = Literal["recipe", "blind", "guided"]
WORKER = "staticfire.harness.museum.worker"


@dataclass(slots=True, kw_only=True)
class Search:
    """The state of a search. A search with a larger bound continues where one with a smaller bound ended.

    Attributes:
        bound_cpu_s: bound of the search's CPU time, in seconds.
        seeds: number of judged seeds, including the last one.
        checkers: invalid checkers of the run that shows the bug.
        campaign: campaign of the run that shows the bug, as TOML, if it was bred.
        off: verdict of the same seed without the bug: "valid", "invalid" or "unknown"; empty: not tried.
        broken: clauses that the piece names and whose cases failed; None: not tried.
        failed: number of seeds that the harness could not carry out, with the reason of the first one.
    """

    bound_cpu_s: float = 0.0
    seeds: int = 0
    cpu_s: float = 0.0
    seed: int | None = None
    workload: str = ""
    anomalies: list[str] = field(default_factory=list)
    checkers: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)
    campaign: str = ""
    off: str = ""
    broken: list[str] | None = None
    failed: int = 0
    failure: str = ""

    @property
    def is_found(self) -> bool:
        return self.seed is not None

    def take(self, row: Mapping[str, Any]) -> None:
        """Count one judged seed."""
        self.seeds += 1
        self.cpu_s = round(self.cpu_s + row["cpu_s"], 2)
        if "failed" in row:
            self.failed += 1
            self.failure = self.failure or row["failed"]
        if row["valid"] is False:
            self.seed, self.workload = row["seed"], row["workload"]
            self.anomalies, self.checkers, self.faults = (
                row["anomalies"],
                row["checkers"],
                row["faults"],
            )
            self.campaign = row.get("campaign", "")

    def forget_seed(self) -> None:
        """Continue as if the last seed had been valid."""
        self.seed, self.workload = None, ""
        self.anomalies, self.checkers, self.faults = [], [], []
        self.campaign = ""


def search(defect: Defect, so_far: Search, way: Way) -> None:
    """Judge seeds in a process with the bug until one is invalid or the bound is reached. Raises DefectError.

    A guided search that is continued begins with a new population.
    """
    if so_far.is_found or so_far.cpu_s >= so_far.bound_cpu_s:
        return
    job = {
        "recipe": defect.name if way == "recipe" else "",
        "workloads": list(WORKLOADS),
        "defect": defect.name,
        "first": so_far.seeds,
        "seeds_max": SEEDS_MAX,
        "cpu_s": so_far.bound_cpu_s - so_far.cpu_s,
        "stops": True,
        "breeds": way == "guided",
        "clauses": defect.conform if way == "recipe" and so_far.broken is None else [],
    }
    with planted(defect.name) as folders:
        for row in rows_of(WORKER, job, folders, {VARIABLE: defect.name}):
            if "broken" in row:
                so_far.broken = row["broken"]
            else:
                so_far.take(row)


def judge_without(defect: Defect, so_far: Search, way: Way) -> str:
    """Run the seed that shows the bug on the clean system. Return "valid", "invalid" or "unknown"."""
    assert so_far.seed is not None
    if so_far.campaign:
        given = read_options(so_far.campaign, "the bred campaign")
        del given["seed"]
    else:
        given = recipe_of(defect.name) if way == "recipe" else {"workload": so_far.workload}
    valid = judged(so_far.seed, {**given, "defect": ""})["valid"]
    return {True: "valid", False: "invalid"}.get(valid, "unknown")
