"""Offsets: a group commits the offsets of messages that it has consumed, and no others.

**commit_ahead**: a group committed an offset beyond all messages that it had consumed from the queue by then, so it
skips the messages in between. **commit_rewound**: a commit sets the group's offset back, and no member legally took the
queue over at such an offset (rewinds.py). **commit_beyond_end**: at the drain the group's offset is higher than the end
of the queue, so the group will skip the next messages. Allowed if the leader's disk, which held the rest, is lost for
good and a member had reached that offset. **commit_behind**: the drain reports a lag of 0, but the offset is below the
end of the queue.

For a group with a filter only matching messages can be skipped, and only if no later message was stored at or below
that offset. An acknowledgement proves such a message, or its delivery to another group.

A starting offset counts as consumed: a group that starts at the end of a queue commits an offset although it consumed
nothing. The kernel takes the first commit in a queue for such a start if the group had consumed nothing there before.

The kernel judges each member of a broadcasting group separately, because each has its own file of offsets. Such a
member skips a message after its listener failed, as ConsumeMessageConcurrentlyService of Apache RocketMQ does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise

import numpy as np

from staticfire.checkers.derived.settled import NOWHERE
from staticfire.checkers.engine.kernel import Checker, Context, Kernel, Split, nothing_missing
from staticfire.checkers.engine.position_index import (
    index_of,
    number_runs,
    stable_order,
    stream_ids,
)
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.log.rewinds import rewinds, settled_below
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Chunk,
    Columns,
    Commits,
    Ints,
    LogKey,
    Mask,
    MessageEvents,
    Outcome,
)
from staticfire.checkers.model.timeline import Drain, QueueEnd

NOTHING = np.iinfo(np.int64).min  # stands for no offset; lower than all offsets
EVERYWHERE = np.iinfo(np.int64).max


def tally_commits(columns: Columns, context: Context) -> Tally:
    """Judge the commits to whole queues (partition key: log)."""
    commits = _by_stream(columns, columns.commits)
    findings: list[Finding] = []
    for rows, stream in _streams(columns, commits):
        mine = commits.where(rows)
        reached = _reached(columns, context, mine, stream)
        wanted = partial(_wanted_below, columns, context, mine)
        settled = settled_below(columns, context, mine)
        findings.extend(_judge_commits(columns, context, mine, reached, settled, wanted))
    return Tally.of(findings, commits=len(commits))


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Consumption:
    """What groups had consumed from some chunks of a queue before each commit to the queue.

    Arrays have shape (commits,). `merge` is associative and commutative.

    Attributes:
        commits: all commits to the queue, sorted by group.
        reached: one past the highest offset that the group had consumed.
        wanted: the highest offset below the commit of a message that the group wants, or NOTHING.
        settled: from `settled_below`.
    """

    commits: Commits  # by group
    reached: Ints
    wanted: Ints
    settled: Ints

    def merge(self, other: Consumption) -> Consumption:
        return Consumption(
            commits=self.commits,
            reached=np.maximum(self.reached, other.reached),
            wanted=np.maximum(self.wanted, other.wanted),
            settled=np.maximum(self.settled, other.settled),
        )


def scan_consumption(columns: Columns, context: Context, chunk: Chunk) -> Consumption:
    """Compute what the groups had consumed from a chunk of a queue before each commit to the queue."""
    commits = _by_stream(columns, chunk.commits)
    reached, wanted = np.zeros(len(commits), np.int64), np.full(len(commits), NOTHING, np.int64)
    settled = np.full(len(commits), NOWHERE, np.int64)
    for rows, stream in _streams(columns, commits):
        mine = commits.where(rows)
        reached[rows] = _reached(columns, context, mine, stream)
        settled[rows] = settled_below(columns, context, mine)
        if columns.names.groups[int(mine.group[0])] in context.facts.wanted_tags:
            wanted[rows] = _wanted_below(columns, context, mine)
    return Consumption(commits=commits, reached=reached, wanted=wanted, settled=settled)


def conclude_commits(state: Consumption, columns: Columns, context: Context) -> Tally:
    """Judge the commits to a queue once all its chunks are scanned."""
    findings: list[Finding] = []
    for rows, _ in _streams(columns, state.commits):
        mine, wanted = state.commits.where(rows), partial(state.wanted.__getitem__, rows)
        known = state.reached[rows], state.settled[rows]
        findings.extend(_judge_commits(columns, context, mine, *known, wanted))
    return Tally.of(findings, commits=len(state.commits))


def _by_stream(columns: Columns, commits: Commits) -> Commits:
    order = stable_order(stream_ids(columns, commits))
    return commits if order is None else commits.where(order)


def _streams(columns: Columns, commits: Commits) -> Iterator[tuple[Ints, int]]:
    """Yield the rows of each stream, and its id; `commits` must be sorted by it."""
    ids = stream_ids(columns, commits)
    _, cuts = number_runs(ids)
    for start, end in pairwise(cuts.tolist()):
        yield np.arange(start, end), int(ids[start])


def _judge_commits(
    columns: Columns,
    context: Context,
    commits: Commits,
    reached: Ints,
    settled: Ints,
    wanted: Callable[[], Ints],
) -> Iterator[Finding]:
    """Judge a group's commits in one queue by what it had consumed before each.

    Reads only the names of `columns`.
    """
    # A group that has consumed nothing starts at its first commit.
    next_offset = reached.copy()
    for rows in _readers(columns, context, commits):
        begin = int(commits.offset[rows[0]]) if reached[rows[0]] == 0 else 0
        next_offset[rows] = np.maximum(reached[rows], begin)
    ahead = np.flatnonzero(commits.offset > next_offset)
    if len(ahead) and columns.names.groups[int(commits.group[0])] in context.facts.wanted_tags:
        # Keep commits that skip a message that the group wants.
        ahead = ahead[wanted()[ahead] >= next_offset[ahead]]
    for row in ahead.tolist():
        detail = f"committed {commits.offset[row]}, consumed up to {next_offset[row]}"
        yield _finding(columns, context, commits, row, "commit_ahead", detail)
    for row, detail, is_excused in rewinds(columns, context, commits, settled):
        finding = _finding(columns, context, commits, row, "commit_rewound", detail)
        yield replace(finding, judgement=Judgement.INFORMATIONAL) if is_excused else finding


def _wanted_below(columns: Columns, context: Context, commits: Commits) -> Ints:
    """Return the highest offset below each commit of a stream of a message that its group wants, or NOTHING."""
    sends, group = columns.sends, columns.names.groups[int(commits.group[0])]
    placed = (sends.outcome == Outcome.OK) & (sends.queue_offset != UNKNOWN)
    here = sends.where(placed & (sends.log == commits.log[0]))
    here = here.where(~_given_anew(here))
    given = columns.deliveries
    here = here.where(~_replaced(here, given.where(np.flatnonzero(given.log == commits.log[0]))))
    found = _highest_below(here.queue_offset[context.matches(columns, here, group)], commits.offset)
    begins_ns = context.facts.filter_change_begins_ns
    if begins_ns is not None and group in context.facts.filters_changed_ns:
        at_first = here.queue_offset[context.matched_at_first(columns, here, group)]
        early = commits.time_ns < begins_ns
        found = np.where(early, _highest_below(at_first, commits.offset), found)
    return found


def _highest_below(offsets: Ints, limits: Ints) -> Ints:
    """Return the highest of `offsets` below each limit, or NOTHING; shape of `limits`."""
    ascending = np.sort(offsets)
    found: Ints = np.concatenate(([NOTHING], ascending))[np.searchsorted(ascending, limits)]
    return found


def _given_anew(acked: MessageEvents) -> Mask:
    """Whether a later send got the offset of each send of a queue, or a lower one: a fault had cut the queue there.

    Another checker judges whether the loss was legal. A group may have skipped the messages that replaced these sends.
    """
    if not len(acked):
        return np.zeros(0, np.bool_)
    order = np.argsort(acked.queue_offset, kind="stable")
    upto = np.searchsorted(acked.queue_offset[order], acked.queue_offset, side="right") - 1
    latest_ns = np.maximum.accumulate(acked.invoke_ns[order])[upto]
    given: Mask = latest_ns > acked.time_ns
    return given


def _replaced(acked: MessageEvents, given: MessageEvents) -> Mask:
    """Whether the last delivery from the offset of each send of a queue is of another message that replaced it.

    Only messages without an acknowledgement in this queue count. The offset of an acknowledged message is known, so it
    replaced nothing here.
    """
    if not len(given):
        return np.zeros(len(acked), np.bool_)
    given = given.where(np.lexsort((given.invoke_ns, given.queue_offset)))
    last = np.searchsorted(given.queue_offset, acked.queue_offset, side="right") - 1
    replaced: Mask = (
        (given.queue_offset[last] == acked.queue_offset)
        & ~np.isin(given.message[last], acked.message)
        & (given.invoke_ns[last] > acked.time_ns)
    )
    return replaced


def _is_broadcast(columns: Columns, context: Context, commits: Commits) -> bool:
    return columns.names.groups[int(commits.group[0])] in context.facts.broadcasting


def _readers(columns: Columns, context: Context, commits: Commits) -> Iterator[Ints]:
    """Yield the rows of a stream's commits that are judged together: all, or those of each broadcasting member."""
    if not _is_broadcast(columns, context, commits):
        yield np.arange(len(commits))
        return
    for process in np.unique(commits.process).tolist():
        yield np.flatnonzero(commits.process == process)


