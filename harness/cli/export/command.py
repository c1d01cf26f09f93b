"""`staticfire export`: writes a recorded run as a trace of Perfetto, OpenTelemetry or ShiViz."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.history.reading import errors_as_refusals, say_torn, watched
from staticfire.harness.cli.options import system_option
from staticfire.harness.cli.status import EXIT_VALID, BadInput, HarnessError
from staticfire.harness.exports.output import whole_file
from staticfire.harness.truncated_repr import truncated_repr

if TYPE_CHECKING:
    from staticfire.checkers.model.history import Op
    from staticfire.harness.exports.recorded_run import RecordedRun
    from staticfire.harness.exports.selection import Selection

    Write = Callable[[RecordedRun, Selection, Callable[[], Iterable[Op]], BinaryIO], None]

SECONDS_MAX = 9e9
FILE = click.Path(path_type=Path)


def _nanoseconds(_context: click.Context, _option: click.Parameter, given: float | None) -> object:
    if given is None:
        return None
    if not 0 <= given < SECONDS_MAX:
        raise click.BadParameter(f"{given} is out of range; allowed are 0 to 9e9 seconds")
    return round(given * 1e9)


@click.command(short_help="Write a run as a trace for Perfetto, OpenTelemetry or ShiViz.")
@click.argument("run", type=FILE, shell_complete=complete_run)
@click.option("--perfetto", metavar="FILE", type=FILE, help="Write a trace for ui.perfetto.dev.")
@click.option("--otlp", metavar="FILE", type=FILE, help="Write OpenTelemetry spans as OTLP JSON.")
@click.option(
    "--shiviz", metavar="FILE", type=FILE, help="Write a log with vector clocks for ShiViz."
)
@click.option("--key", "keys", metavar="KEY", multiple=True, help="Only the message with this key.")
@click.option(
    "--from",
    "since_ns",
    metavar="SECONDS",
    type=float,
    callback=_nanoseconds,
    help="Only from this time onwards.",
)
@click.option(
    "--to",
    "until_ns",
    metavar="SECONDS",
    type=float,
    callback=_nanoseconds,
    help="Only before this time.",
)
@system_option(expose=False)
def export(
    run: Path,
    perfetto: Path | None,
    otlp: Path | None,
    shiviz: Path | None,
    keys: tuple[str, ...],
    since_ns: int | None,
    until_ns: int | None,
) -> int:
    """Write the recorded run in folder RUN as traces for other tools.

    --key selects one message, or several if repeated. --from and --to select events that begin in a window of the run,
    in seconds. docs/exports.md describes each file and how to open it.

    \b
    Example:
      staticfire export runs/20261120-101500-queue-1 --perfetto run.pftrace
      staticfire export runs/20261120-101500-queue-1 --otlp life.jsonl --shiviz life.log --key p1-100

    Exit status: 0 written, 254 bad arguments or a damaged run, 255 harness error.
    """
    targets = {"perfetto": perfetto, "otlp": otlp, "shiviz": shiviz}
    wanted = {name: path for name, path in targets.items() if path is not None}
    if not wanted:
        raise BadInput("no file is named; give at least one of --perfetto, --otlp and --shiviz")
    if perfetto is not None:
        need_extra("perfetto", "--perfetto")
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise BadInput(f"--from is {since_ns / 1e9:g}; allowed: less than --to, {until_ns / 1e9:g}")
    _export(run, wanted, keys, since_ns or 0, until_ns)
    return EXIT_VALID


def _export(
    folder: Path,
    wanted: dict[str, Path],
    keys: tuple[str, ...],
    since_ns: int,
    until_ns: int | None,
) -> None:
    from staticfire.harness.exports.recorded_run import recorded_run
    from staticfire.harness.exports.selection import Selection

    selection = Selection(keys=frozenset(keys), since_ns=since_ns, until_ns=until_ns)
    with errors_as_refusals():
        run = recorded_run(folder)
        for name, path in wanted.items():
            if not path.absolute().parent.is_dir():
                raise BadInput(f"--{name} is {truncated_repr(str(path))}; its folder is not there")
            try:
                with whole_file(path) as file:
                    _writer(name)(run, selection, lambda: watched(run.source, "exporting"), file)
            except OSError as error:
                if error.filename is None or Path(error.filename).name.startswith(f".{path.name}"):
                    raise HarnessError(
                        f"--{name} {path} cannot be written: {error.strerror}"
                    ) from error
                raise
        say_torn(run.source)


def _writer(name: str) -> Write:
    if name == "perfetto":
        from staticfire.harness.exports.perfetto import write_perfetto

        return write_perfetto
    if name == "otlp":
        from staticfire.harness.exports.otlp import write_otlp

        return write_otlp
    from staticfire.harness.exports.shiviz import write_shiviz

    return write_shiviz
