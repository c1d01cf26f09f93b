"""`staticfire table`: campaigns x environments on a target, with a row for each run. It skips runs that have a row."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterable, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import click

from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import ENVIRONMENTS, Campaign, CampaignError, OneOf
from staticfire.harness.campaign.file import campaign_names
from staticfire.harness.cli.completion import one_of, some_of
from staticfire.harness.cli.external_cluster import take_cluster
from staticfire.harness.cli.hunt.seed_range import seed_range
from staticfire.harness.cli.machine_options import machine_options
from staticfire.harness.cli.options import (
    check_nodes,
    choose_faults,
    given_options,
    missing_in,
    runs_option,
)
from staticfire.harness.cli.run import make_folder, run_in
from staticfire.harness.cli.status import (
    EXIT_INVALID,
    EXIT_UNKNOWN,
    EXIT_VALID,
    BadInput,
    HarnessError,
    one_sentence,
)
from staticfire.harness.cli.table.markdown import markdown_lines, outcome
from staticfire.harness.cli.table.rows import NOT_HERE, SIMULATION_ONLY, Cell, Row, Table
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.report.verdict_lines import WORDS
from staticfire.harness.rocketmq.limits import PLACES

TARGETS = ("own", "apache")


@click.command(short_help="Run campaigns in several environments, and print a table.")
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    required=True,
    help="File of the rows, a JSON line a run. Runs in it are skipped.",
)
@click.option(
    "--target",
    default="own",
    show_default=True,
    shell_complete=one_of(TARGETS),
    help=f"Target: {' or '.join(TARGETS)}. apache is Apache RocketMQ in --home.",
)
@click.option(
    "--environments",
    default="simulation",
    show_default=True,
    shell_complete=some_of(ENVIRONMENTS),
    metavar="NAME[,NAME...]",
    help="Where nodes run. Replaces the campaigns' own environments, as --target replaces their targets.",
)
@click.option(
    "--campaigns",
    metavar="NAME|FILE[,...]",
    shell_complete=some_of(campaign_names),
    help="Named campaigns or TOML files. Default: all of `staticfire campaigns`.",
)
@click.option(
    "--seeds",
    default="1",
    show_default=True,
    metavar="FIRST-LAST",
    help="Range of seeds, inclusive, or a single seed.",
)
@machine_options
@runs_option
@click.option(
    "--print", "only_prints", is_flag=True, help="Print the table of --out, and run nothing."
)
def table(
    out: Path,
    target: str,
    environments: str,
    campaigns: str | None,
    seeds: str,
    provider: MachineOptions,
    runs: Path,
    only_prints: bool,
) -> int:
    """Run campaigns in several environments on one target, and print a Markdown table of the results.

    \b
    Example:
      staticfire table --environments simulation,processes --campaigns default --out own.jsonl
      staticfire table --target apache --home DIR --environments namespaces --out apache.jsonl
      staticfire table --out apache.jsonl --print

    After an interruption, repeat the same command to continue: it skips runs with a row in --out. A campaign that an
    environment cannot carry out gets a row with the reason. Progress goes to standard error.

    Exit status: 0 none invalid, 1 some invalid, 2 only unknown, 254 bad arguments, 255 harness error.
    """
    kept = Table(out)
    if only_prints:
        if not kept.rows:
            raise BadInput(f"--out {out} has no rows; without --print they are made")
        return _report(list(kept.rows.values()))
    prepared = _prepare(
        [
            Cell(target, campaign, environment, seed)
            for campaign in _names(campaigns)
            for environment in _environments(target, environments)
            for seed in seed_range(seeds)
        ],
        provider,
    )
    kept.begin()
    failed = _run_all(kept, prepared, runs, provider)
    status = _report([row for row in kept.rows.values() if row.target == target])
    if failed and status != EXIT_INVALID:
        raise HarnessError(
            f"{failed} of {len(prepared)} runs came to no verdict; the same command tries them again"
        )
    return status


def _names(campaigns: str | None) -> list[str]:
    return campaign_names() if campaigns is None else [*dict.fromkeys(campaigns.split(","))]


def _environments(target: str, text: str) -> list[str]:
    """Raises BadInput, also for an unknown target."""
    if target not in TARGETS:
        raise BadInput(f"--target is {target!r:.80}; allowed: {', '.join(TARGETS)}")
    names = [*dict.fromkeys(text.split(","))]
    for name in names:
        if name not in PLACES[target]:
            raise BadInput(
                f"--environments names {name!r:.80}; allowed with --target {target}: {', '.join(PLACES[target])}"
            )
    return names


# --- before the first run -------------------------------------------------------------------------


def _prepare(cells: Sequence[Cell], provider: MachineOptions) -> list[tuple[Cell, Campaign | Row]]:
    """Return the campaign of each cell, or a row with the reason that there is none. Raises BadInput, HarnessError."""
    for environment in dict.fromkeys(cell.environment for cell in cells):
        missing_in(environment, provider)  # an error that concerns all campaigns makes no row
    return [(cell, _campaign_of(cell, provider)) for cell in cells]


def _campaign_of(cell: Cell, provider: MachineOptions) -> Campaign | Row:
    given = given_options(
        campaign=cell.campaign,
        followers=None,
        leaders=None,
        faults=None,
        environment=cell.environment,
        target=cell.target,
    )
    given.pop("seed", None)
    if given.get("defect"):
        raise BadInput(
            f"campaign {cell.campaign} plants the defect {given['defect']}; allowed in a table: campaigns without one"
        )
    take_cluster(given, provider)
    named = dict(given)
    try:
        missing = choose_faults(cell.seed, given, provider)
        campaign = draw_campaign(cell.seed, given)
    except (BadInput, CampaignError, FaultError) as error:
        verdict = SIMULATION_ONLY if _is_for_simulation(named) else NOT_HERE
        return Row(**cell._asdict(), verdict=verdict, reason=str(error))
    try:
        check_nodes(campaign, provider)
    except (CampaignError, FaultError) as error:
        raise BadInput(f"campaign {cell.campaign}: {error}") from error
    for policy in named.get("policies", ()):
        if (reason := missing.get(f"policy {policy}")) is not None:
            _say(f"{cell.campaign} in {cell.environment} goes without policy {policy}: {reason}")
    return campaign


def _is_for_simulation(given: dict[str, object]) -> bool:
    """Whether the campaign names a fault that no real machine can carry out."""
    from staticfire.harness.environments.real.broken_machines import SIMULATED_ONLY
    from staticfire.harness.environments.real.catalogue import missing_faults

    named = {*_each(given.get("faults")), *(planned.kind for planned in _each(given.get("plan")))}
    return not named.isdisjoint(missing_faults(SIMULATED_ONLY))


def _each(option: Any) -> Iterable[Any]:
    """Return the elements of an option that is a list, or of all lists between which the seed decides."""
    return chain(*option.values) if isinstance(option, OneOf) else option or ()


# --- runs -----------------------------------------------------------------------------------------


def _run_all(
    kept: Table,
    prepared: Sequence[tuple[Cell, Campaign | Row]],
    runs: Path,
    provider: MachineOptions,
) -> int:
    """Run all cells; return how many have no verdict. Raises HarnessError, also if the user interrupts."""
    failed = 0
    for number, (cell, campaign) in enumerate(prepared, 1):
        name = (
            f"{number} of {len(prepared)}: {cell.campaign} in {cell.environment}, seed {cell.seed}"
        )
        if kept.is_done(cell):
            _say(f"{name}: {outcome(kept.rows[cell])} (it has a row)")
            continue
        if isinstance(campaign, Row):
            kept.add(campaign)
            _say(f"{name}: {campaign.verdict}: {campaign.reason}")
            continue
        try:
            row = _run(cell, campaign, runs, provider)
        except HarnessError as error:
            failed += 1
            _say(f"{name}: no verdict: {error}")
            continue
        except KeyboardInterrupt:
            row = None
        if row is None:
            raise HarnessError(
                f"interrupted at {number} of {len(prepared)} runs; the rows are in {kept.path}"
            )
        kept.add(row)
        _say(f"{name}: {outcome(row)} ({row.wall_s:.0f} s, {row.run})")
    return failed


def _run(cell: Cell, campaign: Campaign, runs: Path, provider: MachineOptions) -> Row | None:
    """Run a cell; return None if the user ended its load. Raises BadInput, HarnessError, KeyboardInterrupt."""
    from staticfire.harness.rocketmq.assembly.target_choice import version_of
    from staticfire.harness.version import versions

    found = versions()  # of the code that runs, since the checkout may change meanwhile
    folder = make_folder(campaign, runs)
    started = time.monotonic()
    result = run_in(folder, campaign, provider)
    if result.interrupted:
        return None
    if cell.target == "apache":
        found = {"rocketmq": version_of(campaign, provider), **found}
    verdict = result.verdict
    return Row(
        **cell._asdict(),
        verdict=WORDS[verdict.valid].lower(),
        reason="; ".join(verdict.unanswered()[:1]) if verdict.valid == "unknown" else "",
        anomalies=verdict.violations(),
        acknowledged=result.acknowledged,
        wall_s=round(time.monotonic() - started, 1),
        run=str(folder.path),
        versions=found,
    )


def _say(text: str) -> None:
    print(one_sentence(text), file=sys.stderr, flush=True)


def _report(rows: Sequence[Row]) -> int:
    """Print the table; return the exit status of its rows."""
    print("\n".join(markdown_lines(rows)), flush=True)
    verdicts = {row.verdict for row in rows}
    if "invalid" in verdicts:
        return EXIT_INVALID
    return EXIT_VALID if "valid" in verdicts else EXIT_UNKNOWN
