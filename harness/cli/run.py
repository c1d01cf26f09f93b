"""`staticfire run`: one campaign, from the seed to the verdict."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from staticfire.faults.defects import DefectError
from staticfire.faults.errors import FaultError
from staticfire.harness.campaign.campaign import Campaign, CampaignError
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
from staticfire.harness.cli.progress import show_progress
from staticfire.harness.cli.status import EXIT_VALID, BadInput, HarnessError, status_of_validity
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.draws.campaign import draw_campaign
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.run_folder.run_folder import RunFolder, RunFolderError

if TYPE_CHECKING:
    from staticfire.harness.results.run_result import RunResult


@click.command(short_help="Run one fault campaign and judge it.")
@click.option("--seed", type=int, help="Everything not given is drawn from it. Default: a new one.")
@campaign_options
@machine_options
@runs_option
@click.option(
    "--dry-run", "is_dry_run", is_flag=True, help="Print the campaign with its plan, and stop."
)
def run(
    seed: int | None, runs: Path, is_dry_run: bool, provider: MachineOptions, **options: Any
) -> int:
    """Run one fault campaign on a cluster, simulated or real, and judge it.

    \b
    Example:
      staticfire run --campaign default --seed 1
      staticfire run --campaign default --environment processes --faults all
      staticfire run --masters 2 --slaves 2,1 --flush sync --faults kill,power-cut,disk-full
      staticfire run --environment address --name-server 127.0.0.1:9876 --dry-run

    Every option that is not given is drawn from the seed.

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """
    given = given_options(**options)
    file_seed = given.pop("seed", None)
    if seed is None:
        seed = secrets.randbelow(2**31) if file_seed is None else file_seed
    try:
        use_defect(str(given.get("defect", "")))
        take_cluster(given, provider, said_options(options))
        missing = choose_faults(seed, given, provider)
        campaign = draw_campaign(seed, given)
        check_nodes(campaign, provider)
    except (CampaignError, FaultError, DefectError) as error:
        raise BadInput(str(error)) from error
    if is_dry_run:
        from staticfire.harness.console.console import print_campaign, print_missing

        print_campaign(campaign, provider.name_servers)
        print_missing(missing)
        print("dry run   nothing is made, sent or broken")
        return EXIT_VALID
    return run_and_report(campaign, runs, missing, provider)


def run_and_report(
    campaign: Campaign, runs: Path, missing: Mapping[str, str], provider: MachineOptions
) -> int:
    """Run, keep and print. Imports the system now: `run --help` should not wait half a second for it."""
    from staticfire.harness.console.console import print_campaign, print_missing, print_result

    folder = make_folder(campaign, runs)
    print_campaign(campaign, provider.name_servers)
    print_missing(missing)
    started = time.process_time()
    result = run_in(folder, campaign, provider)
    print_result(result, folder.path, time.process_time() - started, provider)
    return status_of_validity(result.verdict.valid)


def make_folder(campaign: Campaign, runs: Path) -> RunFolder:
    """Raises BadInput."""
    try:
        return RunFolder.create(runs, campaign, time.strftime("%Y%m%d-%H%M%S"))
    except RunFolderError as error:
        raise BadInput(str(error)) from error


def run_in(folder: RunFolder, campaign: Campaign, provider: MachineOptions) -> RunResult:
    """Run and keep; a run that never began leaves no folder. Raises HarnessError."""
    from staticfire.harness.machines.errors import EnvironmentFailed
    from staticfire.harness.runs.any_runner import runner_of
    from staticfire.harness.systems.errors import RunError

    is_simulated = campaign.environment == "simulation"  # its columns are written when it is over
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
        folder.finish(result)
    except RunError as error:  # no load has begun: there is nothing to judge
        folder.discard()
        raise HarnessError(str(error)) from error
    except (RunFolderError, EnvironmentFailed, FaultError) as error:
        folder.discard_if_empty()
        raise HarnessError(str(error)) from error
    except OSError as error:  # a full disk, a folder that is read-only: the machine, not a verdict
        raise HarnessError(f"the machine failed: {error}") from error
    return result
