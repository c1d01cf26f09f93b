"""`staticfire shrink`: makes a failing run small."""

from __future__ import annotations

import io
import time
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING

import click

from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.effort import effort_options
from staticfire.harness.cli.explain.command import explain_run, not_repeated
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.run import make_folder, run_in
from staticfire.harness.cli.shrink.failed_run import failed_run
from staticfire.harness.cli.status import (
    EXIT_VALID,
    BadInput,
    HarnessError,
    of_a_file,
    one_sentence,
)
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError
from staticfire.harness.run_folder.shrunk import SHRUNK_CAMPAIGN, SHRUNK_FOLDER, STORY_FILE

if TYPE_CHECKING:
    from staticfire.harness.results.fingerprint import Fingerprint
    from staticfire.harness.shrink.trials import Trial

BUDGET_S = 60.0


@click.command(short_help="Shrink a failing run.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--out", type=click.Path(path_type=Path), help="Folder for the results. Default: RUN/shrunk."
)
@effort_options(BUDGET_S, "Time for the search.")
@system_option(expose=False)
def shrink(run: Path, out: Path | None, budget: float, jobs: int) -> int:
    """Search for the smallest campaign that fails as the run in folder RUN did.

    \b
    Example:
      staticfire shrink runs/20261120-101500-queue-1
      staticfire shrink runs/20261120-101500-queue-1 --budget 300 --out small

    It removes faults, single ops, clients, nodes, queues and options, as long as one of a few seeds still shows the
    same anomaly. It writes shrunk.toml, a campaign file with every op and every fault; test_shrunk.py, a test for
    pytest; and shrunk.txt. Each step writes them, so an interrupted search keeps its best result. At the end,
    story.txt explains the shrunk run.

    A run on real machines does not repeat exactly. For such a run, the command prints commands that try it again, also
    in the simulation.

    Exit status: 0 shrunk, or commands printed, 254 bad arguments, 255 harness error.
    """
    folder = RunFolder(run)
    campaign, document = failed_run(folder)
    if campaign.environment != "simulation":
        _print_recipe(folder, campaign, document["verdict"], out or run / SHRUNK_FOLDER)
        return EXIT_VALID
    use_defect(campaign.defect)
    first, wanted = _repeated(folder, campaign, str(document["digest"]))
    _shrink(out or run / SHRUNK_FOLDER, first, wanted, jobs, time.monotonic() + budget)
    return EXIT_VALID


def _print_recipe(
    folder: RunFolder, campaign: Campaign, verdict: dict[str, object], out: Path
) -> None:
    """Print the commands for a run on real machines. Raises BadInput, HarnessError."""
    from staticfire.checkers.verdicts.compose import RunVerdict
    from staticfire.harness.shrink.outputs import write_whole
    from staticfire.harness.shrink.recipe import RECIPE_FILE, recipe_of

    try:
        recipe = recipe_of(campaign, RunVerdict.from_json(verdict), folder.read_faults())
    except RunFolderError as error:
        raise BadInput(str(error)) from error
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadInput(f"{folder.path} holds no verdict: {error}") from error
    if recipe is None:
        raise BadInput(
            f"{folder.path} names no violation; `staticfire check {folder.path}` judges it again"
        )
    if recipe.is_smaller:
        try:
            out.mkdir(parents=True, exist_ok=True)
            write_whole(out / RECIPE_FILE, recipe.campaign.to_toml())
        except OSError as error:
            raise of_a_file(error, out) from error
    print("\n".join(recipe.lines(folder.path, out)))


def _repeated(folder: RunFolder, campaign: Campaign, expected: str) -> tuple[Trial, Fingerprint]:
    """Repeat the run; return it and its fingerprint. Raises BadInput for a run that this version does not repeat."""
    from staticfire.harness.shrink.trials import run_trial

    with working("repeating"):
        first = run_trial(campaign)
    if first.digest != expected or first.fingerprint is None:
        raise not_repeated(folder)
    return first, first.fingerprint


def _shrink(out: Path, first: Trial, wanted: Fingerprint, jobs: int, until: float) -> None:
    from staticfire.harness.shrink.outputs import lines, write_outputs
    from staticfire.harness.shrink.search import Search, WorkerLost

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
            raise of_a_file(error, out) from error
        took = f"{time.monotonic() - started:6.1f} s {search.cpu_s:6.1f} CPU s"
        faults, ops = len(best.campaign.plan), len(best.ops)
        load = f"{best.campaign.load_s:g} s of load"
        with progress.aside():
            print(f"{took}  {name:<9} {faults} faults, {ops} ops, {load}", flush=True)

    def tried() -> None:
        progress.update(search.runs, details=f"{search.cpu_s:.0f} CPU s; {len(best.ops)} ops left")

    print(f"shrink    {wanted}", flush=True)
    search = Search(wanted, jobs, until, improved, tried)
    try:
        with working("shrinking", unit="runs", forks=True) as progress:
            _written("the run")
            is_complete = search.run(first)
    except KeyboardInterrupt:
        raise HarnessError(f"interrupted; the best so far is in {out}") from None
    except WorkerLost as error:
        raise HarnessError(f"{error}; the best so far is in {out}") from error
    if not is_complete:
        print("the budget is spent; --budget gives it more time")
    print(f"tried     {search.runs} runs, {search.cpu_s:.1f} CPU s")
    for reason, count in search.not_run.most_common(3):
        print(f"note      {count} campaigns could not be run: {one_sentence(reason)}")
    print("\n".join(lines(out, first, best, wanted)))
    _tell(out, best)


def _tell(out: Path, best: Trial) -> None:
    """Run the shrunk campaign once more and explain it. Raises HarnessError if it does not repeat."""
    from staticfire.harness.shrink.outputs import write_whole

    folder = make_folder(best.campaign, out / "runs")
    result = run_in(folder, best.campaign, MachineOptions())
    if result.digest != best.digest:
        raise HarnessError(f"{out / SHRUNK_CAMPAIGN} does not repeat")
    story = io.StringIO()
    with redirect_stdout(story):
        explain_run(folder.path)
    write_whole(out / STORY_FILE, story.getvalue())
    print(f"{story.getvalue()}the shrunk campaign repeats bit by bit")
