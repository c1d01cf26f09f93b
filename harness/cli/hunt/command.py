"""`staticfire hunt`: many seeds of one campaign, on all cores."""

from __future__ import annotations

import hashlib
import math
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import click

from staticfire.checkers.guarantees.anomaly_rules import RULES
from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import DEFAULT_SYSTEM, Campaign, CampaignError
from staticfire.harness.cli.completion import anomalies, one_of
from staticfire.harness.cli.effort import check_budget
from staticfire.harness.cli.external_cluster import take_cluster
from staticfire.harness.cli.hunt.breeding import Behaviour, behaviours_of
from staticfire.harness.cli.hunt.generations import run_guided, run_seeds
from staticfire.harness.cli.hunt.merge import merge
from staticfire.harness.cli.hunt.outputs import say_hunt
from staticfire.harness.cli.hunt.pace import rate_text
from staticfire.harness.cli.hunt.placement import Placement, placement_options
from staticfire.harness.cli.hunt.rows import Rows, former_results
from staticfire.harness.cli.hunt.seed_range import seed_range
from staticfire.harness.cli.hunt.seeds import Judging, SeedResult, campaign_of
from staticfire.harness.cli.hunt.summary import print_planned, print_summary, print_total
from staticfire.harness.cli.hunt.workers import Workers
from staticfire.harness.cli.machine_options import machine_options
from staticfire.harness.cli.options import (
    campaign_options,
    check_nodes,
    given_options,
    said_options,
)
from staticfire.harness.cli.outputs import Outputs, output_options
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import (
    EXIT_HARNESS_ERROR,
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    BadInput,
    HarnessError,
    turn_errors,
)
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.systems.errors import SystemRefused
from staticfire.harness.systems.registry import system_named
from staticfire.harness.truncated_repr import printable, truncated_repr
from staticfire.harness.version import versions


class _Hunt(click.Group):
    """A group that is also a command itself."""

    def collect_usage_pieces(self, ctx: click.Context) -> list[str]:
        return [*click.Command.collect_usage_pieces(self, ctx), "[merge ROWS...]"]


@click.group(cls=_Hunt, invoke_without_command=True, short_help="Run many seeds of a campaign.")
@click.option(
    "--seeds",
    default="0-99",
    show_default=True,
    metavar="FIRST-LAST",
    help="Range of seeds, inclusive, or a single seed.",
)
@campaign_options
@machine_options
@placement_options
@click.option("--reverse", is_flag=True, help="Run the seeds in descending order.")
@click.option("--until-found", is_flag=True, help="Stop at the first seed that is invalid.")
@click.option(
    "--anomaly",
    metavar="NAME",
    shell_complete=one_of(anomalies),
    help="With --until-found: only a seed with this anomaly counts.",
)
@click.option(
    "--budget",
    type=float,
    metavar="SECONDS",
    help="Time for the hunt, after which it abandons the seeds still running.",
)
@click.option(
    "--guided",
    is_flag=True,
    help="For every other seed, breed a campaign from those that showed a new behaviour.",
)
@click.option(
    "--bred",
    "bred_folder",
    type=click.Path(file_okay=False, path_type=Path),
    default=Path("bred"),
    show_default=True,
    help="Folder for bred campaigns whose runs are not valid.",
)
@click.option("--resume", is_flag=True, help="Continue from the rows in --out, if any.")
@click.option("--client-only", is_flag=True, help="Judge only by what clients recorded.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write one JSON line per seed, or Parquet if the name ends with .parquet.",
)
@click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Print each campaign with its plan, and exit."
)
@output_options
@click.pass_context
def hunt(
    context: click.Context,
    /,
    junit: Path | None,
    is_markdown: bool,
    is_json: bool,
    **given: Any,
) -> int:
    """Run one campaign with every seed of a range, and summarize the results.

    \b
    Example:
      staticfire hunt --campaign default --seeds 0-99
      staticfire hunt --workload ordered,retry --seeds 0-99
      staticfire hunt --workload all --seeds 0-299 --out rows.jsonl
      staticfire hunt --defect ack-before-fsync --seeds 0-49 --until-found
      staticfire hunt --seeds 0-9999 --budget 600 --until-found --anomaly lost
      staticfire hunt --workload all --seeds 0-999 --guided --out rows.jsonl --resume
      staticfire hunt --master spark://10.0.0.1:7077 --seeds 0-9999 --out rows.parquet
      staticfire hunt --seeds 0-99 --junit hunt.xml --markdown >> "$GITHUB_STEP_SUMMARY"
      staticfire hunt --environment address --name-server 127.0.0.1:9876 --seeds 0-4 --dry-run

    The command prints the first seed of each cause of failure in full, and one line for each later seed with the same
    cause. The summary has one line per cause, with its smallest seed.

    With --defect and without --campaign, the hunt uses the defect's own recipe. --workload may name several workloads,
    or all; they run one after the other. During the hunt, the rows of --out are in a file next to it that ends with
    .part; --resume skips the seeds in it. After --guided, repeat a bred seed from its campaign file, and any other seed
    by its number.

    A seed fails if its process ends, or if it takes longer than --seed-limit; the other seeds continue. At the end,
    `planned` counts the seeds that are done, have failed and were not run. --master runs the seeds on Spark, with this
    checkout and its planted bug; if an executor is lost, its seeds run again. `hunt merge` combines rows.

    Exit status: 0 none invalid, 1 some invalid, 2 only unknown, 254 bad arguments, 255 harness error.
    """
    if context.invoked_subcommand is not None:
        return EXIT_VALID
    outputs = Outputs(junit=junit, is_markdown=is_markdown, is_json=is_json)
    outputs.check()
    started_s = time.monotonic()
    results: list[SeedResult] = []
    with outputs.quiet():
        status, options = _hunt(results, **given)
    if not given["is_dry_run"]:
        say_hunt(outputs, results, options, status, time.monotonic() - started_s)
    return status