def _reached(columns: Columns, context: Context, commits: Commits, stream: int) -> Ints:
    """Return one past the highest offset consumed before each commit of a stream, 0 if none; shape (commits,)."""
    ended = index_of(columns).streams.ended(stream)
    if not _is_broadcast(columns, context, commits):
        return _reached_by(columns, context, commits, ended)
    reached = np.zeros(len(commits), np.int64)
    process = columns.deliveries.process
    numbers = np.arange(len(process))[ended]
    for rows in _readers(columns, context, commits):
        mine = numbers[process[ended] == commits.process[rows[0]]]
        reached[rows] = _reached_by(columns, context, commits.where(rows), mine)
    return reached


def _reached_by(columns: Columns, context: Context, commits: Commits, rows: slice | Ints) -> Ints:
    """Return the same for these rows of deliveries and the commits that belong to them.

    If the group broadcasts or has dead letters, a failed message counts as consumed, because the member skips it or
    sends it back. Another checker judges whether it comes again.
    """
    deliveries = columns.deliveries
    passed, at = deliveries.outcome[rows] == Outcome.OK, deliveries.op_index[rows]
    offset = deliveries.queue_offset[rows]
    if _is_broadcast(columns, context, commits):
        passed = np.ones(len(at), np.bool_)
    elif columns.names.groups[int(commits.group[0])] in context.facts.retries_max:
        # This includes calls that have not ended: the client may have given them up by then.
        order = np.argsort(deliveries.invoke_index[rows], kind="stable")
        passed, at, offset = (
            np.ones(len(order), np.bool_),
            deliveries.invoke_index[rows],
            offset[order],
        )
        at = at[order]
    consumed = np.concatenate(([0], np.maximum.accumulate(np.where(passed, offset + 1, 0))))
    reached: Ints = consumed[np.searchsorted(at, commits.op_index)]
    return reached


