"""Ownership of deliveries: only a running member that owns a queue receives its messages.

**unknown_consumer**: a listener was called that belongs to no known member: its group is not one of the run's and no
member of it ever opened, its process never opened, or it opened as a member of other groups. **delivery_after_exit**: a
listener was called although its process had ended: the node ran its next process or had ended by itself, or a fault had
ended it (`process_ends.py`). **unowned_delivery**: a listener was called with messages of a queue that its process did
not own, by its own assignments. **unowned_commit**: a process committed an offset of a queue that it had never owned
until then, by its own assignments. Faults excuse none of these: a member knows its queues, and a process that has ended
calls no listener.

A member may still begin one call while it gives a queue up. A client may report a call and an assignment that happen at
the same time in either order. `AT_HAND_NS` is the tolerance for both.

Cannot see: members of a group that reports no assignments for a topic (the verdict is unknown if they report
subscriptions and no assignment at all); a process that never opened, in a group of which no member opened; dead-letter
topics, which the harness reads at the end in the name of the group.

Source: RebalanceImpl and ConsumeMessageConcurrentlyService of Apache RocketMQ 4.9 (a call for a dropped queue ends
before it reaches the listener). Jepsen's consumers do not report assignments.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import Self

import numpy as np

from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import (
    WITNESSES_MAX,
    Finding,
    Tally,
    count_name,
    first_witnesses,
)
from staticfire.checkers.model.columns import Columns, Ints, Mask, MessageEvents
from staticfire.checkers.model.timeline import Timeline

# Clients of this project need no tolerance. In others a listener's thread may have passed its last check of the queue.
AT_HAND_NS = NS_PER_S
DEAD_LETTERS = "%DLQ%"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Calls:
    """Calls of listeners; arrays have shape (calls,)."""

    processes: list[int]
    process: Ints  # index in `processes`
    group: Ints
    topic: Ints
    log: Ints
    invoke_index: Ints
    invoke_ns: Ints

    @classmethod
    def of(cls, delivered: MessageEvents, rows: Ints) -> Self:
        """Return the calls that begin with these rows."""
        processes, process = np.unique(delivered.process[rows], return_inverse=True)
        names = ("group", "topic", "log", "invoke_index", "invoke_ns")
        others = {name: getattr(delivered, name)[rows] for name in names}
        return cls(processes=processes.tolist(), process=process, **others)

    def __len__(self) -> int:
        return len(self.process)


def tally_ownership(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries and commits of whole queues (partition key: log)."""
    return _tally_calls(columns, context).merge(Tally.of(_strange_commits(columns, context)))


def _tally_calls(columns: Columns, context: Context) -> Tally:
    delivered = columns.deliveries
    is_read_later = np.array(
        [topic.startswith(DEAD_LETTERS) for topic in columns.names.topics], np.bool_
    )
    if np.any(is_read_later):
        delivered = delivered.where(~is_read_later[delivered.topic])
    if not len(delivered):
        return Tally()
    begins = _begins_call(delivered)
    calls, of_row = _Calls.of(delivered, np.flatnonzero(begins)), np.cumsum(begins) - 1
    unknown = _unknown(columns, context, calls)
    ended = _ended(context, calls) & ~unknown
    reported = _reported(columns, context, calls)
    unowned = reported & ~_owned(columns, context, calls) & ~unknown & ~ended
    counts = {
        "owned": int(np.count_nonzero((reported & ~unowned)[of_row])),
        "unreported": int(np.count_nonzero(~reported[of_row])),
    }
    findings: list[Finding] = []
    for anomaly, which in (
        ("unknown_consumer", unknown),
        ("delivery_after_exit", ended),
        ("unowned_delivery", unowned),
    ):
        if np.any(which):
            rows = np.flatnonzero(which[of_row])
            counts[count_name(anomaly, judge(context.facts.mode, anomaly))] = len(rows)
            findings += _findings(columns, context, delivered, rows, anomaly)
    return Tally(
        counts={name: count for name, count in counts.items() if count},
        findings=first_witnesses(findings),
    )


def _strange_commits(columns: Columns, context: Context) -> Iterator[Finding]:
    """Yield findings for commits to queues that the process had never owned, in groups that report assignments."""
    names, commits, ownership = columns.names, columns.commits, context.timeline.ownership
    reported = {(group, queue.topic) for group, queue in ownership}
    who = np.stack((commits.log, commits.group, commits.process))
    streams, of_row = np.unique(who, axis=1, return_inverse=True)
    for number, (queue_id, group_id, process) in enumerate(streams.T.tolist()):
        group, queue = names.groups[group_id], names.logs[queue_id]
        if (group, queue.topic) not in reported or group in context.facts.assigned:
            continue
        changes = (of for of in ownership.get((group, queue), ()) if of.process == process)
        had_ns = min((of.time_ns for of in changes), default=FOREVER_NS) - AT_HAND_NS
        for row in np.flatnonzero((of_row.ravel() == number) & (commits.time_ns < had_ns)).tolist():
            yield Finding(
                anomaly="unowned_commit",
                judgement=judge(context.facts.mode, "unowned_commit"),
                op_index=int(commits.op_index[row]),
                time_ns=int(commits.time_ns[row]),
                detail=f"process {process} committed {commits.offset[row]}: it never had the queue",
                topic=queue.topic,
                broker=queue.home,
                queue=queue.partition,
                group=group,
            )


def _begins_call(rows: MessageEvents) -> Mask:
    """Whether each row is the first of a listener call, shape (rows,). The rows of one op must be adjacent."""
    new: Mask = (rows.op_index[1:] != rows.op_index[:-1]) | (rows.log[1:] != rows.log[:-1])
    return np.concatenate(([True], new))


