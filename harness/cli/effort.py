"""Options of long-running commands on several cores: `--jobs` and `--budget`."""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import TypeVar

import click

from staticfire.harness.cli.status import BadInput

JOBS_MAX = 256
BUDGET_MAX_S = 1e6
Command = TypeVar("Command", bound=Callable[..., object])


def check_jobs(jobs: int) -> int:
    """Return the number. Raises BadInput."""
    if not 1 <= jobs <= JOBS_MAX:
        raise BadInput(f"--jobs is {jobs}; allowed: 1 to {JOBS_MAX}")
    return jobs


def check_budget(seconds: float) -> float:
    """Return the time. Raises BadInput, for NaN too."""
    if not 0 < seconds <= BUDGET_MAX_S:
        raise BadInput(
            f"--budget is {seconds:g}; allowed: more than 0 and up to {BUDGET_MAX_S:.0f} seconds"
        )
    return seconds


def effort_options(budget_s: float, budget_help: str) -> Callable[[Command], Command]:
    """`--budget` with this default, and `--jobs`; both are checked."""

    def decorate(command: Command) -> Command:
        command = click.option(
            "--jobs",
            type=int,
            default=os.cpu_count() or 1,
            show_default="one per processor",
            callback=lambda _context, _option, jobs: check_jobs(jobs),
            help="Number of processes.",
        )(command)
        return click.option(
            "--budget",
            default=budget_s,
            show_default=True,
            metavar="SECONDS",
            callback=lambda _context, _option, seconds: check_budget(seconds),
            help=budget_help,
        )(command)

    return decorate
