"""Measures `shrink` on the run of each recipe.

    python -m staticfire.harness.museum.shrinking

The figures are in docs/data/shrink.json, and a later call measures the missing ones.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from staticfire.faults.defects import DEFECTS
from staticfire.harness.cli.progress import working
from staticfire.harness.museum.figures import read_figures, write_figures
from staticfire.harness.museum.measured import read_measured
from staticfire.harness.museum.measuring import parser_of, row_of

DATA = Path("docs/data/shrink.json")
MODULE = "staticfire.harness.museum.shrinking"
WORKER = "staticfire.harness.museum.shrink_worker"
BUDGET_S = 60.0
JOBS = 2
TIER = "S"  # the pieces that are measured without given names

Times = tuple[float, float]  # CPU s of all processes, wall s


@dataclass(frozen=True, slots=True, kw_only=True)
class Shrunk:
    """The figures of one piece.

    Attributes:
        failure: the fingerprint.
        faults, ops: numbers before and after the shrink.
        reached: when the campaign was small, at most 3 faults and 10 ops; None: it never was.
        last: when the last improvement came.
        whole: when the search ended.
        is_complete: whether the search ended by itself, and not because the budget was spent.
        is_repeated: whether another run of the shrunk campaign has the same digest, or of a cycle the same events.
    """

    seed: int
    failure: str
    faults: tuple[int, int]
    ops: tuple[int, int]
    reached: Times | None
    last: Times
    whole: Times
    is_complete: bool
    is_repeated: bool


def measure(name: str, seed: int, jobs: int, budget_s: float) -> Shrunk | str:
    """Return the figures, or the reason that there are none."""
    is_cycle = DEFECTS[name].store_crashes > 0
    job = {"seed": seed, "jobs": jobs, "budget_s": budget_s, "is_cycle": is_cycle}
    row = row_of(name, WORKER, job)
    return row if isinstance(row, str) else Shrunk(**row)


def line_of(name: str, one: Shrunk) -> str:
    """Return the result of a shrink as a line for the terminal."""
    reached = (
        "never small" if one.reached is None else "small after {} CPU s, {} s".format(*one.reached)
    )
    return (
        f"{name}: {one.failure}: faults {one.faults[0]} -> {one.faults[1]}, ops {one.ops[0]} -> {one.ops[1]}; "
        f"{reached}; last after {one.last[0]} CPU s, {one.last[1]} s"
        + ("" if one.is_repeated else "; it does not repeat")
    )


def main(arguments: Sequence[str] | None = None) -> int:
    """Measure pieces. Exit status: 0 each is small and repeats, 1 not all, 254 bad arguments."""
    options = parser_of(MODULE, __doc__, BUDGET_S, JOBS).parse_args(arguments)
    for name in options.only:
        if name not in DEFECTS:
            print(f"NAME is {name}; allowed: those of `staticfire bugs`", file=sys.stderr)
            return 254
    found, rows = read_measured(), read_figures(DATA, Shrunk)
    names = options.only or [
        name for name, defect in DEFECTS.items() if defect.tier == TIER and name not in rows
    ]
    for name in names:
        recipe = found[name].recipe if name in found else None
        if recipe is None or recipe.seed is None:
            print(f"{name}: no run is known to show it", flush=True)
            continue
        with working("shrinking") as progress:
            progress.update(details=name)
            one = measure(name, recipe.seed, options.jobs, options.budget)
        if isinstance(one, str):
            print(f"{name}: {one}", flush=True)
            continue
        rows[name] = one
        write_figures(DATA, rows)
        print(line_of(name, one), flush=True)
    return (
        0
        if all(name in rows and rows[name].reached and rows[name].is_repeated for name in names)
        else 1
    )


if __name__ == "__main__":
    sys.exit(main())
