"""Options of a hunt that say where its seeds run: on this machine, or on the executors of Spark."""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import wraps
from typing import Any, TypeVar

import click

from staticfire.harness.cli.effort import check_jobs
from staticfire.harness.cli.extras import need_extra
from staticfire.harness.cli.hunt.workers import Workers, workers_here
from staticfire.harness.cli.status import BadInput

LIMIT_MAX_S = 1e6
MEMORY_MB = 1024
Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True, kw_only=True)
class Placement:
    """The placement of seeds. Options that were not given are None."""

    jobs: int | None = None
    master: str | None = None
    packed: str | None = None
    memory_mb: int = MEMORY_MB
    limit_s: float | None = None  # wall time that a seed may take

    def check(self) -> None:
        """Raises BadInput."""
        if self.jobs is not None:
            check_jobs(self.jobs)
        if self.limit_s is not None and not 0 < self.limit_s <= LIMIT_MAX_S:
            raise BadInput(
                f"--seed-limit is {self.limit_s:g}; allowed: more than 0 and up to {LIMIT_MAX_S:.0f} seconds"
            )
        if self.master is None:
            return
        need_extra("spark", "--master")
        if self.jobs is not None:
            raise BadInput(
                "--jobs is for this machine and --master for Spark; leave one of them out"
            )
        if self.master.startswith("sc://"):
            raise BadInput(
                f"--master is {self.master!r}; allowed: local[N], spark://HOST:PORT, yarn or k8s://..., "
                "as Spark Connect cannot send planted bugs"
            )

    def check_real(self) -> None:
        """Check the options for seeds on real machines. Raises BadInput."""
        for option, value in (("--master", self.master), ("--seed-limit", self.limit_s)):
            if value is not None:
                raise BadInput(
                    f"{option} is for simulated seeds; allowed: --environment simulation"
                )

    def workers(self, *, is_real: bool) -> AbstractContextManager[Workers]:
        """Return the workers for the seeds; real machines run a seed at a time. Raises HarnessError if Spark fails."""
        if self.master is None:
            jobs = 1 if is_real else self.jobs or os.cpu_count() or 1
            return workers_here(jobs, self.limit_s)
        from staticfire.harness.cli.hunt.spark_workers import workers_on_spark
        from staticfire.spark_analysis.engine.session import Settings

        settings = Settings(
            master=self.master,
            driver_memory_mb=self.memory_mb,
            executor_memory_mb=self.memory_mb,
            environment=self.packed,
            excludes=True,
        )
        return workers_on_spark(settings, self.limit_s)


_OPTIONS = (
    click.option(
        "--jobs",
        type=int,
        show_default="one per processor",
        help="Number of processes on this machine.",
    ),
    click.option(
        "--master",
        metavar="URL",
        help="Run seeds on Spark instead: local[N], spark://HOST:PORT, yarn or k8s://...",
    ),
    click.option(
        "--packed",
        metavar="FILE",
        help="With --master: a packed Python environment for the executors.",
    ),
    click.option(
        "--memory",
        "memory_mb",
        type=click.IntRange(256, 1 << 20),
        default=MEMORY_MB,
        show_default=True,
        metavar="MB",
        help="With --master: memory of each JVM.",
    ),
    click.option(
        "--seed-limit",
        "limit_s",
        type=float,
        metavar="SECONDS",
        help="Wall time limit for a simulated seed; a seed that takes longer fails. Default: no limit.",
    ),
)


def placement_options(command: Command) -> Command:
    """Give the command an argument `placement`."""

    @wraps(command)
    def with_placement(*args: Any, **given: Any) -> Any:
        names = ("jobs", "master", "packed", "memory_mb", "limit_s")
        placement = Placement(**{name: given.pop(name) for name in names})
        return command(*args, placement=placement, **given)

    wrapped: Any = with_placement
    for option in reversed(_OPTIONS):
        wrapped = option(wrapped)
    placed: Command = wrapped
    return placed
