"""Resets of offsets: a group that an operator sends back begins again.

**reset_ignored**: a leader answered that it has notified the members of a group of a reset to the beginning of a topic.
One member owned a queue of that leader from the request until it must have carried the reset out, and was given what
the queue held. After the request no member was given the first of those messages again. The drain of the group must
have been complete, so everything behind the new offset has been consumed. Allowed where the order may not have reached
the owner: it goes one way.

Cannot see: queues whose owner changed at that time, which includes orderly members that carry a reset out by giving
their queues up; clients that do not report which queues they own; messages that retention has deleted by the end; a
reset to any other place.

Source: Broker2Client.resetOffset and MQClientInstance.resetOffset of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.engine.kernel import Checker, Context, finding_at
from staticfire.checkers.guarantees.facts import OffsetsReset
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns, Ints, LogKey, Mask, Outcome

ANOMALY = "reset_ignored"


def rows_around_resets(columns: Columns, context: Context) -> Columns:
    """Select, for each queue and reset, the first message that was consumed before it and the first that came after."""
    kept = np.zeros(len(columns.deliveries), np.bool_)
    for reset in _resets(context):
        for _, queue in _queues(columns, reset):
            rows = _rows(columns, reset, queue)
            for chosen in (_before(columns, reset, rows), _after(columns, reset, rows)):
                kept[_first(columns, chosen)] = True
    nothing = np.zeros(0, np.int64)
    return Columns(
        names=columns.names,
        sends=columns.sends.where(nothing),
        deliveries=columns.deliveries.where(kept),
        commits=columns.commits.where(nothing),
    )


def check_resets(columns: Columns, context: Context) -> Verdict:
    """Compare what came after each reset with what was consumed before it."""
    findings: list[Finding] = []
    judged = 0
    for reset in _resets(context):
        drain = context.timeline.drains_of(reset.group, reset.topic)
        if drain is None or not drain.complete or reset.group in context.facts.filters_changed_ns:
            continue
        for log, queue in _queues(columns, reset):
            rows = _rows(columns, reset, queue)
            owner = _owner(context, reset, log)
            end = drain.ends.get(log)
            for row in _first(columns, _before(columns, reset, rows)).tolist():
                offset = int(columns.deliveries.queue_offset[row])
                if owner is None or end is None or end.min_offset > offset:
                    continue
                judged += 1
                again = _first(columns, _after(columns, reset, rows)).tolist()
                if not again or columns.deliveries.queue_offset[again[0]] > offset:
                    findings.append(_finding(columns, context, reset, log, row, owner))
    tally = Tally.of(findings, resets_judged=judged)
    return Verdict(
        checker="resets",
        valid=ANOMALY not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _resets(context: Context) -> Iterator[OffsetsReset]:
    for fault in context.facts.faults:
        yield from fault.resets


def _queues(columns: Columns, reset: OffsetsReset) -> Iterator[tuple[LogKey, int]]:
    """Yield the queues that begin again, with their ids."""
    for number, log in enumerate(columns.names.logs):
        if log.topic == reset.topic and log.stream == reset.stream:
            yield log, number


def _rows(columns: Columns, reset: OffsetsReset, queue: int) -> Ints:
    """Return the deliveries from a queue to the group of a reset."""
    groups = columns.names.groups
    group = groups.index(reset.group) if reset.group in groups else len(groups)
    deliveries = columns.deliveries
    return np.flatnonzero((deliveries.log == queue) & (deliveries.group == group))


def _before(columns: Columns, reset: OffsetsReset, rows: Ints) -> Ints:
    deliveries = columns.deliveries
    is_consumed: Mask = deliveries.outcome[rows] == Outcome.OK
    return rows[is_consumed & (deliveries.time_ns[rows] < reset.asked_ns)]


def _after(columns: Columns, reset: OffsetsReset, rows: Ints) -> Ints:
    return rows[columns.deliveries.invoke_ns[rows] > reset.asked_ns]


def _first(columns: Columns, rows: Ints) -> Ints:
    """Return the row with the lowest offset, the earliest of several; none if there are no rows."""
    return rows[np.argsort(columns.deliveries.queue_offset[rows], kind="stable")[:1]]


def _owner(context: Context, reset: OffsetsReset, log: LogKey) -> int | None:
    """Return the process that had the queue all the time; None if another one, or none, may have had it."""
    until_ns = reset.answered_ns + int(context.facts.timings.reset_s * NS_PER_S)
    owners: set[int] = set()
    for change in context.timeline.ownership.get((reset.group, log), ()):
        if change.time_ns > until_ns:
            break
        if change.time_ns >= reset.asked_ns:
            return None
        (owners.add if change.change == "gained" else owners.discard)(change.process)
    living = [owner for owner in owners if ended_ns(context, owner) > reset.asked_ns]
    return living[0] if len(living) == 1 else None


def _finding(
    columns: Columns, context: Context, reset: OffsetsReset, log: LogKey, row: int, owner: int
) -> Finding:
    until_ns = reset.answered_ns + int(context.facts.timings.reset_s * NS_PER_S)
    node = context.timeline.nodes.get(owner)
    window = context.excuses.find(ANOMALY, reset.asked_ns, until_ns, log.stream, (node,))
    return finding_at(
        columns,
        columns.deliveries,
        row,
        anomaly=ANOMALY,
        judgement=Judgement.ALLOWED if window else judge(context.facts.mode, ANOMALY),
        detail=(
            f"the group was sent back to the beginning of the queue at {reset.answered_ns / NS_PER_S:.3f} s, "
            f"and this message did not come again to its owner, process {owner}"
            + ("" if window is None else f"; {window.words}")
        ),
        group=reset.group,
    )


RESETS = Checker(
    name="resets",
    anomalies=(ANOMALY,),
    check=check_resets,
    rows=rows_around_resets,
    applies=lambda context: any(fault.resets for fault in context.facts.faults),
)
