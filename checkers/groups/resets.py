"""Resets of offsets: the members of a group go back to where an operator has sent the group.

**reset_ignored**: a leader answered that it has notified the members of a group of a reset to the beginning of a topic,
or to the time of a message. One member owned a queue of that leader from the request until it must have carried the
reset out. The group had consumed messages of the queue from the new offset on, and after the request no member was
given the first of them again. The drain of the group was complete, so all messages behind the new offset were consumed.
Allowed where the order may not have reached the owner, because it goes one way. The checker has no question where no
queue had such an owner.

The new offset is 0, or what the leader answered; in the queue of the message that the operator chose it is at most the
message's own.

Cannot see: queues whose owner changed at that time, which includes orderly members that carry a reset out by giving
their queues up; clients that do not report which queues they own; messages that retention has deleted by the end; an
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
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns, Ints, LogKey, Outcome

ANOMALY = "reset_ignored"
NO_ROWS: Final = np.zeros(0, np.int64)


class Owed(NamedTuple):
    """A queue that must begin again, because one member had it all the time and its group was drained."""

    reset: OffsetsReset
    log: LogKey
    owner: int  # process
    offset: int  # where the owner must go on at the latest
    min_offset: int  # what lies below was deleted by the end


def owed(context: Context) -> Iterator[Owed]:
    """Yield every queue of which a reset can be judged."""
    timeline = context.timeline
    for reset in chain.from_iterable(fault.resets for fault in context.facts.faults):
        drain = timeline.drains_of(reset.group, reset.topic)
        if drain is None or not drain.complete or reset.group in context.facts.filters_changed_ns:
            continue
        for log, end in drain.ends.items():
            owner = _owner(context, reset, log) if log.stream == reset.stream else None
            offset = reset.offset(log.partition)
            if owner is not None and offset is not None:
                yield Owed(reset, log, owner, offset, end.min_offset)


def rows_around_resets(columns: Columns, context: Context) -> Columns:
    """Select, for each queue that is owed, the first message before the reset and the first that came after it."""
    kept = [_first(columns, rows) for one in owed(context) for rows in _around(columns, one)]
    return some_rows(columns, deliveries=np.unique(np.concatenate([NO_ROWS, *kept])))


def check_resets(columns: Columns, context: Context) -> Verdict:
    """Compare what came after each reset with what was consumed before it."""
    findings: list[Finding] = []
    judged = 0
    offsets = columns.deliveries.queue_offset
    for one in owed(context):
        before, after = (_first(columns, rows) for rows in _around(columns, one))
        if not len(before) or offsets[before[0]] < one.min_offset:
            continue
        judged += 1
        if not len(after) or offsets[after[0]] > offsets[before[0]]:
            findings.append(_finding(columns, context, one, int(before[0])))
    tally = Tally.of(findings, resets_judged=judged)
    return Verdict(
        checker="resets",
        valid=ANOMALY not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _around(columns: Columns, one: Owed) -> tuple[Ints, Ints]:
    """Return the rows of what the group had consumed from the new offset on, and of what it was given afterwards."""
    deliveries, reset, names = columns.deliveries, one.reset, columns.names
    if one.log not in names.logs or reset.group not in names.groups:
        return NO_ROWS, NO_ROWS
    log, group = names.logs.index(one.log), names.groups.index(reset.group)
    rows = np.flatnonzero((deliveries.log == log) & (deliveries.group == group))
    is_consumed = deliveries.outcome[rows] == Outcome.OK
    is_owed = is_consumed & (deliveries.queue_offset[rows] >= one.offset)
    before = rows[is_owed & (deliveries.time_ns[rows] < reset.asked_ns)]
    return before, rows[deliveries.invoke_ns[rows] > reset.asked_ns]


def _first(columns: Columns, rows: Ints) -> Ints:
    """Return the row with the lowest offset, the earliest of several; none if there are no rows."""
    return rows[np.argsort(columns.deliveries.queue_offset[rows], kind="stable")[:1]]


def _owner(context: Context, reset: OffsetsReset, log: LogKey) -> int | None:
    """Return the process that had the queue all the time; None if another one, or none, may have had it."""
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


def _finding(columns: Columns, context: Context, one: Owed, row: int) -> Finding:
    reset = one.reset
    times = reset.asked_ns, _carried_out_ns(context, reset)
    nodes = (context.timeline.nodes.get(one.owner),)
    back_to = f"offset {one.offset}" if one.offset else "the beginning"
    window = context.excuses.find(ANOMALY, *times, reset.stream, nodes)
    return finding_at(
        columns,
        columns.deliveries,
        row,
        anomaly=ANOMALY,
        judgement=Judgement.ALLOWED if window else judge(context.facts.mode, ANOMALY),
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
