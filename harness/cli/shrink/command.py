"""`staticfire shrink`: make a failing run small."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import TYPE_CHECKING

import click

from staticfire.faults.defects import DefectError
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.effort import check_budget, check_jobs
from staticfire.harness.cli.hunt.seeds import begin_worker
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.status import EXIT_VALID, BadInput, HarnessError, one_sentence
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder, RunFolderError
from staticfire.harness.version import version_line

if TYPE_CHECKING:
    from staticfire.harness.results.fingerprint import Fingerprint
    from staticfire.harness.shrink.trials import Trial

BUDGET_S = 60.0


@click.command(short_help="Make a failing run small.")
@click.argument("run", type=click.Path(path_type=Path))
@click.option("--out", type=click.Path(path_type=Path), help="Folder. Default: RUN/shrunk.")
@click.option(
    "--budget",
    default=BUDGET_S,
    show_default=True,
    metavar="SECONDS",
    help="Time that it may take.",
)
@click.option(
    "--jobs",
    type=int,
    default=os.cpu_count() or 1,
    show_default="one a processor",
    help="Processes.",
)
@system_option(expose=False)
def shrink(run: Path, out: Path | None, budget: float, jobs: int) -> int:
    """Look for the smallest campaign that fails as the simulated run in folder RUN did.

    \b
    Example:
      staticfire shrink runs/20261120-101500-queue-1
      staticfire shrink runs/20261120-101500-queue-1 --budget 300 --out small

    It leaves out faults, clients, ops, nodes, queues and options, and keeps what still shows the same anomaly under one
    of a few seeds. The folder gets shrunk.toml, a campaign file that needs no other input; test_shrunk.py, a test for
    pytest; and shrunk.txt. They are written at every step, so that Ctrl-C keeps the best so far.

    Exit status: 0 shrunk, 254 bad arguments, 255 harness error.
    """
    check_jobs(jobs)
    check_budget(budget)
    folder = RunFolder(run)
    campaign, expected = _failing(folder)
    try:
        use_defect(campaign.defect)
    except DefectError as error:
        raise BadInput(str(error)) from error
    first, wanted = _repeated(folder, campaign, expected)
    _shrink(out or run / "shrunk", first, wanted, jobs, time.monotonic() + budget)
    return EXIT_VALID


def _failing(folder: RunFolder) -> tuple[Campaign, str]:
    """The campaign and the digest of a run that can be shrunk. Raises BadInput."""
    try:
        campaign = folder.read_campaign()
        document = folder.read_verdict()
    except RunFolderError as error:
        raise BadInput(str(error)) from error
    if campaign.environment != "simulation":
        raise BadInput(
            f"{folder.path} was run in the environment {campaign.environment}, and only a simulated run repeats; "
            f"`staticfire run --campaign {folder.path}/{CAMPAIGN_FILE}` does its plan again"
        )
    if (valid := document["verdict"]["valid"]) is not False:
        raise BadInput(
            f"{folder.path} is {'valid' if valid is True else valid}; only a run that is invalid can be shrunk, "
            f"and `staticfire hunt --until-found` looks for one"
        )
    return campaign, str(document["digest"])


def _repeated(folder: RunFolder, campaign: Campaign, expected: str) -> tuple[Trial, Fingerprint]:
    """The run again, and its fingerprint. Raises BadInput for a run that this version does not repeat."""
    from staticfire.harness.shrink.trials import run_trial

    first = run_trial(campaign)
    if first.digest != expected or first.fingerprint is None:
        raise BadInput(
            f"{folder.path} is not repeated by this version: since it was recorded, its campaign.toml or the code has "
            f"changed{folder.recorded_by()}; this is {version_line()}; "
            f"`staticfire run --campaign {folder.path}/{CAMPAIGN_FILE}` makes a run of this version"
        )
    return first, first.fingerprint


def _shrink(out: Path, first: Trial, wanted: Fingerprint, jobs: int, until: float) -> None:
    from staticfire.harness.shrink.outputs import lines, write_outputs
    from staticfire.harness.shrink.search import Search, WorkerLost
    from staticfire.harness.shrink.trials import run_trial

    started = time.monotonic()
    best = first

    def improved(name: str, trial: Trial) -> None:
        nonlocal best
        best = trial
        _written(name)

    def _written(name: str) -> None:
        try:
            write_outputs(out, first, best, wanted)
        except OSError as error:
            raise HarnessError(f"{out} cannot be written: {error.strerror}") from error
        print(
            f"{time.monotonic() - started:6.1f} s  {name:<9} {len(best.campaign.plan)} faults, "
            f"{best.sends} sends, {best.campaign.load_s:g} s of load",
            flush=True,
        )

    print(f"shrink    {wanted}", flush=True)
    _written("the run")
    try:
        search = Search(wanted, jobs, until, improved, begin_worker)
        is_complete = search.run(first)
    except KeyboardInterrupt:
        raise HarnessError(f"interrupted; the best so far is in {out}") from None
    except WorkerLost as error:
        raise HarnessError(f"{error}; the best so far is in {out}") from error
    if not is_complete:
        print("the budget is spent; --budget gives it more time")
    for reason, count in search.not_run.most_common(3):
        print(f"note      {count} campaigns could not be run: {one_sentence(reason)}")
    print("\n".join(lines(out, first, best, wanted)))
    if run_trial(best.campaign).digest != best.digest:
        raise HarnessError(f"{out} holds a campaign that does not repeat")
    print("the shrunk campaign repeats bit by bit")
