"""One seed of a hunt: run and judged."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import NamedTuple

from staticfire.checkers.verdicts.compose import CLIENT_CHECKERS, check_run
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.options import choose_faults
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.raised_text import raised_text
from staticfire.harness.results.fingerprint import full_fingerprint
from staticfire.harness.runs.any_runner import runner_of


@dataclass(frozen=True, slots=True, kw_only=True)
class SeedResult:
    """The result of one seed that a hunt keeps."""

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
    interrupted: bool = False  # the user interrupted it
    failed: bool = False  # the harness could not carry the run out
    fingerprint: str = ""  # of an invalid run: its cause, as in results/fingerprint.py
    anomalies: tuple[str, ...] = ()  # with violations, in order of their names
    bred: str = ""  # the file of a campaign that was not drawn from its seed (breeding.py)
    options: str = ""  # the mark of the hunt's options
    commit: str = ""  # commit of the code that ran it; empty outside a checkout
    environment: str = "simulation"
    wall_s: float = 0.0

    @property
    def row(self) -> dict[str, object]:
        return {name: getattr(self, name) for name in self.__slots__}


class Judging(NamedTuple):
    """The options for running and judging the seeds of a hunt."""

    client_only: bool
    provider: MachineOptions


def run_seed(seed: int, given: dict[str, object], judging: Judging) -> SeedResult:
    """Run one seed. Never raises, so that one bad seed does not end the hunt."""
    try:
        return judge_seed(seed, given, judging)
    except Exception as error:
        return failed_seed(seed, given, raised_text(error))


def failed_seed(seed: int, given: dict[str, object], reason: str) -> SeedResult:
    """Return the result of a seed that could not be carried out."""
    return SeedResult(
        seed=seed,
        workload=str(given.get("workload", "queue")),
        valid="unknown",
        digest="",
        acked=0,
        bitten=(),
        dirty_power_cut=False,
        cpu_s=0.0,
        summary=(f"harness error: {reason}",),
        failed=True,
    )


def campaign_of(seed: int, given: dict[str, object], judging: Judging) -> Campaign:
    """Return the campaign of a seed. Raises CampaignError, BadInput."""
    given = dict(given)
    choose_faults(seed, given, judging.provider)
    return draw_campaign(seed, given)


def judge_seed(seed: int, given: dict[str, object], judging: Judging) -> SeedResult:
    from staticfire.harness.console.console import summary_lines
    from staticfire.harness.report.verdict_lines import verdict_lines

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
        environment=campaign.environment,
        wall_s=round(time.monotonic() - started_s, 3),
    )
