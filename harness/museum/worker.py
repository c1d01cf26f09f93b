"""Judges seeds of one campaign in a process whose system may be patched: reads a job, prints a line a seed.

    python -m staticfire.harness.museum.worker < job.json

The parent puts the patched copy first on the import path.
"""

from __future__ import annotations

import resource
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.hunt.breeding import GENERATION, Population, bred, is_bred
from staticfire.harness.cli.hunt.seeds import Judging, campaign_of
from staticfire.harness.cli.options import given_options
from staticfire.harness.machines.options import MachineOptions

NO_OPTIONS: Mapping[str, Any] = dict.fromkeys(("campaign", "followers", "leaders", "faults"))
JUDGING = Judging(client_only=False, provider=MachineOptions())
FAILURES_MAX = 3
CPU_MARGIN_S = 120  # CPU time of one seed beyond the job's budget; then the process is killed, as the system spins


def judged_seeds(job: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """Yield a row per seed, until one is invalid, `seeds_max` are judged, or `cpu_s` seconds of CPU time are spent.

    It also ends after three runs in a row that could not be carried out.

    Args:
        job: `recipe` names a bug whose campaign is run. Without it `workloads` take turns, and everything else is
            drawn, with a new seed for each run, since one seed draws the same options and kinds of fault for all
            workloads. `defect` is the planted defect in the campaigns, `first` the first seed, `stops` whether to stop
            at the first invalid seed, and `breeds` whether to breed campaigns, as `hunt --guided` does.
    """
    given = options_of(job)
    breeding = Breeding() if job["breeds"] else None
    spent_s = 0.0
    failures = 0
    for seed in range(job["first"], job["first"] + job["seeds_max"]):
        row = judged(seed, given[seed % len(given)], breeding)
        spent_s += row["cpu_s"]
        failures = failures + 1 if "failed" in row else 0
        yield row
        if (job["stops"] and row["valid"] is False) or spent_s >= job["cpu_s"]:
            return
        if failures >= FAILURES_MAX:
            return


def options_of(job: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the given options of a job's campaigns, which take turns."""
    if job["recipe"]:
        return [recipe_of(job["recipe"])]
    return [{"workload": workload, "defect": job["defect"]} for workload in job["workloads"]]


def recipe_of(name: str) -> dict[str, Any]:
    """Return the options of the campaign in the bug's file."""
    return given_options(**NO_OPTIONS, defect=name)


class Breeding:
    """Breeds every other campaign of a search over all workloads, generation after generation."""

    def __init__(self) -> None:
        self._population = Population([], set())
        self._index = 0  # of the next campaign
        self._runs: list[tuple[Campaign, Mapping[str, int]]] = []  # of this generation

    def campaign(self, drawn: Campaign) -> Campaign:
        """Return the next campaign to run: `drawn`, or one that is bred with its seed."""
        if self._index % GENERATION == 0:
            for campaign, coverage in self._runs:
                self._population.take(campaign, coverage)
            self._runs.clear()
        index, self._index = self._index, self._index + 1
        is_child = is_bred(index, self._population)
        return bred(drawn, self._population.parents) if is_child else drawn

    def take(self, campaign: Campaign, coverage: Mapping[str, int]) -> None:
        """Note the coverage of a run."""
        self._runs.append((campaign, coverage))


def judged(seed: int, given: dict[str, Any], breeding: Breeding | None = None) -> dict[str, Any]:
    """Run and judge one seed; a run that could not be carried out has `failed`, the reason.

    An invalid run of a bred campaign has `campaign`, its TOML.
    """
    from staticfire.harness.runs.simulated_runner import run_simulated

    started_s = time.process_time()
    row: dict[str, object] = {"seed": seed, "workload": given.get("workload", "queue")}
    try:
        campaign = drawn = campaign_of(seed, given, JUDGING)
        if breeding is not None:
            campaign = breeding.campaign(drawn)
        result = run_simulated(campaign)
    except Exception as error:
        row |= {"valid": "unknown", "failed": f"{type(error).__name__}: {error}"[:300]}
    else:
        verdict = result.verdict
        row |= {
            "workload": campaign.workload,
            "valid": verdict.valid,
            "digest": result.digest,
            "anomalies": sorted(verdict.violations()),
            "checkers": sorted(one.checker for one in verdict.verdicts if one.valid is False),
            "faults": sorted({one.planned.kind for one in result.faults if one.bitten}),
        }
        if breeding is not None:
            breeding.take(campaign, verdict.coverage)
        if campaign is not drawn and verdict.valid is False:
            row["campaign"] = campaign.to_toml()
    row["cpu_s"] = round(time.process_time() - started_s, 2)
    return row


def broken_clauses(ids: Sequence[str]) -> list[str]:
    """Return those of these clauses whose case does not pass in the simulation."""
    from staticfire.harness.conformance.case import cases
    from staticfire.harness.conformance.result import Outcome
    from staticfire.harness.conformance.sites.simulated import SimulatedSite, run_in_world

    broken = []
    for clause in ids:
        try:
            outcome = run_in_world(cases()[clause], SimulatedSite().campaign).outcome
        except Exception:  # a cluster that does not serve breaks all clauses
            outcome = Outcome.FAILED
        if outcome is not Outcome.PASSED:
            broken.append(clause)
    return broken


def main() -> None:
    """Carry out the job from standard input."""
    job = orjson.loads(sys.stdin.buffer.read())
    limit_s = int(time.process_time() + job["cpu_s"] + CPU_MARGIN_S)
    resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s))
    for row in judged_seeds(job):
        _say(row)
    if job["clauses"]:
        _say({"broken": broken_clauses(job["clauses"])})


def _say(row: Mapping[str, object]) -> None:
    sys.stdout.buffer.write(orjson.dumps(row) + b"\n")
    sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
