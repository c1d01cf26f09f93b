"""`staticfire history named`: writes the rows of a history as one Parquet file with names."""

from __future__ import annotations

import tempfile
from pathlib import Path

import click

from staticfire.checkers.formats.columnar.named import write_named
from staticfire.checkers.formats.columnar.schema import FOLDER
from staticfire.harness.cli.history.converting import SOURCE, TARGET, write_history
from staticfire.harness.cli.history.reading import errors_as_refusals, open_source
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import BadInput
from staticfire.harness.histories.sources import columns_at


@click.command(short_help="Write one Parquet file with names in place of numbers.")
@SOURCE
@TARGET
def named(source: Path, target: Path) -> None:
    """Write sends, deliveries and commits of the history SOURCE as one Parquet file TARGET.

    The columns of a history hold numbers that refer to dictionaries, which keeps them small. TARGET has the same rows,
    with kinds, outcomes, keys, topics, brokers and groups as text, and null for what is not known.

    \b
    Example:
      staticfire history named runs/20261120-101500-queue-1 messages.parquet

    Exit status: 0 done, 254 bad arguments or a damaged history, 255 harness error.
    """
    with errors_as_refusals(target):
        if target.is_dir():
            raise BadInput(f"TARGET is {target}, a folder; give the name of a file")
        columns = columns_at(source)
        if columns is not None:
            with working("writing"):
                rows = write_named(columns, target)
        else:
            opened = open_source(source)
            with tempfile.TemporaryDirectory(dir=target.absolute().parent, prefix=".") as folder:
                made = Path(folder) / FOLDER
                write_history(opened, made, source.name, opened.ops, "converting")
                with working("writing"):
                    rows = write_named(made, target)
    print(f"{target}: {rows} rows")
