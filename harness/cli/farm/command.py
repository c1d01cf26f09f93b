"""`staticfire farm`: an endless hunt."""

from __future__ import annotations

import fcntl
import math
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import click

from staticfire.faults.defects import defect_named
from staticfire.harness.cli.completion import defects, one_of, workloads
from staticfire.harness.cli.effort import check_budget
from staticfire.harness.cli.farm.hands import Processes
from staticfire.harness.cli.farm.ledger import Ledger, Round
from staticfire.harness.cli.farm.page import page
from staticfire.harness.cli.farm.rounds import Rounds
from staticfire.harness.cli.farm.schedule import Job, Settings, Wait, next_step
from staticfire.harness.cli.hunt.placement import Placement, placement_options
from staticfire.harness.cli.status import (
    EXIT_INVALID,
    EXIT_VALID,
    BadInput,
    HarnessError,
    of_a_file,
)
from staticfire.harness.shrink.outputs import write_whole
from staticfire.harness.truncated_repr import printable, truncated_repr
from staticfire.harness.workloads.catalogue import WORKLOADS

CANARIES = ("reads-before-flush", "held-pull-misses-its-message", "roll-back-commits")
WEIGHT_MAX = 1000.0
CPU_HOURS_MAX = 100_000.0
SEED_LIMIT_S = 600.0
EMPTY_ROUNDS_MAX = 3  # in a row
PAGE, LEDGER, LOCK = "index.html", "ledger.jsonl", "lock"


@click.command(short_help="Hunt endlessly, within a daily budget.")
@click.argument("folder", type=click.Path(file_okay=False, path_type=Path))
@click.option(
    "--workload",
    "workloads",
    multiple=True,
    metavar="NAME[=WEIGHT]",
    shell_complete=one_of(workloads),
    help="Share of the CPU time for a workload. May be repeated. Default: equal shares.",
)
@click.option(
    "--canary",
    "canaries",
    multiple=True,
    metavar="DEFECT",
    shell_complete=one_of(defects),
    help=f"A planted bug that the farm must find each day and at each commit. Default: {', '.join(CANARIES)}.",
)
@click.option(
    "--cpu-hours",
    type=float,
    default=24.0,
    show_default=True,
    metavar="HOURS",
    help="CPU time per day (UTC), after which the farm waits for the next day.",
)
@click.option("--until-spent", is_flag=True, help="Stop when the day's budget is spent.")
@click.option(
    "--round",
    "seeds",
    type=click.IntRange(1, 100_000),
    default=32,
    show_default=True,
    metavar="SEEDS",
    help="Seeds per round. Each round has one workload.",
)
@click.option(
    "--canary-seeds",
    type=click.IntRange(1, 10_000),
    default=20,
    show_default=True,
    metavar="SEEDS",
    help="Seeds within which a canary must be found.",
)
@click.option(
    "--shrink-budget",
    "shrink_s",
    type=float,
    default=300.0,
    show_default=True,
    metavar="SECONDS",
    help="Time to shrink a new failure.",
)
@placement_options
def farm(
    folder: Path,
    workloads: tuple[str, ...],
    canaries: tuple[str, ...],
    cpu_hours: float,
    until_spent: bool,
    seeds: int,
    canary_seeds: int,
    shrink_s: float,
    placement: Placement,
) -> int:
    """Run new seeds of all workloads in endless rounds, and keep a page of the results.

    \b
    Example:
      staticfire farm /srv/farm --cpu-hours 24
      staticfire farm /srv/farm --workload queue=3 --workload retry --workload transactional=2
      staticfire farm farm --cpu-hours 1 --until-spent

    Each round runs the newest commit of the checkout from which this command runs. Each day, and at each new commit,
    the farm must find its canaries first. It shrinks each new cause of failure, and keeps the campaign in
    FOLDER/regressions. FOLDER/index.html is the page. Ctrl-C stops the farm; the same command continues it.

    Exit status: 0 stopped, 1 stopped and some seed was invalid, 254 bad arguments, 255 harness error, or the farm is
    broken: a canary was not found.
    """
    settings = Settings(
        weights=_weights(workloads),
        canaries=tuple(defect_named(name).name for name in canaries or CANARIES),
        cpu_hours=_cpu_hours(cpu_hours),
        seeds=seeds,
        canary_seeds=canary_seeds,
    )
    check_budget(shrink_s)
    placement.check()
    with _alone(folder):
        hands = Processes(folder)
        rounds = Rounds(
            folder=folder, hands=hands, hunt_options=_placed(placement), shrink_s=shrink_s
        )
        return run_farm(folder, settings, rounds, until_spent=until_spent)


@dataclass(frozen=True, slots=True)
class Clock:
    """The clock of a farm, in seconds since 1970, which can also wait."""

    now: Callable[[], float] = time.time
    sleep: Callable[[float], None] = time.sleep


