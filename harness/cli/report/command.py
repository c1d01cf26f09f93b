"""`staticfire report`: writes a recorded run as one page for a browser, and in other forms."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import click

from staticfire.checkers.model.history import HistoryError
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.outputs import Outputs, output_options
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_VALID, BadInput, of_a_file
from staticfire.harness.run_folder.run_folder import RunFolderError
from staticfire.harness.truncated_repr import printable


@click.command(short_help="Write the report of a recorded run as one HTML page.")
@click.argument("run", type=click.Path(path_type=Path), shell_complete=complete_run)
@click.option(
    "--out",
    metavar="FILE",
    type=click.Path(dir_okay=False, path_type=Path),
    help="File for the report. Default: report.html in the folder of the run.",
)
@output_options
@system_option(expose=False)
def report(
    run: Path, out: Path | None, junit: Path | None, is_markdown: bool, is_json: bool
) -> int:
    """Write the report of the run in folder RUN as one file that needs no network.

    The page has the verdict, the broken promises, the lives of the messages that show them, charts over time, the
    faults, and commands for next steps. RUN may also be a synthetic history, which the command judges first.

    \b
    Example:
      staticfire report runs/20261120-101500-queue-1
      staticfire report runs/20261120-101500-queue-1 --out /tmp/report.html --junit report.xml
      staticfire report runs/20261120-101500-queue-1 --markdown >> "$GITHUB_STEP_SUMMARY"

    Exit status: 0 written, 254 bad arguments, 255 harness error.
    """
    from staticfire.harness.html_report.commands import commands_of
    from staticfire.harness.html_report.recorded_run import read_recorded
    from staticfire.harness.html_report.report import REPORT_FILE, html_report, write_report

    outputs = Outputs(junit=junit, is_markdown=is_markdown, is_json=is_json)
    outputs.check()
    started_s = time.monotonic()
    try:
        with working("reading") as progress:
            recorded = read_recorded(run, _say)
            progress.update(what="drawing")
            page = html_report(recorded)
    except (RunFolderError, HistoryError) as error:
        raise BadInput(str(error)) from error
    except OSError as error:
        raise BadInput(f"{error.filename} cannot be read: {error.strerror}") from error
    target = run / REPORT_FILE if out is None else out
    try:
        write_report(target, page)
    except OSError as error:
        raise of_a_file(error, target) from error
    if outputs.is_console:
        print(printable(f"report    {target}    {len(page) / 1024:,.0f} KiB"))
    commands = [line for _, line in commands_of(run, recorded.campaign, recorded.verdict.valid)]
    outputs.say(
        run.resolve().name,
        recorded.verdict,
        time.monotonic() - started_s,
        facts={"report": str(target)},
        commands=commands,
    )
    return EXIT_VALID


def _say(line: str) -> None:
    print(printable(line), file=sys.stderr, flush=True)
