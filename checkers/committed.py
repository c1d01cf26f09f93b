"""What a group had surely committed when a member took a queue: the member must not begin below it.

A commit counts if nothing explains that brokers forgot it (`offset_forgotten` in the table of excuses): no fault of a
replica that may not have written or copied it yet, none between the replicas and the two members, no disk that was
emptied and no reset of offsets since. What was committed after the last one that counts may have taken its place.
So may what another member pulls with: each pull commits how far its member is, and one that gained the queue before the
commit arrived began below it.
"""

from __future__ import annotations

import numpy as np

from checkers.columns import Columns, Commits, Ints, Mask, QueueKey
from checkers.excuses import Window
from checkers.kernel import Context
from checkers.process_ends import ended_ns
from checkers.promises import NS_PER_S
from checkers.timeline import Ownership

FORGOTTEN = "offset_forgotten"  # the time of the witness is that of the commit
REPLACED = "offset_replaced"  # the time of the witness is that from the commit to its question
# Commits are sent one way: until a broker has one, and a member has asked where to begin.
ON_ITS_WAY_NS = NS_PER_S


def surely_committed(
    columns: Columns, context: Context, stream: tuple[int, int], gain: Ownership
) -> int:
    """The offset that a group had surely committed when the queue was gained; 0 if nothing is sure.

    `stream`: the numbers of the queue and of the group.
    """
    known = columns.cache.setdefault("surely committed", {})
    assert isinstance(known, dict)
    key = (*stream, gain.op_index, gain.process)
    if key not in known:
        commits = commits_of(columns, context, stream, gain.process)
        pair = columns.names.groups[stream[1]], columns.names.queues[stream[0]]
        known[key] = least_offset(context, commits, pair, gain)
    found: int = known[key]
    return found


def least_offset(
    context: Context, commits: Commits, pair: tuple[str, QueueKey], gain: Ownership
) -> int:
    """The same from the commits of one stream, sorted by op; `pair` is its group and its queue."""
    earlier = commits.where(np.flatnonzero(commits.op_index < gain.op_index))
    arrived = earlier.time_ns + ON_ITS_WAY_NS <= gain.time_ns
    unsure = _forgotten(context, earlier, pair[1].broker, gain)
    sure = np.flatnonzero(arrived & ~unsure & ~_pulled_below(context, earlier, pair, gain))
    return int(earlier.offset[sure[-1] :].min()) if len(sure) else 0


def commits_of(
    columns: Columns, context: Context, stream: tuple[int, int], process: int
) -> Commits:
    """What a group committed for a queue, sorted by op; in a broadcasting group only what the process's node did."""
    known = columns.cache.setdefault("commits of streams", {})
    assert isinstance(known, dict)
    queue, group = stream
    reader = reader_of(context, columns.names.groups[group], process)
    if (stream, reader) not in known:
        commits = columns.commits
        mine = commits.where(np.flatnonzero((commits.queue == queue) & (commits.group == group)))
        if reader is not None:
            nodes = context.timeline.nodes
            theirs = [p for p in np.unique(mine.process).tolist() if nodes.get(p, "") == reader]
            mine = mine.where(np.flatnonzero(np.isin(mine.process, theirs)))
        known[stream, reader] = mine.where(np.argsort(mine.op_index, kind="stable"))
    found: Commits = known[stream, reader]
    return found


def reader_of(context: Context, group: str, process: int) -> str | None:
    """Whose offsets a process goes by: those of its node in a broadcasting group, else those of the group (None)."""
    if group not in context.facts.broadcasting:
        return None
    return context.timeline.nodes.get(process, "")


def _forgotten(context: Context, commits: Commits, broker: str, gain: Ownership) -> Mask:
    """Which commits may not be known where the queue is gained, shape (commits,)."""
    nodes = context.timeline.nodes
    taker = nodes.get(gain.process)
    forgotten = np.zeros(len(commits), np.bool_)
    for process in np.unique(commits.process).tolist():
        mine = commits.process == process
        both = (nodes.get(process), taker)
        windows = context.excuses.windows(FORGOTTEN, broker, both)
        forgotten |= mine & _in_any(commits.time_ns, windows)
    since = context.excuses.windows(REPLACED, broker)
    for window in since:
        if window.start_ns <= gain.time_ns:
            forgotten |= commits.time_ns <= window.end_ns
    return forgotten


def _pulled_below(
    context: Context, commits: Commits, pair: tuple[str, QueueKey], gain: Ownership
) -> Mask:
    """Which commits came when another member had the queue already, and may have begun before them."""
    below = np.zeros(len(commits), np.bool_)
    gained: dict[int, int] = {}
    changes = (of for of in context.timeline.ownership[pair] if of.op_index < gain.op_index)
    for change in changes:
        if change.change == "gained":
            gained[change.process] = change.time_ns
        elif change.process in gained:
            since_ns = gained.pop(change.process)
            below |= _while(commits, change.process, since_ns, change.time_ns)
    for process, since_ns in gained.items():  # a process that has ended pulls no more
        until_ns = min(gain.time_ns, ended_ns(context, process))
        below |= _while(commits, process, since_ns, until_ns)
    return below


def _while(commits: Commits, process: int, since_ns: int, until_ns: int) -> Mask:
    """Which commits of others came between two times, or were on their way at the first."""
    within = (commits.time_ns >= since_ns - ON_ITS_WAY_NS) & (commits.time_ns <= until_ns)
    found: Mask = within & (commits.process != process)
    return found


def _in_any(time_ns: Ints, windows: tuple[Window, ...]) -> Mask:
    within = np.zeros(len(time_ns), np.bool_)
    for window in windows:
        within |= (time_ns >= window.start_ns) & (time_ns <= window.end_ns)
    return within