def _hunt(
    results: list[SeedResult],
    *,
    seeds: str,
    placement: Placement,
    reverse: bool,
    until_found: bool,
    anomaly: str | None,
    budget: float | None,
    guided: bool,
    bred_folder: Path,
    resume: bool,
    client_only: bool,
    out: Path | None,
    is_dry_run: bool,
    provider: MachineOptions,
    **options: object,
) -> tuple[int, dict[str, object]]:
    """Carry out the hunt and print it; add all results to `results`.

    Returns the exit status and the options of the campaign.
    """
    order = seed_range(seeds)
    placement.check()
    if budget is not None:
        check_budget(budget)
    judging, limits = Judging(client_only, provider), _limits(until_found, anomaly, budget)
    hunts = [{**options, "workload": name} for name in _workloads(options)]
    prepared = [_prepare(hunt_options, order, judging) for hunt_options in hunts]
    order = order[::-1] if reverse else order
    marks = [_mark(given, client_only, guided) for given in prepared]
    commit = versions().get("commit", "")
    former = _former(out, marks, commit) if resume else []
    how = _How(judging, commit, bred_folder if guided else None)
    is_real = prepared[0].get("environment", "simulation") != "simulation"
    if is_real:
        placement.check_real()
    if guided and is_real:
        raise BadInput("--guided breeds simulated campaigns; allowed: --environment simulation")
    if seeds.isdigit():
        print(f"seed {seeds} alone; --seeds FIRST-LAST is a range", file=sys.stderr)
    if is_dry_run or prepared[0].get("environment") == "address":
        _announce(
            [campaign_of(seed, given, judging) for given in prepared for seed in order],
            provider,
            is_dry_run,
        )
    if is_dry_run:
        return EXIT_VALID, options
    planned = len(order) * len(hunts)
    with Rows(out, former=former) as rows, placement.workers(is_real=is_real) as workers:
        for hunt_options, given, mark in zip(hunts, prepared, marks, strict=True):
            if len(hunts) > 1:
                print(f"workload  {hunt_options['workload']}", flush=True)
            found = [result for result in former if result.options == mark]
            try:
                _run_all(found, rows, order, given, mark, limits, how, workers)
            except (KeyboardInterrupt, HarnessError) as error:
                print_planned(planned, rows.results)
                if isinstance(error, HarnessError):
                    raise HarnessError(f"{error}{rows.where}") from error
                raise HarnessError(
                    f"interrupted after {len(rows.results)} of {planned} seeds{rows.where}"
                ) from None
            finally:
                if found:
                    print_summary(found, hunt_options)
            if limits.is_over or (found and limits.ends_with(found[-1])):
                break
        rows.finish()
        results.extend(rows.results)
    if len(hunts) > 1:
        print_total(rows.results)
    print_planned(planned, rows.results)
    if limits.is_over:
        print(f"budget    {budget:g} s are over: {len(rows.results)} of {planned} seeds done")
    return _status(rows.results), options


@dataclass(frozen=True, slots=True)
class _How:
    """The execution of the seeds. `bred_folder` is the folder of bred campaigns of a guided hunt."""

    judging: Judging
    commit: str
    bred_folder: Path | None


def _mark(given: dict[str, object], client_only: bool, guided: bool) -> str:
    """Return the mark that distinguishes rows of hunts with different options."""
    text = repr((sorted(given.items()), client_only, guided))
    return hashlib.sha256(text.encode()).hexdigest()[:12]


def _former(out: Path | None, marks: list[str], commit: str) -> list[SeedResult]:
    """Raises BadInput."""
    if out is None:
        raise BadInput("--resume goes on with the rows of --out, which is missing")
    return former_results(out, marks, commit)


