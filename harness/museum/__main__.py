"""`make museum`: searches for every piece, keeps the figures in docs/data/museum.json, and can be resumed."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from random import Random

from staticfire.faults.defects import DEFECTS, Defect
from staticfire.harness.cli.progress import working
from staticfire.harness.museum.measured import Measured, locked, read_measured, write_measured
from staticfire.harness.museum.searches import Search, Way, judge_without, search
from staticfire.harness.museum.store_search import search_store

RECIPE_CPU_S = 600.0
BLIND_CPU_S = 120.0
QUICK_CPU_S = 20.0  # the longest search of a piece that a sample may include


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the searches.

    Exit status: 0 each piece is found, and its seed is valid without the bug; 1 not all; 254 bad arguments.
    """
    options = _options(arguments)
    unknown = [name for name in options.only if name not in DEFECTS]
    if unknown:
        print(f"NAME is {unknown[0]}; allowed: those of `staticfire bugs`", file=sys.stderr)
        return 254
    names = options.only or list(DEFECTS)
    measured = read_measured()
    if options.sample:
        names = sampled([name for name in names if _is_quick(measured, name)], options)
        measured = {}
    missed = []
    for number, name in enumerate(names, start=1):
        piece = measured.setdefault(name, Measured())
        if options.again:
            setattr(piece, options.way, Search())
        found: Search = getattr(piece, options.way)
        found.bound_cpu_s = max(found.bound_cpu_s, options.cpu)
        with working("museum") as progress:
            progress.update(details=f"piece {number} of {len(names)}: {name}")
            measure(DEFECTS[name], found, options.way)
        print(f"{number}/{len(names)}  {line_of(DEFECTS[name], found)}", flush=True)
        if not options.sample:
            _keep(name, found, options.way)
        if not found.is_found or found.off == "invalid":
            missed.append(name)
    print(f"{len(names) - len(missed)} of {len(names)} found" + _missed_text(missed))
    return 1 if missed else 0


def _missed_text(missed: Sequence[str]) -> str:
    return f"; not: {', '.join(missed)}" if missed else ""


def _keep(name: str, found: Search, way: Way) -> None:
    """Write this search to the file, to which another process may write other searches meanwhile."""
    with locked():
        fresh = read_measured()
        setattr(fresh.setdefault(name, Measured()), way, found)
        write_measured(fresh)


def measure(defect: Defect, found: Search, way: Way) -> None:
    """Search for one piece until its bound. Raises DefectError."""
    if defect.store_crashes and way == "recipe":
        search_store(defect, found)
        return
    search(defect, found, way)
    while found.is_found and not found.off:
        off = judge_without(defect, found, way)
        if way != "recipe" and off == "invalid":
            found.forget_seed()  # the seed proves nothing about the bug
            search(defect, found, way)
        else:
            found.off = off


def line_of(defect: Defect, found: Search) -> str:
    """Return the result of a search as a line for the terminal."""
    if not found.is_found:
        text = f"not found in {found.seeds} seeds, {found.cpu_s:.0f} CPU s"
        return f"{defect.name}: {text}" + (f"; {found.failure}" if found.failed else "")
    beside = sorted(set(found.checkers) - set(defect.checkers))
    return (
        f"{defect.name}: seed {found.seed} of {found.workload}, {found.seeds} seeds, {found.cpu_s:.1f} CPU s: "
        f"{', '.join(found.checkers)}"
        + (f"; not expected: {', '.join(beside)}" if beside else "")
        + (f"; off: {found.off}" if found.off else "")
        + ("" if found.broken is None else f"; clauses: {', '.join(found.broken) or 'none'}")
    )


def _is_quick(measured: dict[str, Measured], name: str) -> bool:
    """Whether the piece was found by its recipe within a few seconds."""
    recipe = measured.get(name, Measured()).recipe
    return recipe.is_found and recipe.off == "valid" and recipe.cpu_s <= QUICK_CPU_S


def sampled(names: Sequence[str], options: argparse.Namespace) -> list[str]:
    """Return as many names as `--sample` says, different ones for each `--rotation`."""
    random = Random(f"museum/{options.rotation}")
    return sorted(random.sample(sorted(names), min(options.sample, len(names))))


def _options(arguments: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m staticfire.harness.museum", description=__doc__
    )
    parser.add_argument("only", nargs="*", metavar="NAME", help="only these pieces")
    ways = parser.add_mutually_exclusive_group()
    blind, guided = "without the recipes", "blind, and breeding as hunt --guided does"
    ways.add_argument("--blind", dest="way", action="store_const", const="blind", help=blind)
    ways.add_argument("--guided", dest="way", action="store_const", const="guided", help=guided)
    parser.add_argument("--cpu", type=float, metavar="SECONDS", help="bound of each search")
    parser.add_argument("--again", action="store_true", help="forget what was measured of them")
    parser.add_argument("--sample", type=int, default=0, metavar="N", help="N pieces; keep nothing")
    parser.add_argument("--rotation", default="", metavar="TEXT", help="which sample")
    options = parser.parse_args(arguments, argparse.Namespace(way="recipe"))
    if options.cpu is None:
        options.cpu = RECIPE_CPU_S if options.way == "recipe" else BLIND_CPU_S
    return options


if __name__ == "__main__":
    sys.exit(main())
