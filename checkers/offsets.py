"""Offset sanity: a group's committed offset follows what it consumed, and nothing else.

**commit_ahead**: an offset was committed beyond everything that the group had consumed from the queue by
then: the messages in between are skipped. **commit_rewound**: one owner commits a lower offset than
before. **commit_beyond_end**: at the drain the group's offset is higher than the queue is long, so the
next messages will be skipped (allowed where the disk that held the rest is lost for good).
**commit_behind**: the drain says that the lag is 0, and the offset is
below the end of the queue.

Starting points count as consumed: a group that begins at the end of a queue commits what it never read.
The kernel takes the first commit of a queue without any delivery for such a start.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from checkers.columns import Columns, Commits, Ints, Outcome, QueueKey
from checkers.kernel import Checker, Context, Kernel, nothing_missing, rows_by_id
from checkers.place_index import index_of, number_runs, stable_order, stream_ids
from checkers.promises import Damage, Judgement, judge
from checkers.timeline import Drain, QueueEnd
from checkers.unrest import fault_near
from checkers.verdict import Finding, Tally, Verdict


def tally_commits(columns: Columns, context: Context) -> Tally:
    """Judge the commits of whole message queues (partition key: queue)."""
    commits = columns.commits
    order = stable_order(stream_ids(columns, commits))
    if order is not None:
        commits = commits.where(order)
    ids = stream_ids(columns, commits)
    _, cuts = number_runs(ids)
    findings: list[Finding] = []
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        of_stream = commits.where(np.arange(start, end))
        findings.extend(_judge_commits(columns, context, of_stream, int(ids[start])))
    return Tally.of(findings, commits=len(commits))


def _judge_commits(
    columns: Columns, context: Context, commits: Commits, stream: int
) -> Iterator[Finding]:
    """Judge what one group committed for one queue, against what it had consumed by then."""
    next_offset = _next_offset(columns, context, commits, stream)
    ahead = np.flatnonzero(commits.offset > next_offset).tolist()
    for row in _skipping(columns, context, commits, next_offset, ahead):
        detail = f"committed {commits.offset[row]}, consumed up to {next_offset[row]}"
        yield _finding(columns, context, commits, row, "commit_ahead", detail)
    if not np.any(commits.offset[1:] < commits.offset[:-1]):
        return
    for _, rows in rows_by_id(commits.process):
        own = commits.where(rows)
        for row in np.flatnonzero(np.diff(own.offset) < 0).tolist():
            yield _judge_rewind(columns, context, own, row + 1)


def _skipping(
    columns: Columns, context: Context, commits: Commits, next_offset: Ints, ahead: list[int]
) -> list[int]:
    """Which of these rows skip what the group wants: a filter leaves out the rest."""
    if not ahead or columns.names.groups[int(commits.group[0])] not in context.facts.wanted_tags:
        return ahead
    sends, group = columns.sends, columns.names.groups[int(commits.group[0])]
    here = sends.where((sends.queue == commits.queue[0]) & (sends.outcome == Outcome.OK))
    wanted = np.sort(here.queue_offset[context.matches(columns, here, group)])
    low = np.searchsorted(wanted, next_offset[ahead])
    high = np.searchsorted(wanted, commits.offset[ahead])
    return [row for row, skips in zip(ahead, high > low, strict=True) if skips]


def _judge_rewind(columns: Columns, context: Context, own: Commits, row: int) -> Finding:
    """Judge a commit of one process that is lower than the one before it, at row - 1.

    A new assignment begins at the offset that the broker knows, which a fault may have set back.
    """
    group = columns.names.groups[int(own.group[row])]
    queue = columns.names.queues[int(own.queue[row])]
    since, at = int(own.op_index[row - 1]), int(own.op_index[row])
    reset = bool(context.timeline.ownership_between(group, queue, since, at)) or fault_near(
        context.facts.faults, int(own.time_ns[row - 1]), int(own.time_ns[row])
    )
    finding = _finding(
        columns,
        context,
        own,
        row,
        "commit_rewound",
        f"committed {own.offset[row]} after {own.offset[row - 1]}",
    )
    return replace(finding, judgement=Judgement.INFORMATIONAL) if reset else finding


def _next_offset(columns: Columns, context: Context, commits: Commits, stream: int) -> Ints:
    """One past the highest offset consumed before each commit of a stream, shape (commits,).

    What a listener failed for may have been sent back, and is passed then; whether it comes again is asked elsewhere.
    """
    deliveries = columns.deliveries
    rows = index_of(columns).streams.ended(stream)
    passed, at = deliveries.outcome[rows] == Outcome.OK, deliveries.op_index[rows]
    offset = deliveries.queue_offset[rows]
    if columns.names.groups[int(commits.group[0])] in context.facts.retries_max:
        # Also while the listener is still busy: its client has given it up then.
        order = np.argsort(deliveries.invoke_index[rows], kind="stable")
        passed, at, offset = (
            np.ones(len(order), np.bool_),
            deliveries.invoke_index[rows],
            offset[order],
        )
        at = at[order]
    consumed = np.concatenate(([0], np.maximum.accumulate(np.where(passed, offset + 1, 0))))
    reached = consumed[np.searchsorted(at, commits.op_index)]
    # A group that has consumed nothing begins where it says.
    start = commits.offset[0] if reached[0] == 0 else 0
    return np.maximum(reached, start)


def _finding(
    columns: Columns, context: Context, commits: Commits, row: int, anomaly: str, detail: str
) -> Finding:
    queue = columns.names.queues[int(commits.queue[row])]
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=int(commits.op_index[row]),
        time_ns=int(commits.time_ns[row]),
        detail=f"{detail}, by process {commits.process[row]}",
        topic=queue.topic,
        broker=queue.broker,
        queue=queue.queue,
        queue_offset=int(commits.offset[row]),
        group=columns.names.groups[int(commits.group[row])],
    )


def check_drained_offsets(_columns: Columns, context: Context) -> Verdict:
    """Compare committed offsets with the ends of the queues, when the drain ended."""
    drains = sorted(context.timeline.drains.items())
    findings = [
        finding
        for (group, _topic), drain in drains
        for queue, end in sorted(drain.ends.items())
        for finding in _judge_end(context, group, queue, end, drain)
    ]
    tally = Tally.of(findings, drains=len(drains))
    violated = any(name in tally.counts for name in ("commit_beyond_end", "commit_behind"))
    return Verdict(
        checker="drained_offsets",
        valid=False if violated else (True if drains else "unknown"),
        counts=tally.counts,
        findings=tally.findings,
        reason=None if drains else "no group was drained",
    )


def _judge_end(
    context: Context, group: str, queue: QueueKey, end: QueueEnd, drain: Drain
) -> Iterator[Finding]:
    beyond = end.committed > end.max_offset
    if not beyond and not (drain.complete and end.committed < end.max_offset):
        return
    anomaly = "commit_beyond_end" if beyond else "commit_behind"
    yield Finding(
        anomaly=anomaly,
        judgement=_judge_committed(context, anomaly, queue.broker, drain),
        op_index=drain.op_index,
        time_ns=drain.time_ns,
        detail=f"committed {end.committed}, the queue ends at {end.max_offset}",
        topic=queue.topic,
        broker=queue.broker,
        queue=queue.queue,
        queue_offset=end.committed,
        group=group,
    )


def _judge_committed(context: Context, anomaly: str, broker: str, drain: Drain) -> Judgement:
    """A disk that is lost for good takes along what only weaker statuses promised, consumed or not."""
    lost = context.promises.damaged(
        broker, at_least=Damage.DISK, since_ns=0, until_ns=drain.time_ns
    )
    if lost and anomaly == "commit_beyond_end":
        return Judgement.ALLOWED
    return judge(context.facts.mode, anomaly)


OFFSETS = Kernel(
    name="offsets",
    partition_by="queue",
    anomalies=("commit_ahead", "commit_rewound"),
    partial=tally_commits,
    unknown_reason=nothing_missing,
)

DRAINED_OFFSETS = Checker(
    name="drained_offsets",
    anomalies=("commit_beyond_end", "commit_behind"),
    check=check_drained_offsets,
    applies=lambda _context: True,
)
