"""Ranks the system's code by how well it distinguishes runs with the same failure from runs that pass.

The failed run is repeated with other seeds, without each of its faults, and without any. The score of a block of code
is the Ochiai coefficient: the number of failing runs that reach it, divided by the geometric mean of the number of all
failing runs and the number of all runs that reach it. A function has the score of its best block. The ranking cannot
show a bug in code that every run reaches.

Source: Abreu, Zoeteweij and van Gemund, On the Accuracy of Spectrum-based Fault Localization (2007).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from concurrent.futures.process import BrokenProcessPool
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from staticfire.harness.campaign.campaign import SEED_MAX, Campaign
from staticfire.harness.explain.code_marks import PACKAGE, Block, begin, reached
from staticfire.harness.explain.recorded_run import NotRepeated
from staticfire.harness.results.fingerprint import Fingerprint, fingerprint_of
from staticfire.harness.worker_processes import WorkerPool, ended_futures

SEEDS = 8  # after that of the run
LINES_MAX = 8  # in text; JSON has all
Blocks = frozenset[Block]


class RepetitionFailed(Exception):
    """The repeated run does not show the code that it reached; the text is one sentence."""


class Function(NamedTuple):
    """A function with its best block, and the numbers of runs with this failure, and of others, that reach it."""

    block: Block
    score: float
    failing: int
    others: int


@dataclass(slots=True, kw_only=True)
class ReachedCode:
    """A part of an explanation: the blocks that the repeated runs reached, by outcome."""

    failing: list[Blocks] = field(default_factory=list)
    passing: list[Blocks] = field(default_factory=list)
    otherwise: list[Blocks] = field(default_factory=list)  # of runs with another failure
    is_complete: bool = False
    name: str = "code"

    @property
    def contrast(self) -> list[Blocks]:
        """The runs with which failing ones are compared: those that pass, or else those with another failure."""
        return self.passing or self.otherwise

    def functions(self) -> list[Function]:
        """Return the functions with a block that distinguishes the runs, the best one first."""
        if not self.failing or not self.contrast:
            return []
        level = _score(len(self.failing), len(self.failing), len(self.contrast))
        best: dict[tuple[str, str], Function] = {}
        for block in frozenset().union(*self.failing):
            failing = sum(block in one for one in self.failing)
            others = sum(block in one for one in self.contrast)
            found = Function(block, _score(failing, len(self.failing), others), failing, others)
            key = block.module, block.function
            if found.score > level and (key not in best or _rank(found) < _rank(best[key])):
                best[key] = found
        return sorted(best.values(), key=_rank)

    def lines(self) -> list[str]:
        failing, others = len(self.failing), len(self.contrast)
        ending = "that pass" if self.passing else "that fail otherwise"
        functions = self.functions()
        texts = [
            f"{one.block.module}:{one.block.line} {one.block.function}: "
            f"{one.failing} of {failing} that fail like this, {one.others} of {others} {ending}"
            for one in functions[:LINES_MAX]
        ]
        if len(functions) > LINES_MAX:
            texts.append(f"... and {len(functions) - LINES_MAX} functions more")
        if not functions:
            runs = f"{failing} fail like this, and {others} {ending.removeprefix('that ')}"
            texts.append(f"no code tells runs apart: {runs}")
        if not self.is_complete:
            texts.append("the time was over, --budget allows more")
        return [f"{'code' if not number else '':10}{text}" for number, text in enumerate(texts)]

    def to_json(self) -> dict[str, Any]:
        return {
            "failing": len(self.failing),
            "passing": len(self.passing),
            "otherwise": len(self.otherwise),
            "is_complete": self.is_complete,
            "functions": [
                {
                    **one.block._asdict(),
                    "score": round(one.score, 4),
                    "failing": one.failing,
                    "others": one.others,
                }
                for one in self.functions()
            ],
        }


def _score(failing: int, all_failing: int, others: int) -> float:
    """Return the Ochiai coefficient of code that these runs reach, from 0 to 1."""
    return failing / math.sqrt(all_failing * (failing + others)) if failing else 0.0


def _rank(one: Function) -> tuple[float, Block]:
    return -one.score, one.block


@dataclass(frozen=True, slots=True, kw_only=True)
class Ran:
    """The outcome of a repeated run; `failed`: why it could not be run."""

    fingerprint: Fingerprint | None
    blocks: Blocks = frozenset()
    failed: str = ""


def variants_of(campaign: Campaign) -> Iterator[Campaign]:
    """Yield the campaigns to run: the original, one without faults, and in turn other seeds and one fault less."""
    yield campaign
    if not campaign.plan:
        less = []
    else:
        yield replace(campaign, plan=(), faults=())
        less = list(_with_one_fault_less(campaign)) if len(campaign.plan) > 1 else []
    for number in range(max(SEEDS, len(less))):
        if number < SEEDS:
            yield replace(campaign, seed=(campaign.seed + number + 1) % SEED_MAX)
        yield from less[number : number + 1]


def _with_one_fault_less(campaign: Campaign) -> Iterator[Campaign]:
    for planned in campaign.plan:
        rest = tuple(one for one in campaign.plan if one is not planned)
        yield replace(campaign, plan=rest, faults=tuple(dict.fromkeys(one.kind for one in rest)))


def ran(campaign: Campaign) -> Ran:
    """Run a campaign in a process whose system is marked."""
    from staticfire.harness.runs.simulated_runner import run_simulated

    reached()
    try:
        result = run_simulated(campaign)
    except Exception as error:  # a variant that cannot be run shows nothing
        return Ran(fingerprint=None, failed=f"{type(error).__name__}: {error}")
    return Ran(fingerprint=fingerprint_of(result.verdict.violations()), blocks=reached())


def reached_code_of(
    campaign: Campaign,
    wanted: Fingerprint,
    *,
    jobs: int,
    until: float,
    progress: Callable[[int], None],
) -> ReachedCode:
    """Repeat a failed run and its variants, and compare the code that they reach.

    Args:
        wanted: fingerprint of the failed run.
        until: end of the search, by `time.monotonic`.

    Raises NotRepeated, and RepetitionFailed if the run itself could not be repeated or reached no code of the system.
    """
    part = ReachedCode()
    pool = WorkerPool(jobs, begin)
    try:
        futures = [pool.submit(ran, one) for one in variants_of(campaign)]
        progress(0)
        for count, future in enumerate(ended_futures(futures, until), start=1):
            one = _result(future)
            if future is futures[0]:
                check_repeated(one, wanted)
            _add(part, one, wanted)
            part.is_complete = count == len(futures)
            progress(count)
    finally:
        pool.end()
    return part


def check_repeated(one: Ran, wanted: Fingerprint) -> None:
    """Check the repetition of the failed run itself. Raises NotRepeated, RepetitionFailed."""
    if one.failed:
        raise RepetitionFailed(f"the run could not be repeated: {one.failed}")
    if one.fingerprint != wanted:
        raise NotRepeated("it ends otherwise")
    if not one.blocks:
        raise RepetitionFailed(
            f"the run reached no code of {PACKAGE}, the only code that --code knows"
        )


def _add(part: ReachedCode, one: Ran, wanted: Fingerprint) -> None:
    if one.failed:
        return
    ended = {None: part.passing, wanted: part.failing}.get(one.fingerprint, part.otherwise)
    ended.append(one.blocks)


def _result(future: Future[Ran]) -> Ran:
    try:
        return future.result()
    except BrokenProcessPool:
        return Ran(fingerprint=None, failed="its process was killed")
