"""Measures the points of no return of pieces, and compares them with the causes in the pieces' files.

    python -m staticfire.harness.museum.inevitable

Each run is the unshrunk run of the recipe. The figures are in docs/data/no-return.json; a later call measures the
missing ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.effort import check_budget, check_jobs
from staticfire.harness.cli.progress import working
from staticfire.harness.cli.status import EXIT_BAD_ARGUMENTS, BadInput
from staticfire.harness.museum.figures import read_figures, write_figures
from staticfire.harness.museum.measured import read_measured
from staticfire.harness.museum.measuring import parser_of, row_of

DATA = Path("docs/data/no-return.json")
MODULE = "staticfire.harness.museum.inevitable"
WORKER = "staticfire.harness.museum.inevitable_worker"
BUDGET_S = 120.0
JOBS = 2
NEAR = 0.01  # greatest distance, as a share of the run


@dataclass(frozen=True, slots=True, kw_only=True)
class Jump:
    """The figures of one piece: the position of the jump, and the cause.

    Attributes:
        end_ns: end of the run.
        before_ns, after_ns: the sides of the jump; None: the failure was inevitable from the start.
        is_complete: whether the search has reached its target distance of the sides.
        cpu_s: CPU time, including the repetition that proves that the run repeats.
        wall_s: wall time of the same.
        kind: kind of the fault that is the cause; "" for none.
        cause_ns: when it was fired; 0 if the bug needs no fault; None if no fault of these kinds seals the failure.
    """

    seed: int
    end_ns: int
    before_ns: int | None
    after_ns: int
    is_complete: bool
    continuations: int
    cpu_s: float
    wall_s: float
    kind: str
    cause_ns: int | None

    @property
    def off(self) -> float | None:
        """Return the distance of the cause from the jump, as a share of the run; None without a cause."""
        if self.cause_ns is None:
            return None
        first_ns, last_ns = self.before_ns or 0, self.after_ns
        return max(first_ns - self.cause_ns, self.cause_ns - last_ns, 0) / self.end_ns

    @property
    def is_near(self) -> bool:
        """Whether the jump was found within 1 % of the run from the cause."""
        return self.is_complete and self.off is not None and self.off <= NEAR


def pieces_with_cause() -> list[str]:
    """Return the names of the pieces whose files name a cause."""
    return [name for name, defect in DEFECTS.items() if defect.cause is not None]


def measure(name: str, seed: int, jobs: int, budget_s: float) -> Jump | str:
    """Return the figures, or the reason that there are none."""
    job = {"seed": seed, "kinds": DEFECTS[name].cause, "jobs": jobs, "budget_s": budget_s}
    row = row_of(name, WORKER, job)
    return row if isinstance(row, str) else Jump(**row)


def line_of(name: str, jump: Jump) -> str:
    """Return the result of a measurement as a line for the terminal."""
    cause = "no fault" if jump.cause_ns is None else f"{jump.kind or 'start'} at {jump.cause_ns}"
    sides = f"{jump.before_ns} - {jump.after_ns}" + ("" if jump.is_complete else ", not complete")
    off = "" if jump.off is None else f"; off by {jump.off:.2%}"
    spent = f"{jump.continuations} continuations, {jump.cpu_s:.0f} CPU s, {jump.wall_s:.0f} s"
    return f"{name}: {cause}; jump {sides} ns{off}; {spent}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure pieces. Exit status: 0 each jump is near its cause, 1 not all, 254 bad arguments."""
    options = parser_of(MODULE, __doc__, BUDGET_S, JOBS).parse_args(arguments)
    try:
        check_jobs(options.jobs)
        check_budget(options.budget)
    except BadInput as error:
        print(error, file=sys.stderr)
        return EXIT_BAD_ARGUMENTS
    for name in options.only:
        if name not in pieces_with_cause():
            print(
                f"NAME is {name}; allowed: pieces whose files have `cause`: {', '.join(pieces_with_cause())}",
                file=sys.stderr,
            )
            return EXIT_BAD_ARGUMENTS
    found, jumps = read_measured(), read_figures(DATA, Jump)
    names = options.only or [name for name in pieces_with_cause() if name not in jumps]
    for name in names:
        seed = found[name].recipe.seed if name in found else None
        if seed is None:
            print(f"{name}: its recipe has found nothing; `make museum` measures it", flush=True)
            continue
        with working("rewinding") as progress:
            progress.update(details=name)
            jump = measure(name, seed, options.jobs, options.budget)
        if isinstance(jump, str):
            print(f"{name}: {jump}", flush=True)
            continue
        jumps[name] = jump
        write_figures(DATA, jumps)
        print(line_of(name, jump), flush=True)
    return 0 if all(name in jumps and jumps[name].is_near for name in names) else 1


if __name__ == "__main__":
    sys.exit(main())
