"""`staticfire run`: one campaign, from the seed to the verdict."""

from __future__ import annotations

import secrets
import sys
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import Campaign, CampaignError
from staticfire.harness.cli.completion import complete_seed
from staticfire.harness.cli.external_cluster import take_cluster
from staticfire.harness.cli.machine_options import machine_options
from staticfire.harness.cli.options import (
    campaign_options,
    check_nodes,
    choose_faults,
    given_options,
    runs_option,
    said_options,
)
from staticfire.harness.cli.outputs import Outputs, output_options, verbose_option
from staticfire.harness.cli.progress import show_progress, working
from staticfire.harness.cli.status import (
    EXIT_VALID,
    OF_THE_NAME,
    BadInput,
    HarnessError,
    one_sentence,
    status_of_validity,
    turn_errors,
)
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.html_report.commands import commands_of
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError
from staticfire.harness.runs.any_runner import runner_of
from staticfire.harness.systems.errors import RunError

if TYPE_CHECKING:
    from staticfire.harness.results.run_result import RunResult


@click.command(short_help="Run one fault campaign and judge it.")
@click.option(
    "--seed",
    type=int,
    shell_complete=complete_seed,
    help="Seed that decides every option not given. Default: a new seed.",
)
@campaign_options
@machine_options
@runs_option
@click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Print the campaign with its plan, and exit."
)
@verbose_option
@output_options
def run(
    seed: int | None,
    runs: Path,
    is_dry_run: bool,
    is_verbose: bool,
    junit: Path | None,
    is_markdown: bool,
    is_json: bool,
    provider: MachineOptions,
    **options: Any,
) -> int:
    """Run one fault campaign on a cluster, simulated or real, and judge it.

    \b
    Example:
      staticfire run --campaign default --seed 1
      staticfire run --campaign default --environment processes --faults all
      staticfire run --masters 2 --slaves 2,1 --flush sync --faults kill,power-cut,disk-full
      staticfire run --environment address --name-server 127.0.0.1:9876 --dry-run
      staticfire run --campaign default --seed 1 --junit run.xml --markdown >> "$GITHUB_STEP_SUMMARY"

    The seed decides every option that is not given. The folder of the run gets report.html, a page for a browser.

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """
    outputs = Outputs(junit=junit, is_markdown=is_markdown, is_json=is_json)
    outputs.check()
    given = given_options(**options)
    file_seed = given.pop("seed", None)
    if seed is None:
        seed = secrets.randbelow(2**31) if file_seed is None else file_seed
    with turn_errors(CampaignError, FaultError, into=BadInput):
        use_defect(str(given.get("defect", "")))
        take_cluster(given, provider, said_options(options))
        missing = choose_faults(seed, given, provider)
        campaign = draw_campaign(seed, given)
        check_nodes(campaign, provider)
    if is_dry_run:
        from staticfire.harness.console.console import print_campaign, print_missing

        print_campaign(campaign, provider.name_servers)
        print_missing(missing)
        print("dry run   nothing is made, sent or broken")
        return EXIT_VALID
    return run_and_report(campaign, runs, missing, provider, outputs, is_verbose=is_verbose)


def run_and_report(
    campaign: Campaign,
    runs: Path,
    missing: Mapping[str, str],
    provider: MachineOptions,
    outputs: Outputs,
    *,
    is_verbose: bool,
) -> int:
    """Run the campaign, keep the run and print the result. Imports the system only now, which takes half a second."""
    from staticfire.harness.console.console import (
        print_announcement,
        print_campaign,
        print_missing,
        print_result,
    )

    folder = make_folder(campaign, runs)
    if outputs.is_console:
        (print_campaign if is_verbose else print_announcement)(campaign, provider.name_servers)
        print_missing(missing)
    started, started_s = time.process_time(), time.monotonic()
    result = run_in(folder, campaign, provider)
    cpu_s, wall_s = time.process_time() - started, time.monotonic() - started_s
    page = _write_report(folder)
    if outputs.is_console:
        print_result(result, folder.path, cpu_s, provider, report=page, is_verbose=is_verbose)
    outputs.say(
        folder.path.name,
        result.verdict,
        wall_s,
        facts=_facts(folder, result, page),
        commands=[line for _, line in commands_of(folder.path, campaign, result.verdict.valid)],
    )
    return status_of_validity(result.verdict.valid)


def _write_report(folder: RunFolder) -> Path | None:
    """Write the page. If that fails, print the reason; the verdict does not depend on the page."""
    try:
        from staticfire.harness.html_report.report import report_of_folder

        with working("report"):
            return report_of_folder(folder.path)
    except Exception as error:  # no error may replace the verdict
        reason = one_sentence(str(error) or repr(error))
        print(f"staticfire: no report was written: {reason}", file=sys.stderr)
        return None


def _facts(folder: RunFolder, result: RunResult, page: Path | None) -> dict[str, str]:
    facts = {"seed": str(result.campaign.seed), "digest": result.digest, "run": str(folder.path)}
    return facts if page is None else {**facts, "report": str(page)}


def make_folder(campaign: Campaign, runs: Path) -> RunFolder:
    """Make the folder of a run. Raises BadInput, or HarnessError for a full disk."""
    try:
        return RunFolder.create(runs, campaign, time.strftime("%Y%m%d-%H%M%S"))
    except RunFolderError as error:
        cause = error.__cause__
        if isinstance(cause, OSError) and cause.errno not in OF_THE_NAME:  # a full disk
            raise HarnessError(str(error)) from error
        raise BadInput(str(error)) from error


def run_in(folder: RunFolder, campaign: Campaign, provider: MachineOptions) -> RunResult:
    """Run the campaign and keep the run; a run that never began leaves no folder. Raises HarnessError."""

    is_simulated = (
        campaign.environment == "simulation"
    )  # a simulated run writes its columns at its end
    try:
        with (
            folder.open_history() as history,
            folder.open_observations() as observations,
            nullcontext() if is_simulated else folder.keep_columns() as columns,
            show_progress(campaign) as progress,
        ):
            result = runner_of(campaign, provider)(
                campaign,
                history=history,
                observations=observations,
                columns=columns,
                progress=progress,
            )
        with working("writing"):
            folder.finish(result)
    except RunError as error:  # the load never began, so there is nothing to judge
        folder.discard()
        raise HarnessError(str(error)) from error
    except (RunFolderError, EnvironmentFailed, FaultError) as error:
        folder.discard_if_empty()
        raise HarnessError(str(error)) from error
    except OSError as error:  # such as a full disk or a read-only folder
        raise HarnessError(f"the machine failed: {error}") from error
    return result