def run_farm(
    folder: Path,
    settings: Settings,
    rounds: Rounds,
    *,
    until_spent: bool,
    clock: Clock = Clock(),
) -> int:
    """Run rounds until Ctrl-C; return the exit status. Raises HarnessError if a canary is not found."""
    ledger = Ledger(folder / LEDGER)
    try:
        while True:
            commit = rounds.hands.newest_commit()
            step = next_step(settings, ledger, commit, clock.now())
            if isinstance(step, Wait):
                _write_page(folder, ledger, settings, clock.now(), ())
                if until_spent:
                    break
                print(f"waits     {step.seconds / 3600:.1f} h: the budget is spent", flush=True)
                clock.sleep(step.seconds)
                continue
            one = rounds.carry_out(step, ledger, commit, clock.now())
            ledger.add(one)
            print(printable(_line(one)), flush=True)
            missed = (one.name,) if one.kind == "canary" and not one.is_found else ()
            _write_page(folder, ledger, settings, clock.now(), missed)
            _check(step, one, ledger)
    except KeyboardInterrupt:
        print("stopped   the same command continues", flush=True)
    return EXIT_INVALID if any(one.causes for one in ledger.rounds) else EXIT_VALID


def _check(job: Job, one: Round, ledger: Ledger) -> None:
    """Raises HarnessError where the farm is broken."""
    if one.kind == "canary" and not one.is_found:
        why = f": {one.error}" if one.error else ""
        raise HarnessError(
            f"the farm is broken: seeds {job.first}-{job.last} did not find the planted bug {one.name}{why}"
        )
    last = ledger.of("hunt")[-EMPTY_ROUNDS_MAX:]
    if len(last) == EMPTY_ROUNDS_MAX and not any(found.seeds for found in last):
        raise HarnessError(f"{EMPTY_ROUNDS_MAX} rounds in a row ran no seed: {last[-1].error}")


def _line(one: Round) -> str:
    if one.kind == "hunt":
        counts = ", ".join(f"{count} {answer}" for answer, count in sorted(one.answers.items()))
        said = counts or "no seed"
    else:
        said = "found" if one.kind == "canary" else "kept in regressions"
        said = said if one.is_found else "not found" if one.kind == "canary" else "not shrunk"
    note = f"; {one.error}" if one.error else ""
    where = f"{one.name}, seeds {one.first}-{one.last}"
    return f"{one.kind:<9} {where}: {said}; {one.cpu_s:.0f} CPU s{note}"


def _write_page(
    folder: Path, ledger: Ledger, settings: Settings, now_s: float, missed: tuple[str, ...]
) -> None:
    """Raises BadInput, HarnessError."""
    try:
        write_whole(folder / PAGE, page(ledger, settings, now_s, missed))
    except OSError as error:
        raise of_a_file(error, folder / PAGE) from error


@contextmanager
def _alone(folder: Path) -> Iterator[None]:
    """Lock the folder for this farm. Raises BadInput, HarnessError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with (folder / LOCK).open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise BadInput(f"{folder} belongs to a running farm; choose another") from error
            yield
    except OSError as error:
        raise of_a_file(error, folder) from error


def _weights(given: tuple[str, ...]) -> dict[str, float]:
    """Raises BadInput."""
    if not given:
        return dict.fromkeys(WORKLOADS, 1.0)
    weights = {}
    for text in given:
        name, has_weight, number = text.partition("=")
        if name not in WORKLOADS:
            raise BadInput(f"--workload is {truncated_repr(name)}; allowed: {', '.join(WORKLOADS)}")
        try:
            weights[name] = float(number) if has_weight else 1.0
        except ValueError:
            weights[name] = math.nan
        if not 0 < weights[name] <= WEIGHT_MAX:
            raise BadInput(
                f"--workload is {truncated_repr(text)}; allowed: a weight above 0 and up to {WEIGHT_MAX:g}"
            )
    return weights


def _cpu_hours(given: float) -> float:
    """Raises BadInput, for NaN too."""
    if not 0 < given <= CPU_HOURS_MAX:
        raise BadInput(
            f"--cpu-hours is {given:g}; allowed: more than 0 and up to {CPU_HOURS_MAX:g}"
        )
    return given


def _placed(placement: Placement) -> list[str]:
    """Return the same options for `staticfire hunt`."""
    options = ["--seed-limit", f"{placement.limit_s or SEED_LIMIT_S:g}"]
    if placement.jobs is not None:
        options += ["--jobs", str(placement.jobs)]
    if placement.master is not None:
        options += ["--master", placement.master, "--memory", str(placement.memory_mb)]
    if placement.packed is not None:
        options += ["--packed", str(Path(placement.packed).resolve())]
    return options
