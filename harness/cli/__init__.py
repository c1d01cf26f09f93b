"""The command `staticfire`: one module a command, and one place that turns errors into exit statuses.

Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
"""

from __future__ import annotations

import sys
import traceback
from collections.abc import Sequence

import click

from harness.cli.check import check
from harness.cli.crash_store import crash_store
from harness.cli.hunt import hunt
from harness.cli.lists import campaigns, defects, faults, workloads
from harness.cli.replay import replay
from harness.cli.run import run
from harness.cli.status import EXIT_BAD_ARGUMENTS, EXIT_HARNESS_ERROR, BadInput


@click.group(
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
)
def cli() -> None:
    """Break a RocketMQ-style message queue on purpose, and prove or disprove its promises.

    \b
    Example:
      staticfire run --campaign default --seed 1
      staticfire replay runs/<the run>

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """


for command in (run, replay, check, hunt, crash_store, faults, workloads, campaigns, defects):
    cli.add_command(command)


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    sys.exit(status_of(arguments))


def status_of(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; bad input is one sentence on stderr and 254."""
    try:
        status = cli.main(arguments, prog_name="staticfire", standalone_mode=False)
    except (click.ClickException, BadInput) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        print(f"staticfire: {message}", file=sys.stderr)
        return EXIT_BAD_ARGUMENTS
    except (click.Abort, KeyboardInterrupt):
        print("staticfire: interrupted", file=sys.stderr)
        return EXIT_HARNESS_ERROR
    except Exception:  # status 1, Python's own, would read as "invalid"
        traceback.print_exc()
        return EXIT_HARNESS_ERROR
    return status if isinstance(status, int) else 0