@dataclass(frozen=True, slots=True)
class _Limits:
    """The conditions that end a hunt before its last seed."""

    until_found: bool
    anomaly: str | None  # the anomaly that counts as found; None: any
    ends_s: float  # of `time.monotonic`

    @property
    def is_over(self) -> bool:
        return time.monotonic() >= self.ends_s

    def ends_with(self, result: SeedResult) -> bool:
        wanted = self.anomaly is None or self.anomaly in result.anomalies
        return self.until_found and result.valid is False and wanted


def _limits(until_found: bool, anomaly: str | None, budget_s: float | None) -> _Limits:
    """Raises BadInput."""

    if anomaly is not None and anomaly not in RULES:
        raise BadInput(f"--anomaly is {truncated_repr(anomaly)}; allowed: {', '.join(RULES)}")
    if anomaly is not None and not until_found:
        raise BadInput("--anomaly says what ends a hunt with --until-found, which is missing")
    return _Limits(until_found, anomaly, time.monotonic() + (budget_s or math.inf))


def _workloads(options: dict[str, Any]) -> list[str | None]:
    """Return the names in --workload; None stands for the campaign's own workload. Raises BadInput."""
    text = options["workload"]
    if text == "all":
        system = given_options(**options).get("system", DEFAULT_SYSTEM)
        with turn_errors(SystemRefused, into=BadInput):
            return [*system_named(system).workloads]
    return [None] if text is None else [*dict.fromkeys(text.split(","))]


def _prepare(options: dict[str, Any], order: range, judging: Judging) -> dict[str, Any]:
    """Return the user's options, checked to make a campaign of each of these seeds. Raises BadInput, DefectError."""
    with turn_errors(CampaignError, FaultError, into=BadInput):
        given = given_options(**options)
        take_cluster(given, judging.provider, said_options(options))
        use_defect(str(given.get("defect", "")))
        for seed in (order[0], order[-1]):
            check_nodes(campaign_of(seed, given, judging), judging.provider)
    return given


def _announce(campaigns: list[Campaign], provider: MachineOptions, is_dry_run: bool) -> None:
    """Print what the hunt will do in an external cluster; in a dry run print every campaign."""
    from staticfire.harness.console.console import print_campaign
    from staticfire.harness.console.external_lines import external_hunt_lines

    if campaigns[0].is_external:
        print("\n".join(external_hunt_lines(campaigns, provider.name_servers)), flush=True)
    if is_dry_run:
        for campaign in campaigns:
            print_campaign(campaign, provider.name_servers)
        print("dry run   nothing is made, sent or broken")


def _run_all(
    found: list[SeedResult],
    rows: Rows,
    order: Sequence[int],
    given: dict[str, object],
    mark: str,
    limits: _Limits,
    how: _How,
    workers: Workers,
) -> None:
    """Run all seeds, and append results to `found` and `rows` as they come. Raises KeyboardInterrupt, HarnessError.

    A result from another process has texts of its own; with one text for each name of coverage it takes 2 KB, not 7.
    """
    started = time.monotonic()
    first_seeds: dict[str, int] = {}  # by fingerprint
    former = {result.seed: result for result in found}
    known = set[Behaviour]().union(*(behaviours_of(result.coverage) for result in found))
    if how.bred_folder is None:
        left = [seed for seed in order if seed not in former]
        results = run_seeds(left, given, workers, how.judging)
    else:
        results = run_guided(order, given, workers, how.judging, how.bred_folder, former)
    with working("hunt", total=len(order), unit="seeds", forks=True) as progress:
        for plain in results:
            coverage = {sys.intern(name): count for name, count in plain.coverage.items()}
            result = replace(plain, coverage=coverage, options=mark, commit=how.commit)
            known |= behaviours_of(result.coverage)
            found.append(result)
            rows.add(result)
            if result.valid is not True:
                with progress.aside():
                    print("\n".join(map(printable, _lines(result, first_seeds))), flush=True)
            rate = rate_text(len(found) - len(former), time.monotonic() - started)
            progress.update(len(found), details=f"{rate}; {len(known)} behaviours")
            if limits.ends_with(result) or limits.is_over:
                break
            if result.interrupted:
                raise KeyboardInterrupt


def _lines(result: SeedResult, first_seeds: dict[str, int]) -> list[str]:
    """Return the lines of a seed that is not valid: all of them for a cause that no former seed had."""
    cause = result.fingerprint
    name = f"seed {result.seed}, bred as {result.bred}" if result.bred else f"seed {result.seed}"
    if cause and first_seeds.setdefault(cause, result.seed) != result.seed:
        return [f"{name}: {result.valid}  {cause}, as seed {first_seeds[cause]}"]
    return [f"{name}: {result.valid}", *result.summary]


def _status(results: list[SeedResult]) -> int:
    answers = {str(result.valid) for result in results}
    if "False" in answers:
        return EXIT_INVALID
    if any(result.failed for result in results):
        return EXIT_HARNESS_ERROR
    return EXIT_VALID if "True" in answers else EXIT_UNKNOWN


hunt.add_command(merge)
