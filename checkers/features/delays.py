"""Delayed messages are never early. `late_deliveries.py` judges late ones.

**early_delivery**: a listener was called before the begin of the send plus the delay. A broker has only the times of
its wall clock in its log. So a leader that restarts may release a message too early, if its clock is wrong then or was
wrong before. A hardened leader that runs notices a step of the clock, because it compares it with a monotonic clock; a
faithful one does not.

A store time is rounded down to a whole millisecond, so a delay may end up to 1 ms early. Beyond that the kernel
tolerates only the measured error of the time stamp of the delivery (`checkers/model/event_times.py`).

Cannot see: a delay that was too short by less than the duration of the send.

Source: ScheduleMessageService of Apache RocketMQ 4.9 (delivers when the store time plus the delay is over; checks every
100 ms).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.rebalances import leader_was_down
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing, queue_of
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, LogKey, MessageEvents
from staticfire.checkers.model.event_times import began_latest

NS_PER_MS = 1_000_000
EARLY = "early_delivery"
REMAINING_TIME = "services.remaining_time"  # a policy
# The tolerance between two times that brokers rounded to whole milliseconds.
CLOCK_ROUGHNESS_NS = 2 * NS_PER_MS


class Stored(NamedTuple):
    """The queue in which a delayed message waited (None: not known), and when the broker can have stored it there."""

    queue: LogKey | None
    earliest_ns: int
    latest_ns: int


def tally_delays(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole delayed messages (partition key: message)."""
    sends = columns.sends
    delayed = sends.where(sends.due_ns != UNKNOWN)
    if not len(delayed):
        return Tally()
    order = np.argsort(delayed.message, kind="stable")
    delayed = delayed.where(order)
    deliveries = columns.deliveries
    nearest = np.searchsorted(delayed.message, deliveries.message)
    nearest[nearest == len(delayed)] = 0
    rows = np.flatnonzero(delayed.message[nearest] == deliveries.message)
    nearest = nearest[rows]
    findings = _early(columns, context, delayed, rows, nearest)
    return Tally.of(findings, delayed=len(delayed), delayed_delivered=len(np.unique(nearest)))


def _early(
    columns: Columns, context: Context, delayed: MessageEvents, rows: Ints, nearest: Ints
) -> Iterator[Finding]:
    deliveries = columns.deliveries
    by_ns = delayed.due_ns[nearest] - began_latest(deliveries, rows)
    for at in np.flatnonzero(by_ns >= NS_PER_MS).tolist():
        row, sent = int(rows[at]), nearest[at]
        queue = queue_of(columns, deliveries, row)
        stored = Stored(queue, int(delayed.invoke_ns[sent]), int(delayed.time_ns[sent]))
        stepped = mistimed(columns, context, row, stored, int(by_ns[at]))
        yield finding_at(
            columns,
            deliveries,
            row,
            anomaly=EARLY,
            judgement=Judgement.ALLOWED if stepped else judge(context.facts.mode, EARLY),
            detail=f"{by_ns[at] / NS_PER_S:.3f} s too early" + (f"; {stepped}" if stepped else ""),
            group=columns.names.groups[deliveries.group[row]],
            at_invocation=True,
        )


def mistimed(
    columns: Columns, context: Context, row: int, stored: Stored, early_ns: int
) -> str | None:
    """Return why a broker may have moved a delayed message too early; None if it cannot have.

    A faithful broker whose clock is set may release a message at any time. A hardened leader that runs notices a step.
    A leader that restarts releases too early if its clock was behind when it stored the message, or is ahead now.

    Args:
        columns: hold the delivery.
        context: of the run.
        row: of the delivery that came too early.
        stored: where and since when the message waited.
        early_ns: how long before its due time the message came.
    """
    facts, deliveries = context.facts, columns.deliveries
    given_ns, moved_ms = int(deliveries.invoke_ns[row]), int(deliveries.stored_ms[row])
    stepped = clock_stepped(context, stored.queue, stored.earliest_ns, given_ns)
    if stepped is None or facts.behaves(REMAINING_TIME):
        return stepped
    brokers = facts.replica_sets if stored.queue is None else (stored.queue.stream,)
    if not any(leader_was_down(context, of, stored.earliest_ns, given_ns) for of in brokers):
        return None
    if facts.wall_epoch_ms is not None and moved_ms != UNKNOWN:
        ahead_ns = (moved_ms - facts.wall_epoch_ms) * NS_PER_MS - given_ns
        was_wrong = clock_stepped(context, *stored)
        if ahead_ns < early_ns - CLOCK_ROUGHNESS_NS and not was_wrong:
            return None
    return f"{stepped} when the leader started anew"


def clock_stepped(
    context: Context, queue: LogKey | None, since_ns: int, until_ns: int
) -> str | None:
    """Return a text if the clock of the queue's broker was wrong in this time, or of any broker without a queue."""
    brokers = context.facts.replica_sets if queue is None else (queue.stream,)
    return clocks_stepped(context, brokers, since_ns, until_ns)


def clocks_stepped(
    context: Context, brokers: Iterable[str], since_ns: int, until_ns: int
) -> str | None:
    """Return a text if the clock of one of the brokers was wrong in this time."""
    for broker in brokers:
        window = context.excuses.find("clock", since_ns, until_ns, broker)
        if window is not None:
            return f"the clock of {', '.join(window.fault.targets)} was wrong"
    return None


DELAYS = Kernel(
    name="delays",
    partition_by="message",
    screened=True,
    anomalies=(EARLY,),
    partial=tally_delays,
    unknown_reason=nothing_missing,
)
