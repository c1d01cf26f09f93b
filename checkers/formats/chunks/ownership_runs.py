"""Ownership runs: consecutive calls of one process of a group on one queue, for the search for cut points.

`overlapping_owners` (`checkers/groups/listeners.py`) compares two consecutive calls of a process with the calls of
other processes in between, so no cut point may lie between the two. Merging the runs of parts is associative and
commutative.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from staticfire.checkers.engine.kernel import rows_by_id
from staticfire.checkers.model.columns import Ints
from staticfire.checkers.model.timeline import Ownership, same_stint


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class OwnershipRuns:
    """Runs sorted by their first call; arrays of shape (runs,). `first` and `last` are the op indices of calls."""

    process: Ints
    first: Ints
    last: Ints

    def merge(self, other: OwnershipRuns) -> OwnershipRuns:
        return _of_runs(
            np.concatenate((self.process, other.process)),
            np.concatenate((self.first, other.first)),
            np.concatenate((self.last, other.last)),
        )


def ownership_runs_of(process: Ints, invoke_index: Ints) -> OwnershipRuns:
    """Return the ownership runs of some deliveries to one group."""
    return _of_runs(process, invoke_index, invoke_index)


def _of_runs(process: Ints, first: Ints, last: Ints) -> OwnershipRuns:
    order = np.lexsort((last, first))
    process, first, last = process[order], first[order], last[order]
    if not len(order):
        return OwnershipRuns(process=process, first=first, last=last)
    starts = np.concatenate(([0], np.flatnonzero(np.diff(process)) + 1))
    return OwnershipRuns(
        process=process[starts], first=first[starts], last=np.maximum.reduceat(last, starts)
    )


def kept_together(
    ownership_runs: OwnershipRuns, changes: Sequence[Ownership]
) -> list[tuple[int, int]]:
    """Return pairs of calls that no cut point may separate; `changes` are those of the queue's owners in the group.

    Ownership runs of two parts may overlap, if a call ended long after it began. Then it is not known which calls
    followed which, and all calls of both runs are kept together.
    """
    first, last = ownership_runs.first, ownership_runs.last
    meets = np.zeros(len(first) + 1, np.bool_)  # whether each run meets the previous one
    meets[1:-1] = np.maximum.accumulate(last)[:-1] >= first[1:]
    meeting = meets[:-1] | meets[1:]
    together = _pairs(first[meeting], last[meeting])
    for process, mine in rows_by_id(ownership_runs.process):
        own = [change for change in changes if change.process == process[0]]
        earlier, later = last[mine[:-1]], first[mine[1:]]
        shared = same_stint(earlier, later, own)
        together += _pairs(earlier[shared], later[shared])
    return together


def _pairs(earlier: Ints, later: Ints) -> list[tuple[int, int]]:
    return list(zip(earlier.tolist(), later.tolist(), strict=True))
