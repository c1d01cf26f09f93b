"""Delayed messages: never early, and not much too late while nothing is broken.

**early_delivery**: a listener was called before the send began plus the delay. **late_delivery**: the first delivery to
a group came much later than due, not counting the time in which a fault of its broker or of the group was in its way
(excuse_table.py). Both are allowed where the clock of its broker was stepped, since brokers count by their wall clock.
So is lateness of what was sent up to a delay later, because it may stand behind a message of that time, and a level is
delivered in order. A message that never comes is a matter of loss.

Cannot see: a delay that ended early by less than the send took, lateness below the bound, and that of a send with
several attempts, each of which may have begun a delay.

Source: ScheduleMessageService of Apache RocketMQ 4.9 (deliver when the store time plus the delay is over, looking every
100 ms); bugs #3966 and #9249, which skipped a message whose delivery had failed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Outcome, QueueKey, Touches
from checkers.event_times import began_earliest, began_latest
from checkers.kernel import Context, Kernel, finding_at, nothing_missing, queue_of
from checkers.promises import NS_PER_S, Judgement, judge
from checkers.spans import Span, without
from checkers.verdict import Finding, Tally

NS_PER_MS = 1_000_000
CLOCK_ROUGHNESS_NS = 2 * NS_PER_MS  # brokers count in whole milliseconds
# Delivered within 100 ms of its time, then stored, replicated and pulled; a backlog may lie before it.
LATE_AFTER_NS = 15 * NS_PER_S


def tally_delays(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole delayed messages (partition key: message)."""
    sends = columns.sends
    delayed = sends.where(sends.due_ns != UNKNOWN)
    if not len(delayed):
        return Tally()
    order = np.argsort(delayed.message, kind="stable")
    delayed = delayed.where(order)
    deliveries = columns.deliveries
    place = np.searchsorted(delayed.message, deliveries.message)
    place[place == len(delayed)] = 0
    rows = np.flatnonzero(delayed.message[place] == deliveries.message)
    place = place[rows]
    first = _first_of_each(deliveries, rows, place)
    findings = [
        *_early(columns, context, delayed, rows, place),
        *_late(columns, context, delayed, rows[first], place[first]),
    ]
    return Tally.of(findings, delayed=len(delayed), delayed_delivered=len(np.unique(place)))


def _first_of_each(deliveries: Touches, rows: Ints, place: Ints) -> Ints:
    """Positions of the first delivery of each message to each group."""
    group = deliveries.group[rows]
    order = np.lexsort((deliveries.invoke_index[rows], group, place))
    new = (np.diff(place[order], prepend=-1) != 0) | (np.diff(group[order], prepend=-2) != 0)
    firsts: Ints = order[new]
    return firsts


def _early(
    columns: Columns, context: Context, delayed: Touches, rows: Ints, place: Ints
) -> Iterator[Finding]:
    deliveries = columns.deliveries
    by_ns = delayed.due_ns[place] - began_latest(deliveries, rows)
    for at in np.flatnonzero(by_ns > CLOCK_ROUGHNESS_NS).tolist():
        since = int(delayed.invoke_ns[place[at]])
        yield _finding(columns, context, int(rows[at]), "early_delivery", since, int(by_ns[at]))


def _late(
    columns: Columns, context: Context, delayed: Touches, rows: Ints, place: Ints
) -> Iterator[Finding]:
    deliveries = columns.deliveries
    known = np.maximum(delayed.due_ns[place], delayed.time_ns[place])
    by_ns = began_earliest(deliveries, rows) - known
    # A request that no broker answered, an earlier attempt too, may have reached its broker at any time; a client that
    # does not say how often it tried may have made one.
    answered = np.isin(delayed.outcome[place], (Outcome.OK, Outcome.WEAK)) & (
        delayed.tries[place] == 1
    )
    for at in np.flatnonzero(answered & (by_ns > LATE_AFTER_NS)).tolist():
        row, due_ns = int(rows[at]), int(known[at])
        waited = [Span(due_ns, int(deliveries.invoke_ns[row]))]
        late_ns = sum(span.length_ns for span in without(waited, _hindered(columns, context, row)))
        if late_ns > LATE_AFTER_NS:
            sent_ns = int(delayed.invoke_ns[place[at]])
            since = sent_ns - (int(delayed.due_ns[place[at]]) - sent_ns)
            yield _finding(columns, context, row, "late_delivery", since, int(by_ns[at]))


def _hindered(columns: Columns, context: Context, row: int) -> list[Span]:
    """When faults were in the way of a delayed message to its group."""
    deliveries = columns.deliveries
    members = context.timeline.members(columns.names.groups[deliveries.group[row]])
    broker = columns.names.queues[int(deliveries.queue[row])].broker
    return context.excuses.spans("late_delivery", broker, members)


def _finding(
    columns: Columns, context: Context, row: int, anomaly: str, since_ns: int, by_ns: int
) -> Finding:
    deliveries = columns.deliveries
    queue = queue_of(columns, deliveries, row)
    stepped = clock_stepped(context, queue, since_ns, int(deliveries.invoke_ns[row]))
    which = "early" if anomaly == "early_delivery" else "late"
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly=anomaly,
        judgement=Judgement.ALLOWED if stepped else judge(context.facts.mode, anomaly),
        detail=f"{by_ns / NS_PER_S:.3f} s too {which}" + (f"; {stepped}" if stepped else ""),
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
    )


def clock_stepped(
    context: Context, queue: QueueKey | None, since_ns: int, until_ns: int
) -> str | None:
    """Say whether the clock of the queue's broker was wrong in that time, of any broker if the queue is not known."""
    brokers = context.facts.brokers if queue is None else (queue.broker,)
    for broker in brokers:
        window = context.excuses.find("clock", since_ns, until_ns, broker)
        if window is not None:
            return f"the clock of {', '.join(window.fault.targets)} was wrong"
    return None


DELAYS = Kernel(
    name="delays",
    partition_by="message",
    screened=True,
    anomalies=("early_delivery", "late_delivery"),
    partial=tally_delays,
    unknown_reason=nothing_missing,
)
