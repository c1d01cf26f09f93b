"""`staticfire crash-store`: crash the store alone, thousands of times, and compare it with a model."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from staticfire.harness.cli.completion import defects, one_of, some_of, store_policies
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_INVALID, EXIT_VALID, BadInput, turn_errors
from staticfire.harness.defect_loader import use_defect

if TYPE_CHECKING:
    from staticfire.harness.store_crash.cycles import CrashSummary


@click.command(short_help="Crash the store alone, thousands of times.")
@click.option(
    "--cycles",
    type=click.IntRange(1, 10**9),
    default=1000,
    show_default=True,
    help="Number of cycles.",
)
@click.option(
    "--seed", type=click.IntRange(0), default=0, show_default=True, help="Seed of the first cycle."
)
@click.option(
    "--jobs", type=click.IntRange(1, 256), default=1, show_default=True, help="Number of processes."
)
@click.option(
    "--defect",
    default="",
    shell_complete=one_of(defects),
    help="Plant a bug first: one of `staticfire bugs`, or a file NAME.diff.",
)
@click.option(
    "--policies",
    default="",
    metavar="NAME[,NAME...]",
    shell_complete=some_of(store_policies),
    help="Lines of docs/faithful.md in which the store behaves as RocketMQ's, such as store.cut_log.",
)
def crash_store(cycles: int, seed: int, jobs: int, defect: str, policies: str) -> int:
    """Crash the store on a simulated disk inside any disk operation, recover it, and compare it with a model.

    \b
    Example:
      staticfire crash-store --cycles 25000 --jobs 2
      staticfire crash-store --cycles 1000 --defect recovery-ignores-crc
      staticfire crash-store --cycles 200 --policies store.cut_log

    A cycle has four crashes on average. Between two starts of a closed store, files that the log can replace may
    be lost, and records damaged.

    Exit status: 0 valid, 1 invalid, 254 bad arguments, 255 harness error.
    """
    use_defect(defect)
    from staticfire.harness.store_crash.cycles import run_parallel, store_policy

    with turn_errors(ValueError, into=BadInput):
        policy = store_policy(policies.split(",") if policies else ())
    with working("crashing", total=cycles, unit="cycles", forks=True) as progress:

        def report(total: CrashSummary) -> None:
            details = f"{total.crashes} crashes; {len(total.failures)} failures"
            if total.failures:
                details += f", the first with seed {total.failures[0].seed}"
            progress.update(total.counts.cycles, details=details)

        total = run_parallel(seed, cycles, jobs, report, policy)
    command = "staticfire crash-store" + (f" --defect {defect}" if defect else "")
    command += f" --policies {policies}" if policies else ""
    print("\n".join(total.lines(command)))
    return EXIT_INVALID if total.failures else EXIT_VALID
