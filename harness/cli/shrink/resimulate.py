"""`staticfire resimulate`: looks in the simulation for the failure of a run on real machines."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import FIRST_COMPLETED, Future, wait
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

import click

from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.effort import effort_options
from staticfire.harness.cli.options import runs_option, system_option
from staticfire.harness.cli.progress import Progress, working
from staticfire.harness.cli.run import make_folder, run_in
from staticfire.harness.cli.shrink.failed_run import failed_run
from staticfire.harness.cli.status import (
    EXIT_UNKNOWN,
    EXIT_VALID,
    BadInput,
    HarnessError,
    one_sentence,
)
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError
from staticfire.harness.worker_processes import WorkerPool

if TYPE_CHECKING:
    from staticfire.harness.results.fingerprint import Fingerprint
    from staticfire.harness.shrink.near import Variant
    from staticfire.harness.shrink.trials import Answer, Trial

BUDGET_S = 480.0


@dataclass(slots=True)
class Tried:
    """The tries so far."""

    started_s: float = field(default_factory=time.monotonic)
    runs: int = 0
    cpu_s: float = 0.0
    by_variant: Counter[str] = field(default_factory=Counter)
    shown: Counter[str] = field(default_factory=Counter)  # counts of other failures, by fingerprint
    not_run: Counter[str] = field(default_factory=Counter)

    @property
    def wall_s(self) -> float:
        return time.monotonic() - self.started_s

    @property
    def others(self) -> str:
        return f"{sum(self.shown.values())} with another failure" if self.shown else ""

    def lines(self) -> list[str]:
        variants = ", ".join(f"{name} {count}" for name, count in self.by_variant.items())
        lines = [
            f"tried     {self.runs} runs in {self.wall_s:.0f} s, {self.cpu_s:.0f} CPU s: {variants}"
        ]
        for fingerprint, count in self.shown.most_common(5):
            lines.append(f"seen      {fingerprint} in {count}, which is another failure")
        for reason, count in self.not_run.most_common(3):
            lines.append(f"note      {count} campaigns could not be run: {one_sentence(reason)}")
        return lines


@click.command(short_help="Search the simulation for the failure of a real run.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@effort_options(BUDGET_S, "Time for the search.")
@runs_option
@system_option(expose=False)
def resimulate(run: Path, budget: float, jobs: int, runs: Path) -> int:
    """Search the simulation, near the run's plan, for the failure of the real run in folder RUN.

    \b
    Example:
      staticfire resimulate runs/20261120-101500-queue-1
      staticfire resimulate runs/20261120-101500-queue-1 --budget 120 --runs found

    Each attempt has the options of the run, and its faults at, or near, the times at which they were fired. After
    eight variants come the same variants with the next seed. The command keeps the first attempt with the same anomaly
    as a run, for `shrink`. If there is none, it prints what it tried.

    Exit status: 0 found, 2 not found in time, 254 bad arguments, 255 harness error.
    """
    folder = RunFolder(run)
    campaign, document = failed_run(folder)
    if campaign.environment == "simulation":
        raise BadInput(
            f"{run} is a simulated run already; `staticfire shrink {run}` makes it small"
        )
    use_defect(campaign.defect)
    base, wanted = _wanted(folder, campaign, document["verdict"])
    from staticfire.harness.shrink.near import lacking

    print(f"failure   {wanted}", flush=True)
    for what, how in lacking(campaign).items():
        print(f"note      {what}: {how}", flush=True)
    tried = Tried()
    found = _search(base, wanted, jobs, budget, tried)
    if found is None:
        print("\n".join(["not found", *tried.lines()]))
        return EXIT_UNKNOWN
    variant, trial = found
    kept = make_folder(trial.campaign, runs)
    if run_in(kept, trial.campaign, MachineOptions()).digest != trial.digest:
        raise HarnessError(f"{kept.path} does not repeat")
    print(f"found     {trial.fingerprint}: {variant.name}, seed {trial.campaign.seed}")
    print("\n".join(tried.lines()))
    kept_path = shlex.quote(str(kept.path))
    print(f"go on     staticfire shrink {kept_path}\ngo on     staticfire explain {kept_path}")
    return EXIT_VALID


def _wanted(
    folder: RunFolder, campaign: Campaign, verdict: dict[str, object]
) -> tuple[Campaign, Fingerprint]:
    """Return the campaign to vary and the wanted fingerprint, whose fault may differ in a try. Raises BadInput."""
    from staticfire.checkers.verdicts.compose import RunVerdict
    from staticfire.harness.results.fingerprint import fingerprint_of
    from staticfire.harness.shrink.near import simulated

    try:
        records = folder.read_faults()
        missing = {one.fault_id for one in campaign.plan} - {of.planned.fault_id for of in records}
        if missing:
            raise BadInput(
                f"{folder.path} is torn: its faults.jsonl lacks {len(missing)} of {len(campaign.plan)} planned faults, "
                "so the times at which they struck are not known"
            )
        wanted = fingerprint_of(RunVerdict.from_json(verdict).violations())
        base = simulated(campaign, records)
    except RunFolderError as error:
        raise BadInput(str(error)) from error
    except (CampaignError, FaultError) as error:
        raise BadInput(f"{folder.path} cannot be simulated: {error}") from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{folder.path} holds no verdict: {error}") from error
    if wanted is None:
        raise BadInput(
            f"{folder.path} names no violation; `staticfire check {folder.path}` judges it again"
        )
    return base, wanted


def _search(
    base: Campaign, wanted: Fingerprint, jobs: int, budget_s: float, tried: Tried
) -> tuple[Variant, Trial] | None:
    """Return the first try with the wanted fingerprint; None if none has it in time. Raises HarnessError."""
    from staticfire.harness.shrink.near import near

    with WorkerPool(jobs) as pool:
        try:
            with working("searching", unit="runs", forks=True) as progress:
                return _first(pool, near(base), wanted, jobs, budget_s, tried, progress)
        except KeyboardInterrupt:
            raise HarnessError("\n".join(["interrupted", *tried.lines()])) from None
        except BrokenProcessPool as error:
            raise HarnessError("a process that ran a campaign was killed") from error
        finally:
            pool.end()


def _first(
    pool: WorkerPool,
    tries: Iterator[tuple[Variant, Campaign]],
    wanted: Fingerprint,
    jobs: int,
    budget_s: float,
    tried: Tried,
    progress: Progress,
) -> tuple[Variant, Trial] | None:
    from staticfire.harness.shrink.trials import try_near

    under_way: dict[Future[Answer], Variant] = {}
    while True:
        while len(under_way) < jobs:
            variant, campaign = next(tries)
            under_way[pool.submit(try_near, campaign)] = variant
        progress.update(tried.runs, details=tried.others)
        left_s = budget_s - tried.wall_s
        done, _ = wait(under_way, timeout=max(left_s, 0.0), return_when=FIRST_COMPLETED)
        if not done:
            return None
        for future in done:
            variant, answer = under_way.pop(future), future.result()
            _count(tried, variant, answer)
            if answer.found is None or answer.found.fingerprint is None:
                continue
            shown = answer.found.fingerprint.without_fault
            if shown == wanted:
                return variant, answer.found
            tried.shown[str(shown)] += 1


def _count(tried: Tried, variant: Variant, answer: Answer) -> None:
    tried.runs += answer.runs
    tried.cpu_s += answer.cpu_s
    tried.by_variant[variant.name] += 1
    if answer.not_run:
        tried.not_run[answer.not_run] += 1
