"""Exclusive consumption: in a group with an orderly listener, only one member at a time consumes from a queue.

**two_listeners**: the listeners of two members ran for one queue at the same time.
**overlapping_owners**: a listener received messages of a queue between two calls of another member, which had not given
the queue up. Both members were its owners, although their listeners did not run at the same time.

The lock that a member of such a group holds on the broker must prevent exactly this. So a rebalance is not an excuse,
nor is a member that leaves, dies, is slow or fails. A partition is not an excuse either: a member that cannot renew a
lock relies on it for half as long as its broker keeps it, by monotonic clocks. A fault by which the leader of the queue
forgot its locks is an excuse until the member must know of it (excuse_table.py). In faithful mode more faults are
excuses: RocketMQ takes the ages of locks from wall clocks, its members keep cached messages when they lose a broker,
and when they stop they unlock queues for which their listeners still run. Excused findings are informational. The facts
of a run name the orderly groups.

Cannot see: the end of a listener call that was not recorded, which counts as ended when it began; `overlapping_owners`
of members that do not report the queues that they own; a lock that the broker granted twice, if one of the two holders
received no messages.

Source: RebalanceLockManager and ConsumeMessageOrderlyService of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.rebalances import leader_ended
from staticfire.checkers.engine.kernel import (
    Context,
    Kernel,
    finding_at,
    nothing_missing,
    queue_of,
    rows_by_id,
)
from staticfire.checkers.guarantees.excuses.excuse import Since
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.fault_times import began_ns, healed_ns
from staticfire.checkers.guarantees.promises import Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import Columns, Ints, MessageEvents
from staticfire.checkers.model.timeline import same_stint


def tally_listeners(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: log)."""
    return Tally.of(_findings(columns, context))


def _findings(columns: Columns, context: Context) -> Iterator[Finding]:
    groups = columns.names.groups
    orderly = [number for number, group in enumerate(groups) if group in context.facts.orderly]
    if not orderly:
        return
    delivered = columns.deliveries.where(np.isin(columns.deliveries.group, orderly))
    queues = len(columns.names.logs)
    for _, rows in rows_by_id(delivered.group * queues + delivered.log):
        if np.any(delivered.process[rows] != delivered.process[rows[0]]):
            yield from _of_stream(columns, context, delivered.where(rows))


def _of_stream(columns: Columns, context: Context, delivered: MessageEvents) -> Iterator[Finding]:
    """Judge the deliveries of one queue to one group."""
    delivered = delivered.where(np.lexsort((delivered.op_index, delivered.invoke_index)))
    begun = delivered.invoke_index
    ended, others = _latest_of_others(delivered, delivered.op_index)
    have_met = ended > begun
    for row in np.flatnonzero(have_met).tolist():
        what = "another process had the queue in work"
        yield _finding(columns, context, delivered, (row, int(others[row])), "two_listeners", what)
    kept, others = _latest_of_others(delivered, _kept_until(columns, context, delivered))
    for row in np.flatnonzero((kept > begun) & ~have_met).tolist():
        what = "another process had the queue, and consumed of it before and after"
        pair = (row, int(others[row]))
        yield _finding(columns, context, delivered, pair, "overlapping_owners", what)


def _latest_of_others(delivered: MessageEvents, until: Ints) -> tuple[Ints, Ints]:
    """Return the highest `until` of earlier rows of other processes, and the last row with it; -1 without such a row.

    Both arrays have shape (rows,).
    """
    highest, rows = np.full(len(delivered), -1, np.int64), np.full(len(delivered), -1, np.int64)
    for process in np.unique(delivered.process).tolist():
        others = np.where(delivered.process != process, until, -1)
        so_far = np.maximum.accumulate(others)
        last = np.maximum.accumulate(np.where(others == so_far, np.arange(len(others)), -1))
        mine = np.flatnonzero(delivered.process == process)
        mine = mine[mine > 0]
        highest[mine], rows[mine] = so_far[mine - 1], last[mine - 1]
    return highest, rows


def _kept_until(columns: Columns, context: Context, delivered: MessageEvents) -> Ints:
    """Return the op index of the next call of each row's process, if the process owned the queue until then.

    Otherwise it is the op index of this call. Only consecutive calls are compared, so a queue can be judged in chunks.
    """
    queue = queue_of(columns, delivered, 0)
    group = columns.names.groups[delivered.group[0]]
    until = delivered.invoke_index.copy()
    changes = () if queue is None else context.timeline.ownership.get((group, queue), ())
    for process in np.unique(delivered.process).tolist():
        mine = np.flatnonzero(delivered.process == process)
        begun = until[mine]
        following = np.searchsorted(begun, begun, side="right")
        later = begun[np.minimum(following, len(begun) - 1)]
        own = [change for change in changes if change.process == process]
        until[mine] = np.where(same_stint(begun, later, own), later, begun)
    return until


def _finding(
    columns: Columns,
    context: Context,
    delivered: MessageEvents,
    pair: tuple[int, int],
    anomaly: str,
    what: str,
) -> Finding:
    """Make a finding. `pair`: the row of the call that should not have begun, and that of the other member's call."""
    row, other = pair
    window = _excuse(columns, context, delivered, pair, anomaly)
    return finding_at(
        columns,
        delivered,
        row,
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly) if window is None else Judgement.INFORMATIONAL,
        detail=f"process {delivered.process[row]} was given it while {what}"
        f" (process {delivered.process[other]})" + ("" if window is None else f"; {window.words}"),
        group=columns.names.groups[delivered.group[row]],
        at_invocation=True,
    )


def _excuse(
    columns: Columns,
    context: Context,
    delivered: MessageEvents,
    pair: tuple[int, int],
    anomaly: str,
) -> Window | None:
    """Return the window of a fault by which one of the two members may have lost its lock; None without one."""
    row, other = pair
    queue = queue_of(columns, delivered, row)
    if context.facts.mode != "hardened":
        anomaly = f"faithful {anomaly}"
    broker = None if queue is None else queue.stream

    def counts(window: Window) -> bool:
        """Whether the leader ended during the fault, if the row requires that."""
        times = began_ns(window.fault), healed_ns(window.fault)
        waits = window.excuse.since is Since.LEADER_ENDS
        return not waits or leader_ended(context, broker or "", *times)

    return context.excuses.find(
        anomaly,
        int(delivered.invoke_ns[other]),
        int(delivered.invoke_ns[row]),
        broker,
        map(context.timeline.nodes.get, delivered.process[[row, other]].tolist()),
        counts=counts,
    )


LISTENERS = Kernel(
    name="listeners",
    partition_by="log",
    anomalies=("two_listeners", "overlapping_owners"),
    partial=tally_listeners,
    unknown_reason=nothing_missing,
)
