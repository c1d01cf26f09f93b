"""Delayed messages: never early, and not much too late while nothing is broken.

**early_delivery**: a listener was called before the send began plus the delay. **late_delivery**: the first delivery to
a group came much later than due, although no fault was near from then on: nothing was in its way. Both are allowed
where the clock of a broker was stepped, since brokers count by their wall clock. So is lateness of what was sent up to
a delay later, because it may stand behind a message of that time, and a level is delivered in order. A message that
never comes is a matter of loss.

Cannot see: a delay that ended early by less than the send took, lateness below the bound, and that of a send with
several attempts, each of which may have begun a delay.

Source: ScheduleMessageService of Apache RocketMQ 4.9 (deliver when the store time plus the delay is over, looking every
100 ms); bugs #3966 and #9249, which skipped a message whose delivery had failed.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Outcome, Touches
from checkers.kernel import Context, Kernel, finding_at, nothing_missing
from checkers.promises import FOREVER_NS, NS_PER_S, Judgement, judge
from checkers.unrest import fault_near
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
    by_ns = delayed.due_ns[place] - deliveries.invoke_ns[rows]
    for at in np.flatnonzero(by_ns > CLOCK_ROUGHNESS_NS).tolist():
        since = int(delayed.invoke_ns[place[at]])
        yield _finding(columns, context, int(rows[at]), "early_delivery", since, int(by_ns[at]))


def _late(
    columns: Columns, context: Context, delayed: Touches, rows: Ints, place: Ints
) -> Iterator[Finding]:
    deliveries = columns.deliveries
    known = np.maximum(delayed.due_ns[place], delayed.time_ns[place])
    by_ns = deliveries.invoke_ns[rows] - known
    # A request that nobody answered, an earlier attempt too, may have reached its broker at any time.
    answered = np.isin(delayed.outcome[place], (Outcome.OK, Outcome.WEAK)) & (
        delayed.tries[place] <= 1
    )
    for at in np.flatnonzero(answered & (by_ns > LATE_AFTER_NS)).tolist():
        row, due_ns = int(rows[at]), int(known[at])
        if fault_near(context.facts.faults, due_ns, int(deliveries.invoke_ns[row])) is None:
            sent_ns = int(delayed.invoke_ns[place[at]])
            since = sent_ns - (int(delayed.due_ns[place[at]]) - sent_ns)
            yield _finding(columns, context, row, "late_delivery", since, int(by_ns[at]))


def _finding(
    columns: Columns, context: Context, row: int, anomaly: str, since_ns: int, by_ns: int
) -> Finding:
    deliveries = columns.deliveries
    stepped = clock_stepped(context, since_ns, int(deliveries.invoke_ns[row]))
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


def clock_stepped(context: Context, since_ns: int, until_ns: int) -> str | None:
    """Say which broker's clock was wrong in that time; None when all were right."""
    brokers = {node for nodes in context.facts.brokers.values() for node in nodes}
    for fault in context.facts.faults:
        if fault.kind != "clock_skew" or fault.fired_ns is None or not brokers & {*fault.targets}:
            continue
        healed_ns = FOREVER_NS if fault.healed_ns is None else fault.healed_ns
        if fault.fired_ns <= until_ns and healed_ns >= since_ns:
            return f"the clock of {', '.join(fault.targets)} was wrong"
    return None


DELAYS = Kernel(
    name="delays",
    partition_by="message",
    anomalies=("early_delivery", "late_delivery"),
    partial=tally_delays,
    unknown_reason=nothing_missing,
)
