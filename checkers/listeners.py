"""Exclusive work on a queue: in a group with an orderly listener one member at a time.

**two_listeners**: the listeners of two members were at work on one queue at the same time. The lock that a member of
such a group holds on the broker is there to prevent exactly this, so no rebalance excuses it; a fault may (a paused
member does not know that its lock has expired). Which groups are orderly is one of the facts of a run.

Cannot see: a listener whose end nobody wrote down; it counts as ended when it was called.

Source: RebalanceLockManager and ConsumeMessageOrderlyService of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.columns import Columns, Ints, Touches
from checkers.kernel import Context, Kernel, finding_at, nothing_missing, rows_by_id
from checkers.promises import Judgement, judge
from checkers.unrest import fault_near
from checkers.verdict import Finding, Tally


def tally_listeners(columns: Columns, context: Context) -> Tally:
    """Judge whole message queues (partition key: queue)."""
    return Tally.of(_two_listeners(columns, context))


def _two_listeners(columns: Columns, context: Context) -> Iterator[Finding]:
    groups = columns.names.groups
    orderly = [number for number, group in enumerate(groups) if group in context.facts.orderly]
    if not orderly:
        return
    delivered = columns.deliveries.where(np.isin(columns.deliveries.group, orderly))
    queues = len(columns.names.queues)
    for _, rows in rows_by_id(delivered.group * queues + delivered.queue):
        yield from _at_once(columns, context, delivered.where(rows))


def _at_once(columns: Columns, context: Context, delivered: Touches) -> Iterator[Finding]:
    """Compare each call of a listener with the one of another process that ended last before it in the queue."""
    order = np.lexsort((delivered.op_index, delivered.invoke_index))
    delivered = delivered.where(order)
    until = _latest_of_others(delivered)
    for row in np.flatnonzero(until > delivered.invoke_index).tolist():
        near = fault_near(
            context.facts.faults, int(delivered.invoke_ns[row]), int(delivered.time_ns[row])
        )
        yield finding_at(
            columns,
            delivered,
            row,
            anomaly="two_listeners",
            judgement=judge(context.facts.mode, "two_listeners")
            if near is None
            else Judgement.INFORMATIONAL,
            detail=f"process {delivered.process[row]} was given it while another process had the queue in work"
            + ("" if near is None else f"; fault {near.fault_id} ({near.kind})"),
            group=columns.names.groups[delivered.group[row]],
            at_invocation=True,
        )


def _latest_of_others(delivered: Touches) -> Ints:
    """For each row: the last op index at which an earlier call of another process ended; shape (rows,)."""
    until = np.full(len(delivered), -1, np.int64)
    for process in np.unique(delivered.process).tolist():
        others = np.where(delivered.process != process, delivered.op_index, -1)
        before = np.concatenate(([-1], np.maximum.accumulate(others)[:-1]))
        mine = delivered.process == process
        until[mine] = before[mine]
    return until


LISTENERS = Kernel(
    name="listeners",
    partition_by="queue",
    anomalies=("two_listeners",),
    partial=tally_listeners,
    unknown_reason=nothing_missing,
)
