"""Finds offsets at which a queue can be cut so that its chunks give the verdict of the whole.

A cut point lies between two offsets. It is *clean* if no group went back across it: each group received all messages
below it before any message above it (within one call: in this order), and no send below it began after a send above it
had been acknowledged. In orderly groups all calls below had also ended by then, and no process that kept the queue was
called on both sides with a call of another process in between (`ownership_runs.py`). Then all rows that kernels compare
lie on one side of the cut point, except for a few rows for each process (`Kernel.split`).

Redeliveries and rebalances leave no clean cut point near them, but there are clean ones a little further on. A group
that reads a queue again from the start leaves no clean cut point in the offsets that it reads twice. A queue of a
broadcasting or assigned group is never cut, because each member of the group is judged by itself. A queue without clean
cut points is judged as a whole, which costs 420 bytes for each of its rows in one task; a queue with few of them is
judged in large chunks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import reduce
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from staticfire.checkers.formats.chunks.ownership_runs import kept_together
from staticfire.checkers.formats.chunks.queue_profile import SENDS, QueueProfile, Times
from staticfire.checkers.formats.chunks.work_units import CHUNK_DIVISOR, WorkUnit, whole
from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.columns import Chunk, Ints, Mask, Names
from staticfire.checkers.model.timeline import Ownership, Timeline

Indices = NDArray[np.uint64]
Owners = Mapping[int, Sequence[Ownership]]  # changes of the owner of one queue, by orderly group
LOWEST, HIGHEST = -(1 << 63), (1 << 63) - 1


def cut(
    parts: Sequence[Part],
    profiles: Sequence[QueueProfile],
    names: Names,
    facts: RunFacts,
    timeline: Timeline,
    whole_rows: int,
) -> list[WorkUnit]:
    """Cut a queue into chunks of about a quarter of `whole_rows`; return the whole queue if it cannot be cut.

    `parts` are those of the queue and `profiles` their profiles, both in the order of time.
    """
    profile = reduce(QueueProfile.merge, profiles)
    if not profile.given.keys().isdisjoint(_broadcasting_groups(names, facts)):
        return [whole(parts)]
    owners = _owners_of(names, facts, timeline, parts[0].queue)
    clean = clean_cut_points(profile, owners) & _follow(parts, profile)
    starts = [0, *_chosen(profile.rows, clean, whole_rows // CHUNK_DIVISOR)]
    if len(starts) == 1:
        return [whole(parts)]
    firsts = [LOWEST, *(profile.grid.first_offset(cell) for cell in starts[1:])]
    lasts = [*(first - 1 for first in firsts[1:]), HIGHEST]
    rows = np.add.reduceat(profile.rows, starts).tolist()
    return [
        _work_unit(profile, parts, number, *bounds)
        for number, bounds in enumerate(zip(firsts, lasts, rows, strict=True))
    ]


def orderly_groups(names: Names, facts: RunFacts) -> list[int]:
    """Return the ids of groups whose members have ownership runs."""
    return [at for at, group in enumerate(names.groups) if group in facts.orderly]


def _broadcasting_groups(names: Names, facts: RunFacts) -> list[int]:
    """Return the ids of groups whose members each have positions of their own (broadcasting or assigned)."""
    alone = {*facts.broadcasting, *facts.assigned}
    return [at for at, group in enumerate(names.groups) if group in alone]


def _owners_of(names: Names, facts: RunFacts, timeline: Timeline, queue: int) -> Owners:
    """Return the changes of a queue's owner in each orderly group."""
    key = names.logs[queue]
    return {
        group: timeline.ownership.get((names.groups[group], key), ())
        for group in orderly_groups(names, facts)
    }


def _work_unit(
    profile: QueueProfile, parts: Sequence[Part], number: int, first: int, last: int, rows: int
) -> WorkUnit:
    reach = profile.reach
    chunk = Chunk(
        queue=parts[0].queue,
        number=number,
        first_offset=first,
        last_offset=last,
        commits=profile.commits,
        given=profile.given,
    )
    holding = (
        part for part in parts if reach[part.path][0] <= last and reach[part.path][1] >= first
    )
    return WorkUnit(parts=tuple(holding), rows=rows, chunk=chunk)


def _follow(parts: Sequence[Part], profile: QueueProfile) -> Mask:
    """Whether the lower edge of each cell is clean as far as parts follow each other in time, shape (cells,)."""
    steps = np.zeros(profile.grid.cells + 1, np.int64)
    for earlier, later in pairwise(parts):
        if later.first < earlier.last:
            return np.zeros(profile.grid.cells, np.bool_)  # time goes back
        low, high = profile.ends[later.path][0], profile.ends[earlier.path][1]
        if later.first == earlier.last and low < high:  # one call in two parts runs backwards
            span = profile.grid.cell(np.array([low, high])) + 1
            steps[span] += (1, -1) if span[0] < span[1] else 0
    follow: Mask = np.cumsum(steps[:-1]) == 0
    return follow


def clean_cut_points(profile: QueueProfile, owners: Owners) -> Mask:
    """Whether the lower edge of each cell is clean, shape (cells,)."""
    clean: Mask = np.cumsum(profile.within[:-1]) == 0
    for group, times in profile.times.items():
        if group == SENDS:
            clean &= _before(times.last_call >> np.uint64(32), times.first_end)
        else:
            clean &= _before(times.last_call, times.first_call)
            if group in owners:
                clean &= _before(times.last_end, times.first_call >> np.uint64(32))
                clean &= _undivided(
                    times, kept_together(profile.ownership_runs[group], owners[group])
                )
    return clean


def _undivided(times: Times, pairs: Sequence[tuple[int, int]]) -> Mask:
    """Whether each cell edge divides none of these pairs of calls: one in lower cells, the other from there on."""
    latest = _latest_below(times.last_call >> np.uint64(32)).astype(np.int64)
    steps = np.zeros(len(latest) + 1, np.int64)
    if pairs:
        earlier, later = np.searchsorted(latest, np.array(pairs).T)
        np.add.at(steps, earlier, 1)
        np.add.at(steps, later, -1)
    undivided: Mask = np.cumsum(steps[:-1]) == 0
    return undivided


def _before(last: Indices, first: Indices) -> Mask:
    """Whether all times in the cells below each cell are at most those in it and above it, shape (cells,)."""
    below = _latest_below(last)
    above = np.minimum.accumulate(first[::-1])[::-1]
    ordered: Mask = below <= above
    return ordered


def _latest_below(last: Indices) -> Indices:
    return np.concatenate(([np.uint64(0)], np.maximum.accumulate(last)[:-1]))


def _chosen(rows: Ints, clean: Mask, rows_max: int) -> list[int]:
    """Return the clean cells that begin a chunk. Each chunk but the last has at least `rows_max` rows."""
    chosen: list[int] = []
    before = np.concatenate(([0], np.cumsum(rows)))  # rows below each cell
    start = 0
    for cell in np.flatnonzero(clean[1:]) + 1:
        if before[cell] - before[start] >= rows_max and before[-1] > before[cell]:
            chosen.append(int(cell))
            start = int(cell)
    return chosen
