"""`staticfire history head` and `stats`: show the content of a history."""

from __future__ import annotations

import sys
from itertools import islice
from pathlib import Path

import click
import orjson
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from staticfire.checkers.formats.columnar.statistics import Statistics, of_columns, of_ops
from staticfire.checkers.model.columns import UNKNOWN, LogKey
from staticfire.checkers.model.history import OP_TYPES, Op, encode_op
from staticfire.harness.cli.completion import complete_run
from staticfire.harness.cli.history.reading import (
    errors_as_refusals,
    open_source,
    say_torn,
    watched,
)
from staticfire.harness.cli.progress import working
from staticfire.harness.console.terminal import is_terminal, width
from staticfire.harness.histories.sources import columns_at
from staticfire.harness.truncated_repr import printable, printable_json

LIST_WIDTH = 1000  # columns, where there is no terminal: a line a queue, however long its name
VALUE_MAX = 100  # characters
TYPES = ("invoke", "ok", "info", "fail")
HISTORY = click.argument(
    "source", type=click.Path(path_type=Path), metavar="HISTORY", shell_complete=complete_run
)


@click.command(short_help="Show the first ops.")
@HISTORY
@click.option(
    "-n", "count", type=click.IntRange(min=0), default=20, show_default=True, help="Number of ops."
)
@click.option("--json", "as_json", is_flag=True, help="Print whole ops as lines of JSON.")
def head(source: Path, count: int, as_json: bool) -> None:
    """Show the first ops of HISTORY: index, seconds, process, type, f, value.

    \b
    Example:
      staticfire history head runs/20261120-101500-queue-1
      staticfire history head -n 5 --json history.parquet

    Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error.
    """
    with errors_as_refusals():
        for op in islice(open_source(source).ops(), count):
            if as_json:
                sys.stdout.write(printable_json(encode_op(op)))
            else:
                print(_shown(op))


def _shown(op: Op) -> str:
    value = orjson.dumps(op.value).decode()
    if len(value) > VALUE_MAX:
        value = f"{value[: VALUE_MAX - 3]}..."
    error = "" if op.error is None else f"  {op.error}"
    seconds = f"{op.time_ns // 10**9}.{op.time_ns // 1000 % 10**6:06d}"
    line = f"{op.index:>8} {seconds:>14} {op.process:>7} {op.type:<6} {op.f:<8} {value}{error}"
    return printable(line)


@click.command(short_help="Show the counts of a history.")
@HISTORY
def stats(source: Path) -> None:
    """Show the counts of HISTORY: ops by kind and outcome, rates, queues, groups, time span, size.

    The command counts columns without turning them into ops. For a run, it uses the columns if they are complete.

    \b
    Example:
      staticfire history stats runs/20261120-101500-queue-1
      staticfire history stats history.edn

    Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error.
    """
    with errors_as_refusals():
        columns = columns_at(source)
        opened = open_source(source if columns is None else columns)
        with working("counting"):
            counts = of_columns(columns) if columns else of_ops(watched(opened, "counting"))
    console = Console(width=width() if is_terminal() else LIST_WIDTH, highlight=False)
    size = _size_of(opened.path)
    each = f", {size / counts.rows:.1f} bytes a row" if counts.rows else ""
    console.print(f"history   {opened.path}", soft_wrap=True)
    console.print(f"size      {size} bytes{each}")
    console.print(f"ops       {counts.ops}{_rate(counts.ops, counts)}")
    console.print(f"rows      {counts.rows} (sends, deliveries, commits)")
    console.print(f"time      {counts.span_s:.3f} s")
    console.print(_ops_table(counts))
    console.print(_queues_table(counts))
    if counts.groups:
        console.print(_groups_table(counts))
    say_torn(opened)


def _size_of(path: Path) -> int:
    files = path.rglob("*") if path.is_dir() else [path]
    return sum(file.stat().st_size for file in files if file.is_file())


def _rate(count: int, counts: Statistics) -> str:
    return f", {count / counts.span_s:.1f} a second" if counts.span_s else ""


def _table(*columns: str) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(columns[0])
    for name in columns[1:]:
        table.add_column(name, justify="right")
    return table


def _ops_table(counts: Statistics) -> Table:
    table = _table("op", *TYPES, "ok a second")
    assert set(TYPES) == OP_TYPES
    for f in sorted({f for f, _ in counts.by_type}):
        numbers = [counts.by_type[f, type_] for type_ in TYPES]
        rate = numbers[1] / counts.span_s if counts.span_s else 0.0
        table.add_row(_name(f), *map(str, numbers), f"{rate:.1f}")
    return table


def _queues_table(counts: Statistics) -> Table:
    table = _table("queue", "sends", "deliveries")
    for queue in sorted(counts.sends.keys() | counts.deliveries.keys()):
        table.add_row(_name(_queue(queue)), str(counts.sends[queue]), str(counts.deliveries[queue]))
    return table


def _name(text: str) -> Text:
    """Return a name of a history without markup and control characters."""
    return Text(printable(text))


def _queue(queue: LogKey) -> str:
    if queue.partition == UNKNOWN:
        return "not placed"
    return str(queue)


def _groups_table(counts: Statistics) -> Table:
    table = _table("group", "deliveries")
    for group in sorted(counts.groups):
        table.add_row(_name(group), str(counts.groups[group]))
    return table
