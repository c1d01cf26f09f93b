"""Offsets: a group commits the offsets of messages that it has consumed, and no others.

**commit_ahead**: a group committed an offset beyond all messages that it had consumed from the queue by then, so it
skips the messages in between. **commit_rewound**: a commit sets the group's offset back, and no member rightly took the
queue over at such an offset (rewinds.py). **commit_beyond_end**: at the drain the group's offset is higher than the end
of the queue, so the group will skip the next messages. Allowed where the leader's disk, which held the rest, is lost
for good and a member had reached that offset. **commit_behind**: the drain reports a lag of 0, but the offset is below
the end of the queue.

For a group with a filter only matching messages can be skipped, and only if no later message was stored at or below
that offset. Where no acknowledgement shows such a message, its delivery to another group does.

Starting points count as consumed: a group that begins at the end of a queue commits an offset that it never read. The
kernel takes the first commit in a queue for such a start if the group had consumed nothing there before.

The kernel judges the members of a broadcasting group one by one, because each has a file of offsets. A member skips a
message after its listener failed, as ConsumeMessageConcurrentlyService of Apache RocketMQ does.
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

NOTHING = np.iinfo(np.int64).min  # below all offsets
EVERYWHERE = np.iinfo(np.int64).max


def tally_commits(columns: Columns, context: Context) -> Tally:
    """Judge the commits of whole message queues (partition key: log)."""
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
    """The share of some chunks of a queue in all its commits; arrays of shape (commits,). Merges in any order."""

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
    """Find what the groups had consumed from a chunk of a queue before each commit."""
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
    """Judge the commits of a queue once all its chunks are scanned."""
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
    """Yield the rows of each stream, and its number; commits are sorted by it."""
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
    # A group that has consumed nothing begins at its first commit.
    next_offset = reached.copy()
    for rows in _readers(columns, context, commits):
        begin = int(commits.offset[rows[0]]) if reached[rows[0]] == 0 else 0
        next_offset[rows] = np.maximum(reached[rows], begin)
    ahead = np.flatnonzero(commits.offset > next_offset)
    if len(ahead) and columns.names.groups[int(commits.group[0])] in context.facts.wanted_tags:
        # They skip messages that the group wants; a filter excludes the others.
        ahead = ahead[wanted()[ahead] >= next_offset[ahead]]
    for row in ahead.tolist():
        detail = f"committed {commits.offset[row]}, consumed up to {next_offset[row]}"
        yield _finding(columns, context, commits, row, "commit_ahead", detail)
    for row, detail, is_excused in rewinds(columns, context, commits, settled):
        finding = _finding(columns, context, commits, row, "commit_rewound", detail)
        yield replace(finding, judgement=Judgement.INFORMATIONAL) if is_excused else finding


def _wanted_below(columns: Columns, context: Context, commits: Commits) -> Ints:
    """Return for each commit of a stream the highest offset below it of a message that its group wants, or NOTHING."""
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
    """Return the highest of some offsets below each limit, or NOTHING."""
    ascending = np.sort(offsets)
    found: Ints = np.concatenate(([NOTHING], ascending))[np.searchsorted(ascending, limits)]
    return found


def _given_anew(acked: MessageEvents) -> Mask:
    """Select sends of a queue whose offsets, or lower ones, later sends got: a fault had cut the queue there.

    Another checker judges whether the loss was legal. A group may have skipped the messages that replaced them.
    """
    if not len(acked):
        return np.zeros(0, np.bool_)
    order = np.argsort(acked.queue_offset, kind="stable")
    upto = np.searchsorted(acked.queue_offset[order], acked.queue_offset, side="right") - 1
    latest_ns = np.maximum.accumulate(acked.invoke_ns[order])[upto]
    given: Mask = latest_ns > acked.time_ns
    return given


def _replaced(acked: MessageEvents, given: MessageEvents) -> Mask:
    """Select sends of a queue at whose offset some group last received another message.

    That message has no acknowledgement in this queue. Otherwise its own offset is known, and it replaced nothing here.
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
    """Yield the rows of a stream's commits that belong together: all, or those of each broadcast member."""
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
    """Return the same for some ended deliveries and the commits that belong to them.

    A failed message counts, because it may have been sent back. Another checker judges whether it comes again.
    """
    deliveries = columns.deliveries
    passed, at = deliveries.outcome[rows] == Outcome.OK, deliveries.op_index[rows]
    offset = deliveries.queue_offset[rows]
    if _is_broadcast(columns, context, commits):
        passed = np.ones(len(at), np.bool_)
    elif columns.names.groups[int(commits.group[0])] in context.facts.retries_max:
        # Includes calls that have not ended: the client has given them up by then.
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
    """Yield the queues that complete drains lack although a member owned them and their broker serves.

    If a broker creates a topic with its first message, other brokers have none of its queues, even if members believed
    that they do.
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
    # A lost disk takes along messages with only a weaker status, consumed or not.
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
    """Return how far any member of a group has come in a queue; unknown for messages that a filter excludes."""
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
    """Select deliveries and commits of queues that ended before a committed offset, if a lost disk may excuse it."""
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
    """Whether the leader's disk is lost for good. A wiped disk is not: the broker refills it from its replicas."""
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