def _finding(
    columns: Columns, context: Context, commits: Commits, row: int, anomaly: str, detail: str
) -> Finding:
    queue = columns.names.logs[int(commits.log[row])]
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=int(commits.op_index[row]),
        time_ns=int(commits.time_ns[row]),
        detail=f"{detail}, by process {commits.process[row]}",
        topic=queue.topic,
        broker=queue.home,
        queue=queue.partition,
        queue_offset=int(commits.offset[row]),
        group=columns.names.groups[int(commits.group[row])],
    )


def check_drained_offsets(columns: Columns, context: Context) -> Verdict:
    """Compare committed offsets with the ends of the queues at the end of the drain."""
    drains = sorted(context.timeline.drains.items())
    findings = [
        finding
        for (group, _topic), drain in drains
        for queue, end in sorted(drain.ends.items())
        for finding in _judge_end(columns, context, group, queue, end, drain)
    ]
    tally = Tally.of(findings, drains=len(drains))
    violated = any(name in tally.counts for name in ("commit_beyond_end", "commit_behind"))
    reason = next(_gaps(context), None) if drains else "no group was drained"
    return Verdict(
        checker="drained_offsets",
        valid=False if violated else (True if reason is None else "unknown"),
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def _gaps(context: Context) -> Iterator[str]:
    """Yield a text for each queue that a complete drain lacks although a member owned it and its broker serves.

    Yield nothing if the first message creates the topic: then brokers without a message have none of its queues, even
    if a member reported to own one.
    """
    known = sorted({queue for _, queue in context.timeline.ownership})
    if not context.facts.topics_everywhere:
        return
    for (group, topic), drain in sorted(context.timeline.drains.items()):
        if not drain.complete:
            continue
        for queue in known:
            serves = queue.stream in context.facts.living_sets
            if queue.topic == topic and serves and queue not in drain.ends:
                yield f"the drain of {group} leaves out queue {queue.partition} of {queue.home}"


def _judge_end(
    columns: Columns, context: Context, group: str, queue: LogKey, end: QueueEnd, drain: Drain
) -> Iterator[Finding]:
    beyond = end.committed > end.max_offset
    if not beyond and not (drain.complete and end.committed < end.max_offset):
        return
    anomaly = "commit_beyond_end" if beyond else "commit_behind"
    # With its disk, the leader loses messages with a weak status, consumed or not.
    gone = beyond and _lost_for_good(context.facts, queue.stream, drain.time_ns)
    allowed = gone and end.committed <= _came_to(columns, context.facts, group, queue)
    yield Finding(
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if allowed else judge(context.facts.mode, anomaly),
        op_index=drain.op_index,
        time_ns=drain.time_ns,
        detail=f"committed {end.committed}, the queue ends at {end.max_offset}",
        topic=queue.topic,
        broker=queue.home,
        queue=queue.partition,
        queue_offset=end.committed,
        group=group,
    )


def _came_to(columns: Columns, facts: RunFacts, group: str, queue: LogKey) -> int:
    """Return the highest offset that any member of a group has reached in a queue; EVERYWHERE if it has a filter."""
    names, deliveries, commits = columns.names, columns.deliveries, columns.commits
    if group in facts.wanted_tags:
        return EVERYWHERE
    if group not in names.groups or queue not in names.logs:
        return 0
    of_queue, of_group = names.logs.index(queue), names.groups.index(group)
    given = (deliveries.log == of_queue) & (deliveries.group == of_group)
    reported = (commits.log == of_queue) & (commits.group == of_group)
    return max(
        int(deliveries.queue_offset[given].max(initial=-1)) + 1,
        int(commits.offset[reported].max(initial=0)),
    )


def rows_beyond_ends(columns: Columns, context: Context) -> Columns:
    """Select deliveries and commits of queues that end below a committed offset, if a lost disk may excuse that."""
    asked = {
        queue
        for drain in context.timeline.drains.values()
        for queue, end in drain.ends.items()
        if end.committed > end.max_offset
        and _lost_for_good(context.facts, queue.stream, drain.time_ns)
    }
    of_queues = np.flatnonzero([queue in asked for queue in columns.names.logs])
    return Columns(
        names=columns.names,
        sends=columns.sends.where(slice(0)),
        deliveries=columns.deliveries.where(np.isin(columns.deliveries.log, of_queues)),
        commits=columns.commits.where(np.flatnonzero(np.isin(columns.commits.log, of_queues))),
    )


def _lost_for_good(facts: RunFacts, broker: str, until_ns: int) -> bool:
    """Whether a permanent fault of the leader was fired by `until_ns`, such as the loss of its disk.

    A wiped disk is not lost for good: the broker refills it from its replicas.
    """
    return any(
        fault.permanent and fault.fired_ns is not None and fault.fired_ns <= until_ns
        for fault in facts.faults
        if fault.bitten_ns is not None
        and set(fault.targets).intersection(facts.replica_sets.get(broker, ())[:1])
    )


OFFSETS = Kernel(
    name="offsets",
    partition_by="log",
    anomalies=("commit_ahead", "commit_rewound"),
    partial=tally_commits,
    unknown_reason=nothing_missing,
    split=Split(scan_consumption, conclude_commits),
)

DRAINED_OFFSETS = Checker(
    name="drained_offsets",
    anomalies=("commit_beyond_end", "commit_behind"),
    check=check_drained_offsets,
    rows=rows_beyond_ends,
)
