"""Plants kinds into runs and judges them: how many wrongs were detected, which oddities were called wrong."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from dataclasses import dataclass, field
from functools import lru_cache
from math import inf
from multiprocessing import get_context
from pathlib import Path
from random import Random

from tests.checkers.mutations.catalogue import all_kinds
from tests.checkers.mutations.model import SITES, Kind, Mutation, Oddity, Run, Site
from tests.checkers.mutations.runs import CLEAN, FAULTS, judged, valid_runs

NO_PLACE_MAX = 3  # times in a row that a run has no place until it is given up
MISSES_KEPT = 5


@dataclass(slots=True)
class Score:
    """What came of one kind: counts of places, and what the verdicts named."""

    places: int = 0
    invalid: int = 0
    unknown: int = 0
    detected: int = 0
    named: Counter[str] = field(default_factory=Counter)
    crashes: list[str] = field(default_factory=list)
    missed: list[str] = field(default_factory=list)  # where, to plant it again
    by_workload: Counter[str] = field(default_factory=Counter)  # places
    detected_by_workload: Counter[str] = field(default_factory=Counter)

    @property
    def share(self) -> float | None:
        """Of the places those that were detected, 0 to 1; None without places."""
        return self.detected / self.places if self.places else None

    def add(self, other: Score) -> None:
        self.places += other.places
        self.invalid += other.invalid
        self.unknown += other.unknown
        self.detected += other.detected
        self.named += other.named
        self.crashes += other.crashes
        self.missed += other.missed
        self.by_workload += other.by_workload
        self.detected_by_workload += other.detected_by_workload


Scores = dict[tuple[str, Site], Score]
Done = tuple[str, str, Site]  # kind, workload, site: measured once and for all


@dataclass(frozen=True, slots=True)
class Task:
    """Some kinds, planted into the runs of one workload."""

    workload: str
    site: Site
    kinds: tuple[str, ...]
    seeds: tuple[int, ...]
    places: int
    folder: Path | None
    rotation: str = ""  # other places for another one
    until_s: float = inf  # of time.monotonic(): no kind is begun later


def kinds_named(names: Sequence[str]) -> tuple[Kind, ...]:
    """Raises KeyError for a name that is none."""
    every = {kind.name: kind for kind in all_kinds()}
    return tuple(every[name] for name in names)


@lru_cache(maxsize=2)
def _runs(workload: str, style: str, seeds: tuple[int, ...], folder: Path | None) -> list[Run]:
    return valid_runs(workload, style, seeds, folder)


def score_of(kind: Kind, runs: Sequence[Run], site: Site, places: int, rotation: str = "") -> Score:
    """Plant one kind at random places of these runs, one after the other, and judge each."""
    score = Score()
    barren: Counter[int] = Counter()
    for n in range(places * 3):
        fertile = [at for at in range(len(runs)) if barren[at] < NO_PLACE_MAX]
        if score.places == places or not fertile:
            break
        at = fertile[n % len(fertile)]
        where = f"{kind.name}/{runs[at].workload}/{runs[at].seed}/{site}/{n}{rotation}"
        planted = kind.plant(runs[at], Random(where), site)
        if planted is None:
            barren[at] += 1
            continue
        barren[at] = 0
        _judge(kind, planted, where, score)
    return score


def _judge(kind: Kind, planted: Run, where: str, score: Score) -> None:
    is_first = not score.places  # judged by all checkers, as none may fail
    aim = kind.aim if isinstance(kind, Mutation) and not is_first else ""
    valid, named, crashed = judged(planted, aim)
    enough = isinstance(kind, Mutation) and kind.unknown_is_enough
    detected = valid is False or (enough and valid == "unknown")
    score.places += 1
    score.invalid += valid is False
    score.unknown += valid == "unknown"
    score.detected += detected
    score.by_workload[planted.workload] += 1
    score.detected_by_workload[planted.workload] += detected
    score.named.update(named)
    score.crashes += [f"{where}: {sentence}" for sentence in crashed]
    if detected == isinstance(kind, Oddity) and len(score.missed) < MISSES_KEPT:
        score.missed.append(f"{where} {', '.join(named)}".rstrip())


def run_task(task: Task) -> Scores:
    """Plant all kinds of a task, in an order that depends on the rotation, until its time is over."""
    style = CLEAN if task.site == "rest" else FAULTS
    runs = _runs(task.workload, style, task.seeds, task.folder)
    scores: Scores = {}
    kinds = kinds_named(task.kinds)
    for kind in Random(f"{task.rotation}/{task.workload}").sample(kinds, len(kinds)):
        if time.monotonic() > task.until_s:
            break
        scores[kind.name, task.site] = score_of(kind, runs, task.site, task.places, task.rotation)
    return scores


def tasks_of(
    kinds: Sequence[str],
    workloads: Sequence[str],
    seeds: Sequence[int],
    places: int,
    folder: Path | None,
    rotation: str = "",
    until_s: float = inf,
    done: Collection[Done] = (),
) -> list[Task]:
    """One task for each workload and site, without what is `done`; `until_s` is when they end, by time.monotonic()."""
    fitting = {
        (workload, site): tuple(
            kind.name
            for kind in kinds_named(kinds)
            if workload in kind.workloads and (kind.name, workload, site) not in done
        )
        for workload in workloads
        for site in SITES
    }
    return [
        Task(workload, site, names, tuple(seeds), places, folder, rotation, until_s)
        for (workload, site), names in fitting.items()
        if names
    ]


def scored(tasks: Iterable[Task], jobs: int) -> Iterator[tuple[Task, Scores]]:
    """Do the tasks, and yield what came of each as it is done."""
    tasks = list(tasks)
    if jobs == 1:
        for task in tasks:
            yield task, run_task(task)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        waiting = {pool.submit(run_task, task): task for task in tasks}
        try:
            for done in as_completed(waiting):
                yield waiting[done], done.result()
        finally:
            pool.shutdown(wait=False, cancel_futures=True)


def merged(parts: Iterable[Scores]) -> Scores:
    total: Scores = {}
    for part in parts:
        for place, score in part.items():
            total.setdefault(place, Score()).add(score)
    return total
