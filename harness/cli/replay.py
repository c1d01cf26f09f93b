"""`staticfire replay`: repeats a run and compares it bit by bit."""

from __future__ import annotations

from pathlib import Path

import click

from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.outputs import verbose_option
from staticfire.harness.cli.progress import show_progress
from staticfire.harness.cli.status import BadInput, HarnessError, status_of_validity, turn_errors
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.run_folder.run_folder import CAMPAIGN_FILE, RunFolder, RunFolderError
from staticfire.harness.version import version_line


@click.command(short_help="Repeat a run and compare it bit for bit.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@verbose_option
@system_option(expose=False)
def replay(run: Path, is_verbose: bool) -> int:
    """Repeat the run in folder RUN and compare the digests of everything that happened.

    \b
    Example:
      staticfire replay runs/20261120-101500-queue-1

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 if the repetition differs.
    """
    folder = RunFolder(run)
    with turn_errors(RunFolderError, into=BadInput):
        campaign = folder.read_campaign()
        expected = str(folder.read_verdict()["digest"])
        use_defect(campaign.defect)

    if campaign.environment != "simulation":
        raise BadInput(
            f"{folder.path} was run in the environment {campaign.environment}, and only a simulated run can be "
            f"replayed; `staticfire run --campaign {folder.path}/{CAMPAIGN_FILE}` does its plan again"
        )

    from staticfire.harness.console.console import print_result
    from staticfire.harness.runs.simulated_runner import run_simulated

    with show_progress(campaign) as progress:
        result = run_simulated(campaign, progress=progress)
    print_result(result, folder.path, None, is_verbose=is_verbose)
    if result.digest != expected:
        print(f"replay DIFFERS: digest {result.digest}, the run had {expected}")
        raise HarnessError(
            f"the repetition is another run: since {folder.path} was recorded, its campaign.toml or "
            f"the code has changed{folder.recorded_by()}; this is {version_line()}"
        )
    print(f"replay identical: digest {expected}")
    return status_of_validity(result.verdict.valid)
