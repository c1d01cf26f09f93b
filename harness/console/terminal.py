"""The terminal behind standard output: its width, and whether it shows colours."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from textwrap import wrap

import click

from staticfire.harness.report.verdict_lines import WIDTH

NARROWEST, WIDEST = 40, 140
BESIDE_MIN = 30  # columns for a text beside a name
COLOURS = {"VALID": "green", "INVALID": "red", "UNKNOWN": "yellow"}


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def width() -> int:
    """Return the greatest width of lines, in columns. A file and a pipe get the width of the documentation."""
    if not is_terminal():
        return WIDTH
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return min(max(columns, NARROWEST), WIDEST)


def has_colours() -> bool:
    """Whether to use colours: not with NO_COLOR, on a dumb terminal, in a file or in a pipe."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and is_terminal()


def verdict_word(word: str) -> str:
    """Return VALID, INVALID or UNKNOWN, coloured if the terminal has colours."""
    return click.style(word, fg=COLOURS[word], bold=True) if has_colours() else word


def wrapped(text: str, columns: int, indent: int = 10, lines_max: int | None = None) -> list[str]:
    """Wrap a text to `columns`; a longer word stays whole. A text cut at `lines_max` ends in ...."""
    return wrap(
        text,
        columns,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
        max_lines=lines_max,
        placeholder=" ...",
    )


def fitted(text: str) -> list[str]:
    """Wrap a line to the width of the terminal. In a file or a pipe it stays one line, for scripts."""
    return wrapped(text, width()) or [""] if is_terminal() else [text]


def list_lines(rows: Sequence[tuple[str, str]]) -> list[str]:
    """Return lines of names with their texts. In a file and a pipe each name has one line.

    On a terminal the texts are fitted beside the names, or below them if it is narrow.
    """
    widest = max((len(name) for name, _ in rows), default=0)
    if not is_terminal():
        return [f"{name:<{widest}}  {text}".rstrip() for name, text in rows]
    columns, lines = width(), list[str]()
    indent = widest + 2 if columns - widest - 2 >= BESIDE_MIN else 4
    for name, text in rows:
        if indent == 4:
            lines += [name, *(" " * 4 + line for line in wrapped(text, columns - 4, 0))]
        else:
            lines += wrapped(f"{name:<{widest}}  {text}", columns, indent) or [name]
    return lines
