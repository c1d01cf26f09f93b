"""Resets of offsets: the members of a group go back to the offsets to which an operator reset the group.

**reset_ignored**: a member did not go back. The rule applies if a leader answered that it has notified the members of a
group of a reset to the beginning of a topic, or to the time of a message, and if one member owned a queue of that
leader from the request until it must have executed the reset. The group had consumed messages of the queue from the new
offset on, and after the request no member received one of them again. The drain of the group was complete, so the group
consumed all messages from the new offset on. If the owner later gives the queue up, or gets another reset, only the
messages below the highest one that it received again count: the next owner may begin higher. If the owner ends, only
the first message counts. Allowed if the reset may not have reached the owner, because it is sent one way, or if the log
may have lost a suffix. The checker does not apply if no queue had such an owner.

The new offset is 0, or the offset that the leader answered. In the queue of the message that the operator chose, it is
at most the offset of this message.

Cannot see: queues whose owner changed at that time, which includes orderly members that execute a reset by giving up
their queues; clients that do not report which queues they own; messages that retention has deleted by the end; an
answer that is too high in a queue whose time the operator did not read; resets forward.

Source: Broker2Client.resetOffset and MQClientInstance.resetOffset of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.engine.kernel import Checker, Context, finding_at, some_rows
from staticfire.checkers.guarantees.facts import OffsetsReset
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns, Ints, LogKey, MessageEvents, Outcome
from staticfire.checkers.model.timeline import QueueEnd

ANOMALY = "reset_ignored"
NO_ROWS: Final = np.zeros(0, np.int64)


class Owed(NamedTuple):
    """A queue in which its owner must go back: it owned the queue throughout, and its group was drained."""

    reset: OffsetsReset
    log: LogKey
    owner: int  # process
    offset: int  # the highest offset at which the owner may continue
    end: QueueEnd
    until_ns: int  # the time until which the owner had the queue, and got no other reset
    has_ended: bool  # the owner ended at this time, so its last progress may be lost


class Returned(NamedTuple):
    """The deliveries of a queue that decide. Each field has the row of one delivery, or none."""

    first: Ints  # the first message that must come again
    missing: Ints  # the first of these messages that did not come again
    again: Ints  # `first` when it came again
    highest: Ints  # the highest message that the owner received again

    @property
    def rows(self) -> Ints:
        return np.concatenate(self)


def owed(context: Context) -> Iterator[Owed]:
    """Yield each reset of each queue that can be judged."""
    timeline = context.timeline
    for reset in _resets(context):
        drain = timeline.drains_of(reset.group, reset.topic)
        if drain is None or not drain.complete or reset.group in context.facts.filters_changed_ns:
            continue
        for log, end in drain.ends.items():
            owner = _owner(context, reset, log) if log.stream == reset.stream else None
            offset = reset.offset(log.partition)
            if owner is not None and offset is not None:
                ended = ended_ns(context, owner)
                until_ns = min(_goes_on_until_ns(context, reset, log), ended)
                yield Owed(reset, log, owner, offset, end, until_ns, ended == until_ns < FOREVER_NS)


def rows_around_resets(columns: Columns, context: Context) -> Columns:
    """Select the deliveries that `check_resets` compares, from each queue in which its owner must go back."""
    kept = [_returned(columns, one).rows for one in owed(context)]
    return some_rows(columns, deliveries=np.unique(np.concatenate([NO_ROWS, *kept])))


def check_resets(columns: Columns, context: Context) -> Verdict:
    """Judge the deliveries after each reset by those that the group had consumed before it."""
    findings: list[Finding] = []
    judged = 0
    for one in owed(context):
        returned = _returned(columns, one)
        judged += len(returned.first)
        for row in returned.missing.tolist():
            later = row not in returned.first
            findings.append(_finding(columns, context, one, row, later=later))
    tally = Tally.of(findings, resets_judged=judged)
    return Verdict(
        checker="resets",
        valid=ANOMALY not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _returned(columns: Columns, one: Owed) -> Returned:
    """Compare the messages that the group had consumed and that still exist with those that it received again."""
    deliveries, reset, names = columns.deliveries, one.reset, columns.names
    if one.log not in names.logs or reset.group not in names.groups:
        return Returned(NO_ROWS, NO_ROWS, NO_ROWS, NO_ROWS)
    log, group = names.logs.index(one.log), names.groups.index(reset.group)
    rows = np.flatnonzero((deliveries.log == log) & (deliveries.group == group))
    offset = deliveries.queue_offset[rows]
    there = (offset >= max(one.offset, one.end.min_offset)) & (offset < one.end.max_offset)
    consumed = (deliveries.outcome[rows] == Outcome.OK) & (
        deliveries.time_ns[rows] < reset.asked_ns
    )
    before = _by_offset(deliveries, rows[there & consumed])
    after = _by_offset(deliveries, rows[deliveries.invoke_ns[rows] > reset.asked_ns])
    mine = (deliveries.process[after] == one.owner) & (deliveries.invoke_ns[after] < one.until_ns)
    highest = after[mine][-1:]
    first, given = before[:1], deliveries.queue_offset[after]
    is_owed = np.arange(len(before)) == 0
    if one.until_ns == FOREVER_NS:
        is_owed[:] = True
    elif len(highest) and not one.has_ended:
        is_owed |= deliveries.queue_offset[before] < deliveries.queue_offset[highest]
    is_missing = is_owed & ~np.isin(deliveries.queue_offset[before], given)
    again = after[np.isin(given, deliveries.queue_offset[first])]
    return Returned(first, before[is_missing][:1], again[:1], highest)


def _by_offset(deliveries: MessageEvents, rows: Ints) -> Ints:
    return rows[np.argsort(deliveries.queue_offset[rows], kind="stable")]


def _resets(context: Context) -> Iterator[OffsetsReset]:
    return chain.from_iterable(fault.resets for fault in context.facts.faults)


def _goes_on_until_ns(context: Context, reset: OffsetsReset, log: LogKey) -> int:
    """Return when the owner of a queue first changed after it had executed a reset, or when the next reset came."""
    carried_out_ns = _carried_out_ns(context, reset)
    changes = context.timeline.ownership.get((reset.group, log), ())
    ordered = (
        (other.asked_ns, reset.asked_ns)
        for other in _resets(context)
        if (other.group, other.topic, other.stream) == (reset.group, reset.topic, reset.stream)
    )
    changed = ((change.time_ns, carried_out_ns) for change in changes)
    return min(
        (at_ns for at_ns, since_ns in chain(ordered, changed) if at_ns > since_ns),
        default=FOREVER_NS,
    )


def _owner(context: Context, reset: OffsetsReset, log: LogKey) -> int | None:
    """Return the process that owned the queue from request to execution; None if another one did, or none."""
    owners: set[int] = set()
    for change in context.timeline.ownership.get((reset.group, log), ()):
        if change.time_ns > _carried_out_ns(context, reset):
            break
        if change.time_ns >= reset.asked_ns:
            return None
        (owners.add if change.change == "gained" else owners.discard)(change.process)
    living = [owner for owner in owners if ended_ns(context, owner) > reset.asked_ns]
    return living[0] if len(living) == 1 else None


def _carried_out_ns(context: Context, reset: OffsetsReset) -> int:
    return reset.answered_ns + int(context.facts.timings.reset_s * NS_PER_S)


def _finding(columns: Columns, context: Context, one: Owed, row: int, *, later: bool) -> Finding:
    """Make a finding. `later`: the owner had gone back, so a later event may excuse that it lacks the message."""
    reset = one.reset
    carried_out_ns = _carried_out_ns(context, reset)
    went_on_ns = one.until_ns if later and one.until_ns < FOREVER_NS else carried_out_ns
    nodes = (context.timeline.nodes.get(one.owner),)
    back_to = f"offset {one.offset}" if one.offset else "the beginning"
    window = context.excuses.find(ANOMALY, reset.asked_ns, went_on_ns, reset.stream, nodes)
    kept = context.promises.rule(reset.stream, int(columns.deliveries.invoke_ns[row])).judgement
    allowed = window is not None or kept is Judgement.ALLOWED
    return finding_at(
        columns,
        columns.deliveries,
        row,
        anomaly=ANOMALY,
        judgement=Judgement.ALLOWED if allowed else judge(context.facts.mode, ANOMALY),
        detail=(
            f"the group was sent back to {back_to} of the queue at {reset.answered_ns / NS_PER_S:.3f} s, "
            f"and this message did not come again to its owner, process {one.owner}"
            + ("" if window is None else f"; {window.words}")
        ),
        group=reset.group,
    )


RESETS = Checker(
    name="resets",
    anomalies=(ANOMALY,),
    check=check_resets,
    rows=rows_around_resets,
    applies=lambda context: any(True for _ in owed(context)),
)
