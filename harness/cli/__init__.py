"""The command `staticfire`: a module for each command, and one place that turns errors into exit statuses.

Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
import traceback
from collections.abc import Sequence
from types import FrameType
from typing import NoReturn

import click
from click.shell_completion import CompletionItem

from staticfire.faults.defects import DefectError
from staticfire.harness.cli.status import (
    EXIT_BAD_ARGUMENTS,
    EXIT_HARNESS_ERROR,
    BadInput,
    HarnessError,
    of_a_file,
    one_sentence,
)
from staticfire.harness.cli.suggestions import did_you_mean, with_suggestion
from staticfire.harness.defect_loader import DefectToPlant, run_planted
from staticfire.harness.raised_text import raised_text

UNWRITABLE = (errno.EPIPE, errno.ENOSPC)  # the errors of print() to a closed pipe or a full disk
COMPLETE = (
    "_STATICFIRE_COMPLETE"  # environment variable by which a shell requests values from click
)
TRACEBACK = (
    "STATICFIRE_TRACEBACK"  # environment variable: print the traceback of an unexpected error
)


# The module of each command, imported on first use, since some imports take half a second.
COMMANDS = {
    "analyze": "staticfire.harness.cli.analyze.command:analyze",
    "synthesize": "staticfire.harness.cli.synthesize:synthesize_command",
    "run": "staticfire.harness.cli.run:run",
    "replay": "staticfire.harness.cli.replay:replay",
    "check": "staticfire.harness.cli.check.command:check",
    "history": "staticfire.harness.cli.history:history",
    "conform": "staticfire.harness.cli.conform.command:conform",
    "export": "staticfire.harness.cli.export.command:export",
    "hunt": "staticfire.harness.cli.hunt.command:hunt",
    "farm": "staticfire.harness.cli.farm.command:farm",
    "explain": "staticfire.harness.cli.explain.command:explain",
    "look": "staticfire.harness.cli.explain.look:look",
    "serve": "staticfire.harness.cli.serve.command:serve",
    "resimulate": "staticfire.harness.cli.shrink.resimulate:resimulate",
    "report": "staticfire.harness.cli.report.command:report",
    "shrink": "staticfire.harness.cli.shrink.command:shrink",
    "table": "staticfire.harness.cli.table.command:table",
    "doctor": "staticfire.harness.cli.this_machine.doctor:doctor",
    "clean": "staticfire.harness.cli.this_machine.clean:clean",
    "crash-store": "staticfire.harness.cli.crash_store:crash_store",
    "docker-image": "staticfire.harness.cli.this_machine.docker_image:docker_image",
    "cluster": "staticfire.harness.cli.cluster:cluster",
    "proxy": "staticfire.harness.cli.proxy.command:proxy",
    "admin": "staticfire.harness.cli.admin.commands:admin",
    "faults": "staticfire.harness.cli.lists:faults",
    "workloads": "staticfire.harness.cli.lists:workloads",
    "campaigns": "staticfire.harness.cli.lists:campaigns",
    "bugs": "staticfire.harness.cli.bugs.bugs:bugs",
    "reproduce": "staticfire.harness.cli.bugs.reproduce:reproduce",
    "promises": "staticfire.harness.cli.promises:promises",
}


class _Commands(click.Group):
    def list_commands(self, ctx: click.Context) -> list[str]:
        return sorted(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        if cmd_name not in COMMANDS:
            return None
        module, _, name = COMMANDS[cmd_name].partition(":")
        command = getattr(importlib.import_module(module), name)
        assert isinstance(command, click.Command)
        return command

    def shell_complete(self, ctx: click.Context, incomplete: str) -> list[CompletionItem]:
        """Complete names without their summaries, which would import every command."""
        names = [one for one in self.list_commands(ctx) if one.startswith(incomplete)]
        return [*map(CompletionItem, names), *click.Command.shell_complete(self, ctx, incomplete)]

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find a command; an unknown name is refused with the nearest known names."""
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            suggested = did_you_mean(args[0], COMMANDS) if args else ""
            if not suggested:
                raise
            raise click.UsageError(f"there is no command {args[0]!r}; {suggested}", ctx) from error

    def invoke(self, ctx: click.Context) -> object:
        """Run the command. A closed pipe must not become click's status 1, which means "invalid" here."""
        try:
            return super().invoke(ctx)
        except OSError as error:
            if error.errno in UNWRITABLE:
                raise HarnessError(f"the output cannot be written: {error.strerror}") from error
            raise


