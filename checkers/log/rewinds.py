"""Commits that set a group's offset back: a legal one comes from a member that took the queue over at a lower offset.

A member that takes a queue over begins at the offset that its broker knows. It may repeat messages that were not surely
committed by then (`committed.py`). A reset of offsets sets the offset back once (`reset_returns.py`), and a reason of
excuse_table.py may set back the owner. Any other such commit is wrong, whether the member owns the queue, has lost it
or never had it. If the members of a group do not report their queues, the checker compares the commits of each process
separately.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.committed import least_offset, reader_of
from staticfire.checkers.derived.reset_returns import ResetReturns
from staticfire.checkers.derived.settled import NOWHERE, set_back_by, settled_positions
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.model.columns import Columns, Commits, Ints, LogKey
from staticfire.checkers.model.timeline import Ownership

Rewind = tuple[int, str, bool]  # row of the commit, its effect, and whether that is excused
SET_BACK = "commit_rewound"


def settled_below(columns: Columns, context: Context, commits: Commits) -> Ints:
    """Return the highest offset of a settled message that each process had passed by its previous commit.

    The shape is (commits,). NOWHERE if the commit is not below the previous one of its process. `commits` must be those
    of one stream, sorted by op.
    """
    found = np.full(len(commits), NOWHERE, np.int64)
    for process in np.unique(commits.process).tolist():
        rows = np.flatnonzero(commits.process == process)
        for at in (1 + np.flatnonzero(np.diff(commits.offset[rows]) < 0)).tolist():
            before = int(rows[at - 1])
            found[rows[at]] = settled_positions(columns, context).highest_below(
                int(commits.log[before]),
                int(commits.offset[before]),
                int(commits.time_ns[before]),
            )
    return found


def rewinds(
    columns: Columns, context: Context, commits: Commits, settled: Ints
) -> Iterator[Rewind]:
    """Yield the rows of one stream's commits, sorted by op, that are lower than the previous one of the same reader.

    The function reads only the names of `columns`. `settled` is the result of `settled_below`.
    """
    if not np.any(commits.offset[1:] < commits.offset[:-1]):
        return
    pair = columns.names.groups[int(commits.group[0])], columns.names.logs[int(commits.log[0])]
    is_owned = pair in context.timeline.ownership
    for rows in _by_reader(context, commits, pair[0], is_owned):
        resets = ResetReturns(context, *pair)
        own = commits.where(rows)
        for row in (1 + np.flatnonzero(np.diff(own.offset) < 0)).tolist():
            what = f"committed {own.offset[row]} after {own.offset[row - 1]}"
            by_order = is_owned and bool(settled[rows[row]] >= own.offset[row])
            why, is_excused = _judge(
                context, own, row, pair, resets, is_owned=is_owned, by_order=by_order
            )
            # No queue has an offset below 0, so nothing excuses such a commit.
            yield int(rows[row]), f"{what}: {why}", is_excused and bool(own.offset[row] >= 0)


def _by_reader(context: Context, commits: Commits, group: str, is_owned: bool) -> Iterator[Ints]:
    """Yield the rows of each reader: a process without reported ownership, a node of a broadcasting group, else all."""
    processes, which = np.unique(commits.process, return_inverse=True)
    names = [
        str(process) if not is_owned else reader_of(context, group, process) or ""
        for process in processes.tolist()
    ]
    reader = np.array([sorted(set(names)).index(name) for name in names], np.int64)[which]
    for number in range(len(set(names))):
        yield np.flatnonzero(reader == number)


def _judge(
    context: Context,
    own: Commits,
    row: int,
    pair: tuple[str, LogKey],
    resets: ResetReturns,
    *,
    is_owned: bool,
    by_order: bool,
) -> tuple[str, bool]:
    """Return why a commit is lower than the previous one, and whether that is legal.

    `by_order`: only a reset of offsets can explain it. A reset counts only if nothing else explains the commit.
    """
    process, time_ns, offset = int(own.process[row]), int(own.time_ns[row]), int(own.offset[row])
    if not is_owned:
        higher, why = row - 1, "by the same process"
    else:
        gain = context.timeline.gained_before(*pair, process, int(own.op_index[row]))
        if gain is None:
            return "by a member that never had the queue", False
        if (lost := _lost(context, pair, gain, int(own.op_index[row]))) is not None:
            later = (own.op_index[:row] > lost) & (own.offset[:row] > offset)
            if np.any(later & (own.process[:row] != process)):
                return "by a member that had lost the queue before", False
        mine = (own.process[:row] == process) & (own.op_index[:row] > gain.op_index)
        last = np.flatnonzero(mine)[-1:]
        if not len(last) or own.offset[last[0]] <= offset:
            least = least_offset(context, own.where(np.arange(row)), pair, gain)
            if offset >= least or resets.take(process, gain.time_ns, time_ns, offset):
                return "by a member that took the queue over", True
            return f"{least} was surely committed when the member took the queue", False
        higher, why = int(last[0]), "by the same owner"
    times, nodes = (int(own.time_ns[higher]), time_ns), (context.timeline.nodes.get(process),)
    window = None if by_order else set_back_by(context, pair, SET_BACK, times, nodes)
    window = window or resets.take(process, *times, offset)
    return (why, False) if window is None else (window.words, True)


def _lost(context: Context, pair: tuple[str, LogKey], gain: Ownership, before: int) -> int | None:
    """Return the op by which a process lost a queue after `gain` and before op `before`; None if it still has it."""
    changes = context.timeline.ownership_between(*pair, gain.op_index, before)
    lost = (c.op_index for c in changes if c.process == gain.process and c.change == "lost")
    return next(lost, None)
