"""The seeds of a hunt: each run and judged, on several cores at once."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import as_completed
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, NamedTuple

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.hunt.breeding import (
    GENERATION,
    Population,
    bred,
    is_bred,
    options_of,
)
from staticfire.harness.cli.options import choose_faults
from staticfire.harness.cli.progress import begin_shown
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.raised_text import raised_text
from staticfire.harness.worker_processes import WorkerPool


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """The part of one seed's run that a hunt keeps."""

    seed: int
    workload: str
    valid: bool | str
    digest: str
    acked: int
    bitten: tuple[str, ...]  # kinds of fault
    dirty_power_cut: bool  # power was cut while unsynced data lay in a page cache
    cpu_s: float
    summary: tuple[str, ...]  # of a run that is not valid
    coverage: dict[str, int] = field(default_factory=dict)  # see RunVerdict.coverage
    caveats: tuple[str, ...] = ()  # see RunVerdict.caveats
    interrupted: bool = False  # the user wants no more of it
    failed: bool = False  # the harness could not carry the run out
    fingerprint: str = ""  # of an invalid run: its cause, as in results/fingerprint.py
    anomalies: tuple[str, ...] = ()  # with violations, in order of their names
    bred: str = ""  # the file of a campaign that was not drawn from its seed (breeding.py)
    options: str = ""  # what tells apart hunts with other options
    wall_s: float = 0.0

    @property
    def row(self) -> dict[str, Any]:
        return {name: getattr(self, name) for name in self.__slots__}


class Judging(NamedTuple):
    """How the seeds of a hunt are run and judged."""

    client_only: bool
    provider: MachineOptions


def run_seeds(
    order: Sequence[int], given: dict[str, Any], jobs: int, judging: Judging
) -> Iterator[SeedResult]:
    """The results as they come."""
    if order:
        with _pool(min(jobs, len(order))) as pool:
            yield from _as_they_come(pool, [(seed, given) for seed in order], judging)


def run_guided(
    order: Sequence[int],
    given: dict[str, Any],
    jobs: int,
    judging: Judging,
    bred_folder: Path,
    former: Mapping[int, SeedResult],
) -> Iterator[SeedResult]:
    """The same, but some campaigns are bred: generation after generation, each in the order in which its runs end.

    Args:
        order: all seeds of the hunt.
        bred_folder: gets the campaign of each bred run that is not valid.
        former: results that an interrupted hunt had; these seeds are not run again.

    Raises OSError.
    """
    population = Population([], set())
    with _pool(min(jobs, GENERATION)) as pool:
        for first in range(0, len(order), GENERATION):
            campaigns: dict[int, Campaign] = {}
            children: set[int] = set()
            for index, seed in enumerate(order[first : first + GENERATION], first):
                campaigns[seed] = drawn = campaign_of(seed, given, judging)
                if is_bred(index, population):
                    campaigns[seed] = bred(drawn, population.parents)
                    if campaigns[seed] is not drawn:
                        children.add(seed)
            results = {seed: former[seed] for seed in campaigns if seed in former}
            tries = [
                (seed, options_of(campaign) if seed in children else given)
                for seed, campaign in campaigns.items()
                if seed not in former
            ]
            for result in _as_they_come(pool, tries, judging):
                if result.seed in children:
                    result = _child(result, campaigns[result.seed], bred_folder)
                results[result.seed] = result
                yield result
            for seed, campaign in campaigns.items():
                population.take(campaign, results[seed].coverage)


def _child(result: SeedResult, campaign: Campaign, folder: Path) -> SeedResult:
    """The result of a bred campaign, which is kept in a file unless its run was valid. Raises OSError."""
    file = folder / f"bred-{campaign.seed}.toml"
    if result.valid is not True:
        folder.mkdir(parents=True, exist_ok=True)
        file.write_text(campaign.to_toml(), encoding="utf-8")
    return replace(result, bred=str(file))


def _pool(jobs: int) -> AbstractContextManager[WorkerPool | None]:
    """Processes; None for one job, which is done in this process."""
    return nullcontext() if jobs == 1 else WorkerPool(jobs)


def _as_they_come(
    pool: WorkerPool | None,
    tries: Sequence[tuple[int, dict[str, Any]]],
    judging: Judging,
) -> Iterator[SeedResult]:
    """The results of seeds with their options."""
    if pool is None:
        for seed, given in tries:
            yield run_seed(seed, given, judging)
        return
    futures = [pool.submit(run_seed, seed, given, judging) for seed, given in tries]
    begin_shown()
    for future in as_completed(futures):
        yield future.result()


def run_seed(seed: int, given: dict[str, Any], judging: Judging) -> SeedResult:
    """Run one seed. Never raises, since an error of one seed must not hide what the others found."""
    try:
        return judge_seed(seed, given, judging)
    except Exception as error:
        return SeedResult(
            seed=seed,
            workload=str(given.get("workload", "queue")),
            valid="unknown",
            digest="",
            acked=0,
            bitten=(),
            dirty_power_cut=False,
            cpu_s=0.0,
            summary=(f"harness error: {raised_text(error)}",),
            failed=True,
        )


def campaign_of(seed: int, given: dict[str, Any], judging: Judging) -> Campaign:
    """Raises CampaignError, BadInput."""
    given = dict(given)
    choose_faults(seed, given, judging.provider)
    return draw_campaign(seed, given)


def judge_seed(seed: int, given: dict[str, Any], judging: Judging) -> SeedResult:
    from staticfire.checkers.verdicts.compose import CLIENT_CHECKERS, check_run
    from staticfire.harness.console.console import summary_lines
    from staticfire.harness.report.verdict_lines import verdict_lines
    from staticfire.harness.results.fingerprint import full_fingerprint
    from staticfire.harness.runs.any_runner import runner_of

    started, started_s = time.process_time(), time.monotonic()
    campaign = campaign_of(seed, given, judging)
    result = runner_of(campaign, judging.provider)(campaign)
    verdict = result.verdict
    if judging.client_only:
        verdict = check_run(result.ops, [], result.facts, CLIENT_CHECKERS)
    cuts = [record for record in result.faults if record.evidence.get("lost_bytes", 0) > 0]
    cpu_s = time.process_time() - started
    lines = (
        () if verdict.valid is True else (*summary_lines(result, cpu_s), *verdict_lines(verdict))
    )
    violated = sorted(verdict.violations())
    return SeedResult(
        seed=seed,
        workload=campaign.workload,
        valid=verdict.valid,
        digest=result.digest,
        acked=result.acknowledged,
        bitten=tuple(dict.fromkeys(r.planned.kind for r in result.faults if r.bitten)),
        dirty_power_cut=bool(cuts),
        cpu_s=round(cpu_s, 3),
        summary=lines,
        coverage=dict(result.verdict.coverage),
        caveats=verdict.caveats,
        interrupted=result.interrupted,
        fingerprint=str(full_fingerprint(verdict, result.faults, campaign.topology()) or ""),
        anomalies=tuple(violated),
        wall_s=round(time.monotonic() - started_s, 3),
    )