def _print_version(ctx: click.Context, _: click.Parameter, is_asked: bool) -> None:
    if is_asked and not ctx.resilient_parsing:
        from staticfire.harness.version import version_line

        print(f"staticfire {version_line()}")
        ctx.exit()


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
    no_args_is_help=False,
)
@click.option(
    "--version",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_print_version,
    help="Version, commit and Python, and exit.",
)
def cli() -> None:
    """Break a RocketMQ-style message queue on purpose, and prove or disprove its promises.

    \b
    Example:
      staticfire run --campaign default --seed 1
      staticfire replay runs/<the run>
      staticfire cluster up

    Exit status: 0 valid, 1 invalid, 2 unknown, 254 bad arguments, 255 harness error.
    """


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its status."""
    if sys.stderr is None:  # stderr is closed: print() would write to stdout
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115
    signal.signal(
        signal.SIGTERM, _interrupt
    )  # like Ctrl-C: the command ends its processes and closes its files
    status = status_of(arguments)
    try:
        if sys.stdout is not None:  # None: it is closed
            sys.stdout.flush()
    except OSError as error:
        if status != EXIT_HARNESS_ERROR:  # otherwise that was printed already
            _complain(f"the output cannot be written: {error.strerror}")
        status = EXIT_HARNESS_ERROR
        sys.stdout = None  # otherwise the interpreter would try to flush it again
    sys.exit(status)


def _check_text(arguments: Sequence[str]) -> None:
    """Refuse NUL characters, which no operating system passes but a caller in Python can."""
    if any("\0" in argument for argument in arguments):
        raise BadInput("an argument holds a NUL character; allowed: text without it")


def _interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # `timeout` sends it twice
    raise KeyboardInterrupt


def _complain(message: str) -> None:
    """Print an error as one sentence. Without a reader of stderr it is lost, and the exit status stays what it is."""
    try:
        print(f"staticfire: {one_sentence(message)}", file=sys.stderr, flush=True)
    except OSError:
        sys.stderr = open(os.devnull, "w", encoding="utf-8")  # noqa: SIM115  # the interpreter flushes it at its end


def _run_planted(name: str, arguments: Sequence[str]) -> int:
    try:
        return run_planted(name, arguments)
    except DefectError as error:
        _complain(str(error))
        return EXIT_BAD_ARGUMENTS


def status_of(arguments: Sequence[str] | None = None) -> int:
    """Run the command line; return its exit status. Bad input is one sentence on stderr and status 254."""
    given = sys.argv[1:] if arguments is None else arguments
    try:
        _check_text(given)
        status = cli.main(arguments, prog_name="staticfire", standalone_mode=False)
    except (click.ClickException, BadInput, DefectError) as error:
        message = error.format_message() if isinstance(error, click.ClickException) else str(error)
        _complain(with_suggestion(message))
        return EXIT_BAD_ARGUMENTS
    except DefectToPlant as wanted:
        return _run_planted(wanted.name, given)
    except HarnessError as error:
        _complain(str(error))
        return EXIT_HARNESS_ERROR
    except SystemExit:
        # Click and rich end the process with status 1 when a pipe has no reader.
        if COMPLETE in os.environ:
            raise
        _complain("the output cannot be written: Broken pipe")
        return EXIT_HARNESS_ERROR
    except (click.Abort, KeyboardInterrupt):
        _complain("interrupted")
        return EXIT_HARNESS_ERROR
    except OSError as error:
        refusal = of_a_file(error, None)
        _complain(str(refusal))
        return EXIT_BAD_ARGUMENTS if isinstance(refusal, BadInput) else EXIT_HARNESS_ERROR
    except MemoryError:
        _complain("there is not enough memory for this")
        return EXIT_HARNESS_ERROR
    except Exception as error:  # status 1, Python's own, would read as "invalid"
        if os.environ.get(TRACEBACK):
            traceback.print_exc()
        sentence = (
            f"this is an error of Staticfire: {raised_text(error)}; {TRACEBACK}=1 prints where"
        )
        _complain(sentence)
        return EXIT_HARNESS_ERROR
    return status if isinstance(status, int) else 0
