"""Prints the answer of a command: a table or a record, as text or as JSON."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import orjson

from staticfire.harness.truncated_repr import printable, printable_json

WIDTH_MAX = 10_000  # characters
WRAPPED_MIN = 25  # shorter values stay on one line


@dataclass(frozen=True, slots=True)
class Table:
    """Rows under column names; in JSON, an object for each row, or the `document` from which the rows were taken."""

    columns: Sequence[str]
    rows: Sequence[Sequence[object]]
    note: str = field(default="", kw_only=True)  # printed below the table, not in JSON
    document: object = field(default=None, kw_only=True)

    def to_json(self) -> object:
        if self.document is not None:
            return self.document
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def show(self) -> None:
        for line in self._lines():
            print(line.rstrip())
        if self.note:
            print(truncated_repr(self.note))

    def _lines(self) -> list[str]:
        """Format the table to the width of the terminal; in a file or a pipe it has its full width."""
        from rich import box  # imported here, since JSON output does not need it
        from rich.console import Console
        from rich.table import Table as RichTable
        from rich.text import Text

        console = Console(highlight=False, width=None if sys.stdout.isatty() else WIDTH_MAX)
        table = RichTable(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False)
        cells = [[truncated_repr(value) for value in row] for row in self.rows]
        for index, name in enumerate(self.columns):
            is_number = bool(self.rows) and all(type(row[index]) is int for row in self.rows)
            width = max((len(row[index]) for row in cells), default=0)
            table.add_column(
                Text(name),
                justify="right" if is_number else "left",
                overflow="fold",
                no_wrap=width <= WRAPPED_MIN,
            )
        for row in cells:
            table.add_row(*map(Text, row))
        with console.capture() as captured:
            console.print(table)
        return captured.get().splitlines()


@dataclass(frozen=True, slots=True)
class Record:
    """Names and values; in JSON, one object."""

    values: Mapping[str, object]

    def to_json(self) -> object:
        return dict(self.values)

    def show(self) -> None:
        width = max(map(len, self.values), default=0)
        for name, value in self.values.items():
            print(f"{name:<{width}}  {truncated_repr(value)}".rstrip())


Answer = Table | Record


def print_answer(answer: Answer, *, as_json: bool) -> None:
    if as_json:
        document = answer.to_json()
        print(
            printable_json(
                orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS)
            )
        )
    else:
        answer.show()


def truncated_repr(value: object) -> str:
    """Return a value as one line without control characters."""
    if value is None:
        return "-"
    if isinstance(value, float):
        return f"{value:.2f}"
    if isinstance(value, list | tuple):
        return ", ".join(map(truncated_repr, value))
    if isinstance(value, dict):
        return " ".join(f"{name}={truncated_repr(member)}" for name, member in value.items())
    return printable(str(value))


def time_text(time_ms: int) -> str | None:
    """Format a time as ISO 8601 in UTC; None for no time."""
    if not 0 < time_ms < 253_402_300_800_000:
        return None
    return datetime.fromtimestamp(time_ms / 1000, UTC).isoformat(timespec="milliseconds")
