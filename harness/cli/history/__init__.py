"""`staticfire history`: shows histories, and converts one form into another."""

from __future__ import annotations

import click

from staticfire.harness.cli.history.converting import convert, filter_history, merge
from staticfire.harness.cli.history.looking import head, stats
from staticfire.harness.cli.history.naming import named


@click.group(short_help="Convert, show, filter and merge histories.")
def history() -> None:
    """Convert, show, filter, name and merge histories of any size.

    A history is the folder of a run, a file of JSON lines (.jsonl), a folder of columns (history.parquet), or a file of
    Jepsen's EDN (.edn). The name of an output decides its form: .jsonl, .edn, else a folder of columns.

    \b
    Example:
      staticfire history stats runs/20261120-101500-queue-1
      staticfire history convert runs/20261120-101500-queue-1 history.edn
    """


history.add_command(convert)
history.add_command(filter_history)
history.add_command(merge)
history.add_command(named)
history.add_command(head)
history.add_command(stats)
