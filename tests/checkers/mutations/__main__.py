"""`python -m tests.checkers.mutations`: plants every kind into valid runs and prints how many were detected."""

from __future__ import annotations

import argparse
import os
import sys
import time
from math import inf
from pathlib import Path
from random import Random

from staticfire.harness.cli.hunt.seed_range import seed_range
from staticfire.harness.cli.status import BadInput
from tests.checkers.mutations.catalogue import all_mutations, all_oddities
from tests.checkers.mutations.model import WORKLOADS
from tests.checkers.mutations.pieces import OtherMeasurement, Pieces
from tests.checkers.mutations.score import kinds_named, scored, tasks_of
from tests.checkers.mutations.table import below_floor, page, read_floors, report, summary

ROTATION = "STATICFIRE_ROTATION"


def _seeds(text: str) -> list[int]:
    try:
        return list(seed_range(text))
    except BadInput as error:
        raise argparse.ArgumentTypeError(str(error)) from error


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.checkers.mutations", description=__doc__)
    parser.add_argument("--workloads", default="all", help="names with commas between them, or all")
    parser.add_argument(
        "--seeds", default="1-2", type=_seeds, help="FIRST-LAST, of runs of each workload and style"
    )
    parser.add_argument(
        "--places", default=20, type=int, help="of a kind in each workload, at rest and near faults"
    )
    parser.add_argument(
        "--kinds", default="all", help="names with commas between them, all, mutations or oddities"
    )
    parser.add_argument("--jobs", default=1, type=int, help="processes")
    parser.add_argument("--runs", type=Path, help="folder that keeps the runs")
    parser.add_argument("--out", type=Path, help="file for the table; without it, it is printed")
    parser.add_argument("--page", type=Path, help="file for the page of the documentation")
    parser.add_argument("--floors", action="store_true", help="fail if a kind is below its floor")
    parser.add_argument(
        "--below-floor-max",
        default=0,
        type=int,
        help="how many complaints --floors allows, crashes of checkers aside: a sample is small",
    )
    parser.add_argument(
        "--rotation",
        default=os.environ.get(ROTATION, ""),
        help=f"any text: other places (default: ${ROTATION})",
    )
    parser.add_argument(
        "--seconds", type=float, default=inf, help="end after so long with what is there"
    )
    parser.add_argument(
        "--resume",
        type=Path,
        metavar="FILE",
        help="JSON file that keeps the counts: what it holds is not measured again, and new counts are added to it",
    )
    return parser


def _names(text: str) -> list[str]:
    mutations, oddities = [k.name for k in all_mutations()], [k.name for k in all_oddities()]
    every = {"all": [*mutations, *oddities], "mutations": mutations, "oddities": oddities}
    return every.get(text) or text.split(",")


def main() -> int:
    arguments = _parser().parse_args()
    workloads = WORKLOADS if arguments.workloads == "all" else tuple(arguments.workloads.split(","))
    names = _names(arguments.kinds)
    try:
        kinds_named(names)
    except KeyError as error:
        print(f"{error} is no kind of mutation or oddity", file=sys.stderr)
        return 254
    if unknown := set(workloads) - set(WORKLOADS):
        print(f"{min(unknown)!r} is no workload; there are {', '.join(WORKLOADS)}", file=sys.stderr)
        return 254
    options = {
        "seeds": [arguments.seeds[0], arguments.seeds[-1]],
        "places": arguments.places,
        "rotation": arguments.rotation,
    }
    pieces = Pieces(arguments.resume, options)
    try:
        pieces.read()
    except OtherMeasurement as error:
        print(error, file=sys.stderr)
        return 254
    if arguments.rotation:  # what the time ends before is another workload for another text
        workloads = tuple(Random(arguments.rotation).sample(workloads, len(workloads)))
    start = time.monotonic()
    tasks = tasks_of(
        names,
        workloads,
        arguments.seeds,
        arguments.places,
        arguments.runs,
        arguments.rotation,
        start + arguments.seconds,
        pieces.parts,
    )
    floors = read_floors()
    done = 0
    try:
        for task, part in scored(tasks, arguments.jobs):
            pieces.add(task, part)
            done += 1
            places = sum(score.places for score in part.values())
            what = f"{done}/{len(tasks)} {task.workload} {task.site}: {places} places"
            print(f"{what}, {time.monotonic() - start:.0f} s", file=sys.stderr)
            if arguments.out:
                arguments.out.write_text(report(pieces.scores(), floors), encoding="utf-8")
    except KeyboardInterrupt:
        print(f"interrupted with {done} of {len(tasks)} parts", file=sys.stderr)
    scores = pieces.scores()
    left = sum(
        len(task.kinds) for task in tasks_of(names, workloads, (), 0, None, done=pieces.parts)
    )
    if left and arguments.resume:
        print(f"{left} kinds of workloads are left for the next piece", file=sys.stderr)
    if arguments.page:
        arguments.page.write_text(page(scores, floors, _command(arguments)), encoding="utf-8")
    print(summary(scores) if arguments.out else report(scores, floors))
    failures = below_floor(scores, floors) if arguments.floors else []
    for line in failures:
        print(line, file=sys.stderr)
    crashes = [crash for score in scores.values() for crash in score.crashes]
    is_worse = len(failures) > arguments.below_floor_max or (arguments.floors and crashes)
    return 1 if is_worse else 0


def _command(arguments: argparse.Namespace) -> str:
    """What measures the same, in one piece."""
    given = {"--workloads": arguments.workloads, "--kinds": arguments.kinds}
    chosen = [word for name, value in given.items() if value != "all" for word in (name, value)]
    seeds = f"{arguments.seeds[0]}-{arguments.seeds[-1]}"
    more = ["--seeds", seeds, "--places", str(arguments.places)]
    return " ".join(["python -m tests.checkers.mutations", *chosen, *more])


if __name__ == "__main__":
    sys.exit(main())
