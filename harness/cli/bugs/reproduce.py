"""`staticfire reproduce`: a planted bug, from its recipe to the explanation of a run that shows it."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

import click
import orjson

from staticfire.faults.defects import Defect
from staticfire.harness.cli.bugs.bugs import bug_named
from staticfire.harness.cli.completion import defects, one_of
from staticfire.harness.cli.crash_store import shrunk_cycle
from staticfire.harness.cli.effort import effort_options
from staticfire.harness.cli.explain.command import explain_run
from staticfire.harness.cli.hunt.generations import run_seeds
from staticfire.harness.cli.hunt.seeds import Judging, SeedResult, campaign_of
from staticfire.harness.cli.hunt.workers import Workers, workers_here
from staticfire.harness.cli.options import given_options, runs_option
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.run import make_folder, run_in
from staticfire.harness.cli.status import EXIT_UNKNOWN, EXIT_VALID, HarnessError
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.truncated_repr import printable_json
from staticfire.harness.workloads.catalogue import WORKLOADS

BUDGET_S = 60.0
SEEDS_MAX = 100_000  # of one search; the budget ends it long before
SEEDS_AT_ONCE = 100  # that wait for a process


@dataclass(slots=True, kw_only=True)
class Search:
    """The result of a search for one bug, as `--json` prints it."""

    name: str
    how: str  # "recipe", "blind" or "store crashes"
    seeds: int = 0  # judged, the last one included; of store crashes: cycles
    seed: int | None = None  # the one that shows the bug
    workload: str = ""
    anomalies: tuple[str, ...] = ()  # that it shows
    failed: int = 0  # seeds that the harness could not carry out
    cpu_s: float = 0.0  # of all seeds
    wall_s: float = 0.0


@click.command(short_help="Reproduce a planted bug and explain the failure.")
@click.argument("name", shell_complete=one_of(defects))
@click.option(
    "--blind",
    is_flag=True,
    help="Draw workload, options and faults from the seed instead of using the recipe.",
)
@effort_options(BUDGET_S, "Time for the search.")
@click.option(
    "--json", "is_json", is_flag=True, help="Print the result of the search as JSON, and exit."
)
@runs_option
def reproduce(name: str, blind: bool, budget: float, jobs: int, is_json: bool, runs: Path) -> int:
    """Plant the bug NAME, run its recipe until a seed shows it, keep that run and explain it.

    Some bugs are shown only by crashes of the store alone; for these it keeps the smallest failing cycle.

    \b
    Example:
      staticfire reproduce ack-before-fsync
      staticfire reproduce ack-before-fsync --blind --budget 600 --json

    The recipe is the campaign in the bug's file. --blind tests whether the bug is found without it: the workloads take
    turns, and the seed draws everything else.

    Exit status: 0 found, 2 not found in time, 254 bad arguments, 255 harness error.
    """
    bug = bug_named(name)
    use_defect(bug.name)
    if not is_json:
        print(f"bug       {bug.name}: {bug.title}\nsource    {bug.source}", flush=True)
    if bug.store_crashes and not blind:
        return _by_store_crashes(bug, jobs, runs, is_json)
    search = Search(name=bug.name, how="blind" if blind else "recipe")
    found = _search(bug, search, jobs, budget)
    if is_json:
        print(printable_json(orjson.dumps(asdict(search))))
        return EXIT_VALID if found else EXIT_UNKNOWN
    if found is None:
        print(
            f"not found {search.seeds} seeds in {search.wall_s:.0f} s, none invalid; --budget allows more"
        )
        return EXIT_UNKNOWN
    print(
        f"found     seed {search.seed} of workload {search.workload}, the {_th(search.seeds)} that was judged: "
        f"{', '.join(search.anomalies)}; {search.cpu_s:.1f} CPU s",
        flush=True,
    )
    seed, given = found
    _keep_and_explain(seed, given, runs)
    return EXIT_VALID


def _search(
    bug: Defect, search: Search, jobs: int, budget_s: float
) -> tuple[int, dict[str, object]] | None:
    """Find the first invalid seed, and the options of its campaign. Raises HarnessError, KeyboardInterrupt."""
    started = time.monotonic()
    first_failure = ""
    with (
        working("searching", unit="seeds", forks=jobs > 1) as progress,
        workers_here(jobs) as workers,
    ):
        for given, result in _judged(bug, workers, jobs, is_blind=search.how == "blind"):
            search.seeds += 1
            search.cpu_s = round(search.cpu_s + result.cpu_s, 3)
            search.wall_s = round(time.monotonic() - started, 3)
            if result.failed:
                search.failed += 1
                first_failure = first_failure or "\n".join(result.summary)
            if result.valid is False:
                search.seed, search.workload = result.seed, result.workload
                search.anomalies = result.anomalies
                return result.seed, given
            if result.interrupted:
                raise KeyboardInterrupt
            if search.wall_s >= budget_s:
                break
            progress.update(search.seeds, details="none invalid")
    if search.failed == search.seeds:
        raise HarnessError(f"no seed could be run; the first says: {first_failure}")
    return None


def _judged(
    bug: Defect, workers: Workers, jobs: int, *, is_blind: bool
) -> Iterator[tuple[dict[str, object], SeedResult]]:
    judging = Judging(client_only=False, provider=MachineOptions())
    if not is_blind:
        given = given_options(
            campaign=None, followers=None, leaders=None, faults=None, defect=bug.name
        )
        for first in range(0, SEEDS_MAX, SEEDS_AT_ONCE):
            for result in run_seeds(range(first, first + SEEDS_AT_ONCE), given, workers, judging):
                yield given, result
        return
    for first in range(0, SEEDS_MAX, jobs):
        for workload in WORKLOADS:
            drawn: dict[str, object] = {"workload": workload, "defect": bug.name}
            for result in run_seeds(range(first, first + jobs), drawn, workers, judging):
                yield drawn, result


def _keep_and_explain(seed: int, given: dict[str, object], runs: Path) -> None:
    provider = MachineOptions()
    campaign = campaign_of(seed, given, Judging(client_only=False, provider=provider))
    folder = make_folder(campaign, runs)
    run_in(folder, campaign, provider)
    explain_run(folder.path)


def _by_store_crashes(bug: Defect, jobs: int, runs: Path, is_json: bool) -> int:
    """Search by crashes of the store alone, for a bug that the broker hides from clients, and shrink the cycle."""
    from staticfire.harness.store_crash.cycles import (
        CHUNK_SIZE,
        CrashSummary,
        run_parallel,
        store_policy,
    )

    started = time.monotonic()
    total, policy = CrashSummary(), store_policy(())
    with working("crashing", total=bug.store_crashes, unit="cycles", forks=True) as progress:

        def report(part: CrashSummary) -> None:
            progress.update(total.counts.cycles + part.counts.cycles)

        while not total.failures and (done := total.counts.cycles) < bug.store_crashes:
            count = min(CHUNK_SIZE * jobs, bug.store_crashes - done)
            total.add(run_parallel(done, count, jobs, report, policy))
    seeds = [failure.seed for failure in total.failures]
    if is_json:
        search = Search(
            name=bug.name,
            how="store crashes",
            seeds=total.counts.cycles,
            seed=min(seeds, default=None),
            cpu_s=round(total.cpu_s, 3),
            wall_s=round(time.monotonic() - started, 3),
        )
        print(printable_json(orjson.dumps(asdict(search))))
    else:
        print("\n".join(total.lines(f"staticfire crash-store --defect {bug.name}", hints=False)))
        if seeds:
            runs.mkdir(parents=True, exist_ok=True)
            path = runs / f"{bug.name}-cycle.json"
            print("\n".join(shrunk_cycle(min(seeds), policy, path, bug.name)))
    return EXIT_VALID if seeds else EXIT_UNKNOWN


def _th(number: int) -> str:
    ending = "th" if number % 100 in (11, 12, 13) else {1: "st", 2: "nd", 3: "rd"}.get(number % 10)
    return f"{number}{ending or 'th'}"