def _unknown(columns: Columns, context: Context, calls: _Calls) -> Mask:
    """Whether the listener of each call belongs to no known member, shape (calls,)."""
    timeline, names = context.timeline, columns.names.groups
    groups_of: dict[int, set[str]] = {}
    for subscribed in timeline.subscriptions:
        groups_of.setdefault(subscribed.process, set()).add(subscribed.group)
    known = set(context.facts.groups).union(*groups_of.values())
    opened = {one.process for one in timeline.opens} | groups_of.keys()
    opening = _groups_that_open(timeline, opened)
    is_strange = np.array(
        [
            [
                (bool(known) and group not in known)
                or (group in opening and number not in opened)
                or group not in groups_of.get(number, {group})
                for group in names
            ]
            for number in calls.processes
        ],
        np.bool_,
    )
    strange: Mask = is_strange[calls.process, calls.group]
    return strange


def _groups_that_open(timeline: Timeline, opened: Collection[int]) -> set[str]:
    """Return the groups with members that report when they are ready: one that opened subscribes, or owns queues."""
    return {subscribed.group for subscribed in timeline.subscriptions} | {
        group
        for (group, _), changes in timeline.ownership.items()
        if any(change.process in opened for change in changes)
    }


def _ended(context: Context, calls: _Calls) -> Mask:
    """Whether the process of each call had ended before it, shape (calls,)."""
    ends = np.array([ended_ns(context, process) for process in calls.processes], np.int64)
    ended: Mask = calls.invoke_ns > ends[calls.process]
    return ended


def _reported(columns: Columns, context: Context, calls: _Calls) -> Mask:
    """Whether the group of each call reports assignments of the topic, shape (calls,)."""
    names = columns.names
    assigned = {(group, queue.topic) for group, queue in context.timeline.ownership}
    table = np.array(
        [[(group, topic) in assigned for topic in names.topics] for group in names.groups], np.bool_
    )
    found: Mask = table[calls.group, calls.topic]
    return found


def _owned(columns: Columns, context: Context, calls: _Calls) -> Mask:
    """Whether the process of each call owned the queue, or lost or gained it within AT_HAND_NS, shape (calls,)."""
    names = columns.names
    groups, number = len(names.groups), {process: at for at, process in enumerate(calls.processes)}
    stream = calls.log * groups + calls.group
    streams = np.flatnonzero(np.bincount(stream)).tolist()
    changes = [
        (
            stream * len(number) + number[change.process],
            change.op_index,
            change.time_ns,
            change.change,
        )
        for stream in streams
        for change in context.timeline.ownership.get(
            (names.groups[stream % groups], names.logs[stream // groups]), ()
        )
        if change.process in number
    ]
    if not changes:
        return np.zeros(len(calls), np.bool_)
    pair, index, time_ns = (
        np.array(column, np.int64) for column in list(zip(*changes, strict=True))[:3]
    )
    gained = np.array([change == "gained" for *_, change in changes], np.bool_)
    order = np.lexsort((index, pair))
    pair, index, time_ns, gained = pair[order], index[order], time_ns[order], gained[order]
    of_call = stream * len(number) + calls.process
    longest = 1 + max(int(index.max()), int(calls.invoke_index.max()))
    after = np.searchsorted(
        pair * longest + index, of_call * longest + calls.invoke_index, side="right"
    )
    last, following = np.maximum(after - 1, 0), np.minimum(after, len(pair) - 1)
    has_changed = (after > 0) & (pair[last] == of_call)
    just_lost = calls.invoke_ns - time_ns[last] <= AT_HAND_NS
    will_change = (after < len(pair)) & (pair[following] == of_call)
    just_gaining = gained[following] & (time_ns[following] - calls.invoke_ns <= AT_HAND_NS)
    owned: Mask = (has_changed & (gained[last] | just_lost)) | (will_change & just_gaining)
    return owned


WHY = {
    "unknown_consumer": "no such member of the group is known",
    "delivery_after_exit": "it had ended",
    "unowned_delivery": "it did not have the queue",
}


def _findings(
    columns: Columns, context: Context, delivered: MessageEvents, rows: Ints, anomaly: str
) -> Iterator[Finding]:
    """Yield findings for the first of these rows, at least for as many as there can be witnesses."""
    if len(rows) > WITNESSES_MAX:
        at = delivered.op_index[rows]
        rows = rows[at <= np.partition(at, WITNESSES_MAX)[WITNESSES_MAX]]
    for row in rows.tolist():
        process = int(delivered.process[row])
        yield finding_at(
            columns,
            delivered,
            row,
            anomaly=anomaly,
            judgement=judge(context.facts.mode, anomaly),
            detail=f"given to process {process}: {WHY[anomaly]}",
            group=columns.names.groups[delivered.group[row]],
            at_invocation=True,
        )


def _unknown_reason(tally: Tally, context: Context) -> str | None:
    """Return which groups report subscriptions but no assignments, so that their deliveries were not judged."""
    assigned = {group for group, _ in context.timeline.ownership}
    silent = {one.group for one in context.timeline.subscriptions} - assigned
    if not silent or not tally.counts.get("unreported", 0):
        return None
    return f"no assignments are reported by the members of {', '.join(sorted(silent))}"


OWNERSHIP = Kernel(
    name="ownership",
    partition_by="log",
    anomalies=("unowned_delivery", "unknown_consumer", "delivery_after_exit", "unowned_commit"),
    partial=tally_ownership,
    unknown_reason=_unknown_reason,
)
