"""The terminal behind the standard output: its width, and whether it shows colours."""

from __future__ import annotations

import os
import shutil
import sys
from textwrap import wrap

import click

from staticfire.harness.report.verdict_lines import WIDTH

NARROWEST, WIDEST = 40, 140
COLOURS = {"VALID": "green", "INVALID": "red", "UNKNOWN": "yellow"}


def is_terminal() -> bool:
    return sys.stdout is not None and sys.stdout.isatty()


def width() -> int:
    """Columns that lines may take. A file and a pipe get those of the documentation."""
    if not is_terminal():
        return WIDTH
    columns = shutil.get_terminal_size((WIDTH, 24)).columns
    return min(max(columns, NARROWEST), WIDEST)


def has_colours() -> bool:
    """No colours with NO_COLOR, on a dumb terminal, in a file or in a pipe."""
    wanted = not os.environ.get("NO_COLOR") and os.environ.get("TERM") != "dumb"
    return wanted and is_terminal()


def verdict_word(word: str) -> str:
    """VALID, INVALID or UNKNOWN, in its colour where there are colours."""
    return click.style(word, fg=COLOURS[word], bold=True) if has_colours() else word


def wrapped(text: str, columns: int, indent: int = 10, lines_max: int | None = None) -> list[str]:
    """Lines of at most so many columns; a word longer than that stays whole. A text cut at `lines_max` ends in ...."""
    return wrap(
        text,
        columns,
        subsequent_indent=" " * indent,
        break_on_hyphens=False,
        break_long_words=False,
        max_lines=lines_max,
        placeholder=" ...",
    )
