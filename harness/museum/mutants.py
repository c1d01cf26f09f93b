"""`make mutants`: samples mutants of the system by a fixed seed, and measures which of them the harness finds.

The figures are in docs/data/mutants.json, and a later call continues where this one stopped.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Collection, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from random import Random
from typing import Any

import orjson

import staticfire
from staticfire.faults.defects.diffs import SYSTEM, apply_diff
from staticfire.harness.cli.progress import working
from staticfire.harness.defect_loader import patched_system
from staticfire.harness.museum.mutations import Mutation, mutations, sample
from staticfire.harness.museum.processes import rows_of

DATA = Path("docs/data/mutants.json")
WORKER = "staticfire.harness.museum.mutant_worker"
SEED = 1
COUNT = 300
CYCLES = 300  # of the store, for mutants of the modules that it runs
STORE = ("store/", "protocol/message.py")
WORKLOADS = (
    "queue",
    "ordered",
    "delayed",
    "retry",
    "transactional",
    "filtered",
    "broadcast",
    "request-reply",
)
Hunts = tuple[tuple[int, dict[str, Any]], ...]  # seeds, and the options of each
# Options that the hunts of WORKLOADS draw rarely or never.
OPTIONS: tuple[dict[str, Any], ...] = (
    {
        "workload": "queue",
        "acl": True,
        "tls": "enforcing",
        # Only plain answered sends belong to other accounts, and none in a campaign that measures gaps.
        "async_share": 0.0,
        "gap_max_s": 0.0,
    },
    {"workload": "batch", "consumer_kind": "pull"},
    {"workload": "rebalance", "consumer_kind": "lite-pull"},
    {"workload": "forwarded"},
)
# One seed draws the same faults for all workloads, so each hunt has another seed. These twelve runs
# are valid, and have 34 kinds of fault.
HUNTS: Hunts = tuple(enumerate((*({"workload": one} for one in WORKLOADS), *OPTIONS), start=12))
# Further hunts (--again) of survivors without a different digest. With HUNTS they are EQUIVALENT_SEEDS.
MORE_HUNTS: Hunts = tuple(enumerate(({"workload": one} for one in WORKLOADS), start=24))
EQUIVALENT_SEEDS = 20  # seeds without a different digest, before a mutant may count as equivalent


@dataclass(slots=True, kw_only=True)
class Trial:
    """The result of one mutant.

    Attributes:
        found_by: the stage that found it; empty: it survived.
        differs: number of a survivor's hunts whose digest differs from that of the clean system.
        equivalent: the reason that a survivor changes nothing, written by hand; needs EQUIVALENT_SEEDS equal digests.
    """

    name: str
    kind: str
    change: list[str]
    found_by: str = ""
    reason: str = ""
    cpu_s: float = 0.0
    hunts: int = 0
    differs: int = 0
    equivalent: str = ""


@dataclass(slots=True, kw_only=True)
class Trials:
    """The results for the sample of one seed; `clean` are the digests of HUNTS without a mutant."""

    seed: int = SEED
    clean: list[str] = field(default_factory=list)
    trials: list[Trial] = field(default_factory=list)


def read_trials(path: Path = DATA) -> Trials:
    """Read the file; no results without a file. Raises OSError, ValueError, also for a reason without its seeds."""
    if not path.exists():
        return Trials()
    document = orjson.loads(path.read_bytes())
    trials = [Trial(**row) for row in document["trials"]]
    for trial in trials:
        if trial.equivalent and (trial.found_by or trial.differs or trial.hunts < EQUIVALENT_SEEDS):
            raise ValueError(
                f"{trial.name} of {path} is equivalent, with {trial.differs} of {trial.hunts} digests that differ; "
                f"allowed: 0 of {EQUIVALENT_SEEDS} or more"
            )
    return Trials(seed=document["seed"], clean=document["clean"], trials=trials)


def write_trials(trials: Trials, path: Path = DATA) -> None:
    """Write the file atomically."""
    temporary = path.with_suffix(".tmp")
    temporary.write_bytes(orjson.dumps(asdict(trials), option=orjson.OPT_INDENT_2) + b"\n")
    temporary.replace(path)


def main(arguments: Sequence[str] | None = None) -> int:
    """Try mutants.

    Exit status: 0 the sample was tried, 1 a mutant that was found before is not found, 2 bad arguments.
    """
    parser = argparse.ArgumentParser(
        prog="python -m staticfire.harness.museum.mutants", description=__doc__
    )
    parser.add_argument("--count", type=int, default=COUNT, help="mutants of the sample")
    parser.add_argument(
        "--sample", type=int, default=0, metavar="N", help="N of them; keep nothing"
    )
    parser.add_argument("--rotation", default="", metavar="TEXT", help="which of them")
    parser.add_argument(
        "--again", action="store_true", help="more seeds for survivors of which no digest differs"
    )
    options = parser.parse_args(arguments)
    trials = read_trials()
    if options.again:
        try_again(trials, options.count)
        return 0
    known = {trial.name: trial for trial in trials.trials}
    chosen = sample(system_folder(), trials.seed, options.count, known)
    if options.sample:
        found = [one for one in chosen if one.name in known and known[one.name].found_by]
        Random(f"mutants/{options.rotation}").shuffle(found)
        count = min(options.sample, len(found))
        return 0 if are_found(found, count, trials.clean) else 1
    if forget_gone(trials, {one.name for one in mutations(system_folder())}):
        write_trials(trials)
    left = [one for one in chosen if one.name not in known]
    if left:  # the system may have changed since the last call
        with working("repeating"):
            trials.clean = clean_digests()
    for number, mutation in enumerate(left, start=1):
        with working("mutants") as progress:
            progress.update(details=f"mutant {number} of {len(left)}")
            trial = try_mutation(mutation, trials.clean)
        trials.trials.append(trial)
        print(f"{number}/{len(left)}  {line_of(trial)}", flush=True)
        write_trials(trials)
    return 0


def forget_gone(trials: Trials, names: Collection[str]) -> bool:
    """Forget trials of mutants that the system no longer has, and print them; return whether there were any."""
    gone = [one for one in trials.trials if one.name not in names]
    for one in gone:
        print(f"gone: {one.name}" + (f" (equivalent: {one.equivalent})" if one.equivalent else ""))
    trials.trials = [one for one in trials.trials if one.name in names]
    return bool(gone)


def are_found(chosen: Sequence[Mutation], count: int, clean: Sequence[str]) -> bool:
    """Judge the first `count` mutations, and return whether each was found.

    A mutation whose process ended early without a finding, for example because a step took too much CPU time, is not
    judged, and the next one takes its place.
    """
    judged = 0
    for mutation in chosen:
        with working("mutants") as progress:
            progress.update(details=f"{judged} of {count} judged")
            trial = try_mutation(mutation, clean)
        print(line_of(trial), flush=True)
        if not trial.found_by and not trial.reason:
            return False
        judged += bool(trial.found_by)
        if judged == count:
            return True
    return False


def try_again(trials: Trials, count: int) -> None:
    """Run MORE_HUNTS for survivors without a different digest, and keep the results."""
    known = [one.name for one in trials.trials]
    drawn = {one.name: one for one in sample(system_folder(), trials.seed, count, known)}
    left = [one for one in trials.trials if not one.found_by and not one.differs]
    left = [one for one in left if one.hunts < EQUIVALENT_SEEDS and one.name in drawn]
    clean = clean_digests(0, MORE_HUNTS, conforms=False) if left else []
    for number, trial in enumerate(left, start=1):
        with working("mutants") as progress:
            progress.update(details=f"survivor {number} of {len(left)}")
            diff = drawn[trial.name].diff(system_folder())
            more = _judged(diff, 0, MORE_HUNTS, clean, conforms=False)
        trial.hunts += more.hunts
        trial.differs = more.differs
        trial.found_by, trial.reason = more.found_by, more.reason
        print(f"{number}/{len(left)}  {line_of(trial)}", flush=True)
        write_trials(trials)


def clean_digests(
    cycles: int = CYCLES, hunts: Hunts = HUNTS, *, conforms: bool = True
) -> list[str]:
    """Return the digests of the hunts of the clean system. Raises ValueError if a stage finds something."""
    digests: list[str] = []
    for row in _rows("", cycles, hunts, conforms=conforms):
        if "failed" in row or row["found"]:
            raise ValueError(f"the clean system does not pass: {row}")
        digests = row["digests"] or digests
    return digests


def try_mutation(mutation: Mutation, clean: Sequence[str]) -> Trial:
    """Plant the mutation in a copy, and judge it in a process with that copy."""
    diff = mutation.diff(system_folder())
    cycles = CYCLES if mutation.module.startswith(STORE) else 0
    trial = _judged(diff, cycles, HUNTS, clean)
    trial.name, trial.kind, trial.change = mutation.name, mutation.kind, _changed_lines(diff)
    return trial


def _judged(
    diff: str, cycles: int, hunts: Hunts, clean: Sequence[str], *, conforms: bool = True
) -> Trial:
    """Judge a diff in a process with a copy that has it; the trial has no name yet."""
    trial = Trial(name="", kind="", change=[])
    for row in _rows(diff, cycles, hunts, conforms=conforms):
        trial.cpu_s = row["cpu_s"] or trial.cpu_s
        trial.reason = row.get("failed", "")  # the process has ended early
        if digests := row.get("digests"):
            trial.hunts = len(digests)
            trial.differs = sum(one != other for one, other in zip(digests, clean, strict=False))
        if found := row.get("found"):
            trial.found_by, trial.reason = row["stage"], found
    return trial


def _rows(diff: str, cycles: int, hunts: Hunts, *, conforms: bool) -> Iterator[dict[str, Any]]:
    """Yield the rows of a worker that has the diff; `conforms`: the conformance suite is a stage."""
    job = {"cycles": cycles, "hunts": hunts, "conforms": conforms, "cpu_s": 0}
    with patched_system(partial(_copy_with, diff)) as folders:
        yield from rows_of(WORKER, job, folders, {})


def line_of(trial: Trial) -> str:
    """Return the result of a mutant as a line for the terminal."""
    if trial.found_by:
        return f"{trial.name}: found by {trial.found_by}: {trial.reason[:100]}"
    if trial.reason:
        return f"{trial.name}: not judged: {trial.reason[:100]}"
    return f"{trial.name}: survived; {trial.differs} of {trial.hunts} digests differ"


def system_folder() -> Path:
    """Return the folder of our system under test."""
    return (Path(staticfire.__file__).parent / SYSTEM).resolve()


def _copy_with(diff: str, system: Path, folder: Path) -> None:
    from staticfire.faults.defects import copy_system

    copy_system(system, folder)
    if diff:
        apply_diff(diff, folder)


def _changed_lines(diff: str) -> list[str]:
    lines = diff.splitlines()[2:]
    return [f"{line[0]} {line[1:].strip()}" for line in lines if line[0] in "+-"]


if __name__ == "__main__":
    sys.exit(main())
