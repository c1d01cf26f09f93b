"""`staticfire history convert`, `filter` and `merge`: write new histories."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import click

from staticfire.checkers.formats.columnar.manifest import read_manifest, write_manifest
from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.checkers.model.columns import LogKey
from staticfire.checkers.model.gc_pause import collector_paused
from staticfire.checkers.model.history import NEMESIS_PREFIXES, HistoryError, Op
from staticfire.harness.cli.completion import complete_run, one_of, op_kinds
from staticfire.harness.cli.history.reading import (
    errors_as_refusals,
    open_source,
    say,
    say_torn,
    watched,
)
from staticfire.harness.cli.progress import counted, working
from staticfire.harness.cli.status import BadInput
from staticfire.harness.cli.suggestions import did_you_mean
from staticfire.harness.histories.choice import Choice, chosen
from staticfire.harness.histories.sinks import sink_at
from staticfire.harness.histories.sources import Source, columns_at

KEPT = ("campaign.toml", "faults.jsonl", "observations.jsonl", "verdict.json")
SOURCE = click.argument("source", type=click.Path(path_type=Path), shell_complete=complete_run)
TARGET = click.argument("target", type=click.Path(path_type=Path))


@click.command(short_help="Convert a history to another format.")
@SOURCE
@TARGET
@click.option("--run-id", help="Name of the run in a columnar TARGET.  [default: from SOURCE]")
def convert(source: Path, target: Path, run_id: str | None) -> None:
    """Convert the history SOURCE to TARGET. TARGET's name decides the format.

    .jsonl is JSON lines, .edn is Jepsen's queue workload, any other name is a folder of columns. The command prints on
    stderr how many items the new format cannot express.

    \b
    Example:
      staticfire history convert runs/20261120-101500-queue-1 history.edn
      staticfire history convert jepsen/history.edn history.parquet

    Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error.
    """
    with errors_as_refusals(target):
        opened = open_source(source)
        write_history(opened, target, run_id or _name_of(source), opened.ops, "converting")


def write_history(
    source: Source, target: Path, run_id: str, ops: Callable[[], Iterable[Op]], what: str
) -> None:
    """Write ops to a file or folder, in the form that its name decides. Raises HistoryError, OSError."""
    with collector_paused(), sink_at(target, run_id, ops) as sink, working(what) as progress:
        for op in counted(ops(), progress) if what != "converting" else watched(source, what):
            sink.add(op)
        progress.update(what="writing")
        sink.finish(torn=source.torn)
    say([*source.notes(), *sink.notes()])
    say_torn(source)


def _name_of(source: Path) -> str:
    """Return the name of a run: that of its folder."""
    path = Path(os.path.realpath(source))  # a loop of links has a name, too
    own = path.is_dir() and path.name != FOLDER
    return path.name if own else path.parent.name or path.stem


def _queue(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> object:
    return frozenset(map(_queue_named, given))


def _queue_named(text: str) -> LogKey:
    topic, _, queue = text.rpartition("@")
    broker, _, number = queue.rpartition("/")
    if not (topic and broker and number.isdecimal()):
        raise click.BadParameter(f"{text!r} is no queue; expected topic@broker/number")
    return LogKey(topic, broker, int(number))


def _seconds(_context: click.Context, _option: click.Parameter, given: float | None) -> int | None:
    if given is None:
        return None
    if not 0 <= given < 9e9:
        raise click.BadParameter(f"{given} is out of range; allowed are 0 to 9e9 seconds")
    return round(given * 1e9)


def _kinds(_context: click.Context, _option: click.Parameter, given: tuple[str, ...]) -> object:
    known = op_kinds()
    for f in given:
        if f not in known and not f.startswith(NEMESIS_PREFIXES):
            suggested = did_you_mean(f, known)
            raise click.BadParameter(
                f"{f!r} is no kind of op; {suggested or 'docs/history.md lists them, and start_<fault>'}"
            )
    return frozenset(given)


@click.command("filter", short_help="Write only the ops that match the options.")
@SOURCE
@TARGET
@click.option(
    "--from", "since_ns", type=float, callback=_seconds, help="Only ops from this second onwards."
)
@click.option(
    "--to", "until_ns", type=float, callback=_seconds, help="Only ops before this second."
)
@click.option("--process", "processes", type=int, multiple=True, help="Only ops of this process.")
@click.option(
    "--queue",
    "queues",
    multiple=True,
    callback=_queue,
    help="Only ops of this queue: topic@broker/number.",
)
@click.option("--key", "keys", multiple=True, help="Only ops for the message with this key.")
@click.option(
    "--f",
    "functions",
    multiple=True,
    callback=_kinds,
    shell_complete=one_of(op_kinds),
    help="Only ops of this kind: send, consume, ...",
)
@click.option("--group", "groups", multiple=True, help="Only ops of this consumer group.")
def filter_history(source: Path, target: Path, **options: Any) -> None:
    """Write the ops of the history SOURCE that match all options to TARGET.

    A repeated option matches any of its values. An invocation and its completion stay together. Ops get new indices.

    \b
    Example:
      staticfire history filter runs/20261120-101500-queue-1 one.jsonl --key p1-7
      staticfire history filter history.parquet part.parquet --from 10 --to 20.5 --f send

    Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error.
    """
    given: dict[str, Any] = {
        name: frozenset(value) if type(value) is tuple else value for name, value in options.items()
    }
    choice = Choice(**given)
    since_ns, until_ns = choice.since_ns, choice.until_ns
    if since_ns is not None and until_ns is not None and since_ns >= until_ns:
        raise BadInput(
            f"--from is {since_ns / 1e9:g} and --to is {until_ns / 1e9:g}; --from must be below --to"
        )
    with errors_as_refusals(target):
        opened = open_source(source)
        write_history(
            opened, target, _name_of(source), lambda: chosen(opened.ops, choice), "filtering"
        )


@click.command(short_help="Combine several runs in one folder.")
@click.argument(
    "sources",
    metavar="RUN...",
    nargs=-1,
    required=True,
    type=click.Path(path_type=Path),
    shell_complete=complete_run,
)
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The new folder.")
def merge(sources: tuple[Path, ...], out: Path) -> None:
    """Combine the histories RUN... in one folder, as columns: OUT/run_id=<name>/history.parquet.

    A run has the name of its folder. OUT also gets facts, faults and observations. Spark and other readers of
    partitioned folders see a column run_id.

    \b
    Example:
      staticfire history merge runs/20261120-101500-queue-1 runs/20261120-101700-queue-2 --out all

    Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error.
    """
    names = [_name_of(source) for source in sources]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise BadInput(f"two runs are named {twice[0]}; names of runs must differ")
    with errors_as_refusals(out):
        if out.exists():
            raise HistoryError(f"{out} exists already; choose another name")
        for source in sources:  # before anything is written
            open_source(source)
        temporary = out.with_name(f".{out.name}.tmp")
        shutil.rmtree(temporary, ignore_errors=True)
        try:
            for name, source in zip(names, sources, strict=True):
                _merge_one(source, temporary / f"run_id={name}", name)
            temporary.rename(out)
        finally:
            shutil.rmtree(temporary, ignore_errors=True)


def _merge_one(source: Path, folder: Path, run_id: str) -> None:
    folder.mkdir(parents=True)
    columns = columns_at(source)
    if columns is not None:
        with working("copying") as progress:
            progress.update(details=run_id)
            shutil.copytree(columns, folder / FOLDER)
        write_manifest(folder / FOLDER, replace(read_manifest(columns), run_id=run_id))
    else:
        opened = open_source(source)
        write_history(opened, folder / FOLDER, run_id, opened.ops, "converting")
    for name in KEPT:
        if (source / name).is_file():
            shutil.copy2(source / name, folder / name)
