"""`staticfire crash-store`: crash the store alone, thousands of times, and compare it with a model."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import click
from click.core import ParameterSource

from staticfire.harness.cli.completion import defects, one_of, some_of, store_policies
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_INVALID, EXIT_VALID, BadInput, turn_errors
from staticfire.harness.defect_loader import use_defect
from staticfire.harness.shrink.outputs import write_whole
from staticfire.harness.truncated_repr import printable

if TYPE_CHECKING:
    from staticfire.harness.store_crash.cycles import CrashSummary
    from staticfire.harness.store_crash.shrinking import Played
    from staticfire.system_under_test.store.assembly.store_policy import StorePolicy


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
@click.option(
    "--shrink",
    "shrunk",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Make the first failing cycle small, and write it to this file.",
)
@click.option(
    "--repeat",
    type=click.Path(dir_okay=False, path_type=Path),
    metavar="FILE",
    help="Carry out such a file instead, with its bug and its policies.",
)
def crash_store(
    cycles: int,
    seed: int,
    jobs: int,
    defect: str,
    policies: str,
    shrunk: Path | None,
    repeat: Path | None,
) -> int:
    """Crash the store on a simulated disk inside any disk operation, recover it, and compare it with a model.

    \b
    Example:
      staticfire crash-store --cycles 25000 --jobs 2
      staticfire crash-store --cycles 1000 --defect recovery-ignores-crc
      staticfire crash-store --cycles 200 --policies store.cut_log
      staticfire crash-store --defect cut-leaves-the-old-tail --shrink cycle.json
      staticfire crash-store --repeat cycle.json

    A cycle has four crashes on average. Between two starts of a closed store, files that the log can replace may
    be lost, and records damaged.

    Exit status: 0 valid, 1 invalid, 254 bad arguments, 255 harness error.
    """
    if repeat is not None:
        _require_alone("repeat", repeat)
        return _repeat(repeat)
    if shrunk is not None and not shrunk.absolute().parent.is_dir():
        raise BadInput(f"--shrink {str(shrunk)!r}: there is no folder {str(shrunk.parent)!r}")
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
    print("\n".join(total.lines(command, hints=shrunk is None)))
    if shrunk is not None and total.failures:
        first = min(failure.seed for failure in total.failures)
        print("\n".join(shrunk_cycle(first, policy, shrunk, defect, policies)))
    return EXIT_INVALID if total.failures else EXIT_VALID


def _require_alone(name: str, given: Path) -> None:
    """Raise BadInput if the command line has another option."""
    context = click.get_current_context()
    for other in context.params.keys() - {name}:
        if context.get_parameter_source(other) is ParameterSource.COMMANDLINE:
            option = next(one.opts[0] for one in context.command.params if one.name == other)
            raise BadInput(f"{option} and --{name} {str(given)!r} exclude each other")


def shrunk_cycle(
    seed: int, policy: StorePolicy, path: Path, defect: str, policies: str = ""
) -> Iterator[str]:
    """Make the failing cycle of a seed small; yield lines about it. The file always holds the best so far."""
    from staticfire.harness.store_crash.shrinking import drawn, shrink

    first = drawn(seed, policy)
    with working("shrinking") as progress:

        def improved(best: Played) -> None:
            text = best.script.to_text(defect=defect, policies=policies, failure=best.failure)
            write_whole(path, text)
            progress.update(details=f"{best.works} steps and {best.faults} faults")

        improved(first)
        best = shrink(first, policy, improved)
    yield (
        f"shrunk: {first.works} steps of load and {first.faults} faults"
        f" -> {best.works} and {best.faults}"
    )
    yield from _story(best)
    yield f"  repeat with: staticfire crash-store --repeat {path}"


def _repeat(path: Path) -> int:
    """Carry out the cycle of a file, and print what happens."""
    from staticfire.harness.store_crash.script import script_of

    if path.exists() and not path.is_file():
        raise BadInput(f"--repeat {str(path)!r} is not a regular file")
    try:
        script, texts = script_of(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise BadInput(f"--repeat {str(path)!r} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise BadInput(f"--repeat {str(path)!r}: {error}") from error
    use_defect(texts.get("defect", ""))
    from staticfire.harness.store_crash.cycles import store_policy
    from staticfire.harness.store_crash.shrinking import played

    policies = texts.get("policies", "")
    with turn_errors(ValueError, into=BadInput):
        policy = store_policy(policies.split(",") if policies else ())
    result = played(script, policy)
    print("\n".join(_story(result)))
    return EXIT_INVALID if result.failure else EXIT_VALID


def _story(played: Played) -> Iterator[str]:
    yield from (printable(f"  {line}") for line in played.story)
    yield (
        printable(f"FAILED: {played.failure}") if played.failure else "valid: no promise is broken"
    )
