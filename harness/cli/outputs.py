"""Options for other forms of a verdict: `--junit FILE`, `--markdown`, `--json`. All forms have the same content."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext, redirect_stdout
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import click
import orjson

from staticfire.harness.cli.status import BadInput, HarnessError, status_of_validity
from staticfire.harness.truncated_repr import printable_json

if TYPE_CHECKING:
    from staticfire.checkers.verdicts.compose import RunVerdict
    from staticfire.harness.report.junit import Case

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Outputs:
    """The requested forms. Without Markdown and JSON the command prints the lines of the console."""

    junit: Path | None = None
    is_markdown: bool = False
    is_json: bool = False

    @property
    def is_console(self) -> bool:
        return not (self.is_markdown or self.is_json)

    def check(self) -> None:
        """Check before the work that the forms can be written after it. Raises BadInput."""
        if self.is_markdown and self.is_json:
            raise BadInput(
                "--markdown and --json both print to the standard output; give one of them"
            )
        if self.junit is not None:
            is_new = not self.junit.exists()
            try:
                self.junit.open("ab").close()
                if is_new:  # a refused command must leave no empty file
                    self.junit.unlink()
            except OSError as error:
                raise BadInput(
                    f"--junit {self.junit} cannot be written: {error.strerror}"
                ) from error

    @contextmanager
    def quiet(self) -> Iterator[None]:
        """Redirect prints of the block to standard error if standard output is for a program."""
        with nullcontext() if self.is_console else redirect_stdout(sys.stderr):
            yield

    def say(
        self,
        title: str,
        verdict: RunVerdict,
        wall_s: float,
        *,
        facts: Mapping[str, str] | None = None,
        commands: Sequence[str] = (),
    ) -> None:
        """Write and print the verdict in the requested forms. Raises HarnessError."""
        from staticfire.harness.report.junit import verdict_cases
        from staticfire.harness.report.summary import verdict_json, verdict_markdown

        facts = facts or {}
        self.write_junit(title, lambda: verdict_cases(verdict, title), wall_s)
        if self.is_markdown:
            print(verdict_markdown(title, verdict, facts, commands), end="")
        if self.is_json:
            print_json(
                {
                    "title": title,
                    **verdict_json(verdict),
                    "exit_status": status_of_validity(verdict.valid),
                    "wall_s": round(wall_s, 3),
                    "facts": dict(facts),
                    "commands": list(commands),
                }
            )

    def write_junit(self, title: str, cases: Callable[[], Sequence[Case]], wall_s: float) -> None:
        """Raises HarnessError."""
        if self.junit is None:
            return
        from staticfire.harness.report.junit import junit_xml

        try:
            self.junit.write_bytes(junit_xml(title, cases(), wall_s))
        except OSError as error:
            raise HarnessError(
                f"--junit {self.junit} cannot be written: {error.strerror}"
            ) from error


def print_json(document: Mapping[str, object]) -> None:
    print(
        printable_json(orjson.dumps(document, option=orjson.OPT_INDENT_2 | orjson.OPT_NON_STR_KEYS))
    )


def output_options(command: Command) -> Command:
    """Add the options `junit`, `is_markdown` and `is_json`."""
    options = (
        click.option(
            "--junit",
            metavar="FILE",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Also write the verdict as JUnit XML.",
        ),
        click.option(
            "--markdown",
            "is_markdown",
            is_flag=True,
            help="Print Markdown, for example for a CI summary.",
        ),
        click.option("--json", "is_json", is_flag=True, help="Print JSON."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def verbose_option(command: Command) -> Command:
    """Add the option `is_verbose`."""
    return click.option(
        "--verbose",
        "is_verbose",
        is_flag=True,
        help="Also print the plan and the findings of each checker.",
    )(command)
