"""Parses command lines of the pages with click, without carrying them out."""

from __future__ import annotations

import re
import shlex
from unittest.mock import patch

import click

from staticfire.harness.cli import cli


def words_of(command: str) -> list[str]:
    """The words of a shell command, comments and redirections left out."""
    words = shlex.split(command.replace("<the run>", "the-run"), comments=True)
    ends = [number for number, word in enumerate(words) if re.match(r"(\||&|>|<$|2>|;)", word)]
    return words[: ends[0]] if ends else words


def arguments_of(command: str) -> list[str] | None:
    """What follows the word staticfire, or None where the command is another program."""
    words = words_of(command)
    for number, word in enumerate(words):
        if word in ("staticfire", ".venv/bin/staticfire", "$(which"):
            return words[number + (2 if word == "$(which" else 1) :]
        if "=" not in word and word not in ("time", "timeout", "spark-submit") and number == 0:
            return None
    return None


def parse(arguments: list[str], *, may_lack: bool = False) -> None:
    """Let click read the arguments; the command itself is not called.

    With `may_lack` an argument or the value of the last option may be missing, as in text about a command.
    Raises click.UsageError.
    """
    with patch.object(click.Command, "invoke", lambda _command, _context: 0):
        try:
            cli.main(arguments, prog_name="staticfire", standalone_mode=False)
        except click.NoSuchOption:
            raise
        except (click.MissingParameter, click.BadOptionUsage):
            if not may_lack:
                raise
        except click.exceptions.NoArgsIsHelpError:
            pass
