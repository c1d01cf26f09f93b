"""Order of delayed messages: the messages of one level stay in the order of their sends.

**delayed_out_of_order**: a broker acknowledged a delayed message before the send of another one with the same delay to
the same queue began, and the earlier message is behind the later one in that queue. The broker keeps all messages of a
delay level in one queue, and moves them to their own queues from its head. A broker that restarts may move some of them
again, so the lowest offset of each message counts. Allowed if the log may have lost a suffix, because the broker then
uses those offsets again, and if the disk changed the record of the earlier message, because the broker then delivers it
once more.

Cannot see: messages that no group received; sends that overlap in time.

Source: ScheduleMessageService of Apache RocketMQ 4.9 (DeliverDelayedMessageTimerTask stops at the first message that is
not due or that cannot be stored).
"""

from __future__ import annotations

import numpy as np

from staticfire.checkers.engine.kernel import Checker, Context, finding_at, rows_by_id, some_rows
from staticfire.checkers.engine.screening import with_deliveries
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.log.order import overtaken_sends
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, MessageEvents, Outcome
from staticfire.checkers.model.message_ids import dense_numbers

ANOMALY = "delayed_out_of_order"


def delayed_sends(columns: Columns, _context: Context) -> Columns:
    """Select acknowledged delayed messages."""
    sends = columns.sends
    delayed = (sends.due_ns != UNKNOWN) & (sends.outcome == Outcome.OK)
    return some_rows(columns, sends=np.flatnonzero(delayed))


def delayed_deliveries(columns: Columns, context: Context, gathered: Columns) -> Columns:
    """Select the same sends and their deliveries; `gathered` has the `delayed_sends` of all queues."""
    return with_deliveries(delayed_sends(columns, context), columns, gathered.sends.message)


def check_delayed_order(columns: Columns, context: Context) -> Verdict:
    """Compare the lowest offsets of delayed messages with the order of their sends."""
    sends = delayed_sends(columns, context).sends
    first = _first_deliveries(sends, columns.deliveries)
    is_given = first != UNKNOWN
    sends, first = sends.where(is_given), first[is_given]
    lowest = columns.deliveries.queue_offset[first]
    findings: list[Finding] = []
    delays_ns, delay = np.unique(sends.due_ns - sends.invoke_ns, return_inverse=True)
    for _, rows in rows_by_id(sends.log * max(len(delays_ns), 1) + delay):
        rows = rows[np.argsort(sends.op_index[rows], kind="stable")]
        later, earlier = overtaken_sends(sends, rows, lowest[rows])
        pairs = zip(later.tolist(), earlier.tolist(), strict=True)
        findings.extend(_overtaking(columns, context, sends, first, pair) for pair in pairs)
    tally = Tally.of(findings, delayed_in_order=len(sends))
    return Verdict(
        checker="delayed_order",
        valid=ANOMALY not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _first_deliveries(sends: MessageEvents, deliveries: MessageEvents) -> Ints:
    """Return the row of each send's delivery from the lowest offset of its queue, shape (sends,); UNKNOWN if none."""
    size, (sent, got) = dense_numbers(sends.message, deliveries.message)
    queue_of = np.full(size + 1, UNKNOWN, np.int64)
    queue_of[sent] = sends.log
    rows = np.flatnonzero((got != UNKNOWN) & (queue_of[got] == deliveries.log))
    rows = rows[np.lexsort((deliveries.queue_offset[rows], got[rows]))]
    numbers, lowest = np.unique(got[rows], return_index=True)
    first = np.full(size + 1, UNKNOWN, np.int64)
    first[numbers] = rows[lowest]
    of_sends: Ints = first[sent]
    return of_sends


def _overtaking(
    columns: Columns, context: Context, sends: MessageEvents, first: Ints, pair: tuple[int, int]
) -> Finding:
    later, earlier = pair
    deliveries = columns.deliveries
    row, behind = int(first[later]), int(first[earlier])
    broker = columns.names.logs[int(sends.log[later])].stream
    key = columns.names.key(int(sends.message[earlier]))
    rule = context.promises.visible.rule(
        broker,
        int(sends.invoke_ns[earlier]),
        int(deliveries.invoke_ns[[row, behind]].max()),
        key=key,
    )
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly=ANOMALY,
        judgement=rule.judgement,
        detail=(
            f"key {key}, with the same delay, was acknowledged before this message was sent, and lies behind it, at "
            f"offset {deliveries.queue_offset[behind]}"
        ),
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
        other=int(sends.message[earlier]),
    )


DELAYED_ORDER = Checker(
    name="delayed_order",
    anomalies=(ANOMALY,),
    check=check_delayed_order,
    rows=delayed_sends,
    rows_again=delayed_deliveries,
)
