"""Shrinks a failing cycle of the storage crash test: fewer moves, and plainer parameters."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from random import Random
from types import MappingProxyType
from typing import Any

from staticfire.harness.raised_text import raised_text
from staticfire.harness.shrink.reducer import Deletion, Pass, Reducer, Variants
from staticfire.harness.store_crash.cycle import Cycle
from staticfire.harness.store_crash.plan import CyclePlan
from staticfire.harness.store_crash.script import Move, MoveKind, Script, drawn_move
from staticfire.system_under_test.store.assembly.store_policy import HARDENED_STORE, StorePolicy

RESEEDED = 4  # seeds that a neighbour of a removed step of load is tried with
DRAWN = 40  # scripts for each number of steps of load
_ENDS = ((MoveKind.DIE,), (MoveKind.ARM, MoveKind.DIE), (MoveKind.CLOSE, MoveKind.DIE))
# Values of the parameters that make a cycle easier to understand, in the order in which they are tried.
PLAIN: Mapping[str, Any] = MappingProxyType(
    {
        "pool": False,
        "log_folders": 1,
        "is_slave": False,
        "rocketmq_reads": False,
        "failed_sync_keeps_cache": False,
        "deletes": False,
        "sync_flush": True,
        "body_size": 20,
    }
)
# Numbers, topics, keys and folders differ from one way to fail to the next of the same cause.
_VARYING = re.compile(
    r"\bC0A80001[0-9A-F]{8}|\bk\d+|word\w+|\d+(,\d+)*|Topic[AB]|/data/(store|b|c)\b"
)


@dataclass(frozen=True, slots=True)
class Played:
    """A script that was carried out up to its failure, if it failed."""

    script: Script
    failure: str  # as `raised_text`; empty: none
    # power cuts, deaths of the process, errors of the disk, lost files and damaged records
    faults: int
    story: tuple[str, ...]

    @property
    def works(self) -> int:
        """The number of steps of load."""
        return sum(move.kind is MoveKind.WORK for move in self.script.moves)


def drawn(seed: int, policy: StorePolicy = HARDENED_STORE) -> Played:
    """Run the cycle of a seed, and return it as a script."""
    story: list[str] = []
    cycle = Cycle(seed, policy=policy, on_event=story.append)
    return _played(cycle, story, cycle.run)


def played(script: Script, policy: StorePolicy = HARDENED_STORE) -> Played:
    """Carry out a script."""
    story: list[str] = []
    cycle = Cycle(0, policy=policy, plan=script.plan, on_event=story.append)
    return _played(cycle, story, lambda: cycle.play(script.moves))


def _played(cycle: Cycle, story: list[str], run: Callable[[], object]) -> Played:
    failure = ""
    try:
        run()
    except Exception as error:
        failure = raised_text(error)
    counts = cycle.counted()
    faults = counts.power_cuts + counts.process_deaths + counts.disk_errors + counts.failed_starts
    faults += counts.files_lost + counts.records_damaged
    return Played(Script(cycle.plan, tuple(cycle.moves)), failure, faults, tuple(story))


def cause_of(failure: str) -> str:
    """Return a failure without what differs between two cycles that fail for the same cause."""
    return _VARYING.sub("#", failure)


def shrink(first: Played, policy: StorePolicy, improved: Callable[[Played], None]) -> Played:
    """Return the smallest script found that fails for the same cause; `improved` takes each better one."""
    cause = cause_of(first.failure)

    def try_all(candidates: Sequence[Played]) -> tuple[int, Played] | None:
        for index, candidate in enumerate(candidates):
            result = played(candidate.script, policy)
            if result.failure and cause_of(result.failure) == cause:
                return index, result
        return None

    reducer = Reducer(
        _passes(),
        try_all,
        lambda _, best: improved(best),
        key=lambda one: one.script,
        width=1,
    )
    return reducer.reduce(first)


def _passes() -> dict[str, Pass[Played]]:
    return {
        "moves": Deletion(lambda one: one.script.moves, _with_moves),
        "parameters": Variants(_plainer),
        "fewer moves": Variants(_drawn_anew),
        "other moves": Variants(_exchanged),
    }


def _with_moves(one: Played, moves: Sequence[Move]) -> Played:
    return replace(one, script=replace(one.script, moves=tuple(moves)))


def _plainer(one: Played) -> Iterator[Played]:
    plan = one.script.plan
    for name, value in PLAIN.items():
        if getattr(plan, name) != value:
            plainer: CyclePlan = replace(plan, **{name: value})
            yield replace(one, script=replace(one.script, plan=plainer))


def _drawn_anew(one: Played) -> Iterator[Played]:
    """Yield drawn scripts of one life with fewer steps of load."""
    for works in range(1, one.works):
        for number in range(DRAWN):
            random = Random(f"small cycle {works} {number}")
            kinds = [MoveKind.START, *[MoveKind.WORK] * works]
            kinds += random.choice(_ENDS)
            kinds += (MoveKind.START, MoveKind.START_AGAIN)
            yield _with_moves(one, [drawn_move(random, kind) for kind in kinds])


def _exchanged(one: Played) -> Iterator[Played]:
    """Yield the script with one move of load less, and another seed for the one before or after it."""
    moves = one.script.moves
    for at, move in enumerate(moves):
        if move.kind is not MoveKind.WORK:
            continue
        for other in (at - 1, at + 1):
            if not 0 <= other < len(moves) or moves[other].kind is MoveKind.START:
                continue
            for step in range(1, RESEEDED + 1):
                changed = moves[other]._replace(seed=(moves[other].seed + step) % (1 << 32))
                yield _with_moves(
                    one,
                    [changed if n == other else m for n, m in enumerate(moves) if n != at],
                )
