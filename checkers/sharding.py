"""Order by sharding key: the same key, the same queue; and an orderly group finishes one before it begins the next.

**overtaken**: an orderly group began to consume a message, successfully and for the first time, before it had finished
one that is before it in the queue: a listener that fails holds up its queue, and whoever takes the queue over goes on
where the other one stopped. Allowed where the log may have lost a suffix, whose offsets are used again.
**key_moved**: messages of one sharding key were acknowledged by different queues, so nothing orders them any more;
allowed after the topic got more queues, and where a producer was started, maybe while a broker was away.

Together with the order within a queue (`order`) the two mean: messages of one key are consumed in the order in which
they were acknowledged. Cannot see: the order of messages that nobody acknowledged, and messages that are never consumed
(`loss`).

Source: SelectMessageQueueByHash and ConsumeMessageOrderlyService of Apache RocketMQ 4.9. RocketMQ moves keys while a
master is away, this client does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Outcome, Touches
from checkers.kernel import Checker, Context, Kernel, finding_at, nothing_missing, rows_by_id
from checkers.promises import Judgement, judge
from checkers.verdict import Finding, Tally, Verdict


def tally_orderly(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: queue)."""
    groups, deliveries = columns.names.groups, columns.deliveries
    orderly = [groups.index(group) for group in context.facts.orderly if group in groups]
    if not orderly:
        return Tally()
    rows = np.flatnonzero(
        np.isin(deliveries.group, orderly)
        & (deliveries.outcome == Outcome.OK)
        & ~columns.names.internal_topic[deliveries.topic]
    )
    findings: list[Finding] = []
    stream = deliveries.queue[rows] * len(groups) + deliveries.group[rows]
    for _, of_stream in rows_by_id(stream):
        findings.extend(_overtaken(columns, context, rows[of_stream]))
    return Tally.of(findings, consumed_in_order=len(rows))


def _overtaken(columns: Columns, context: Context, rows: Ints) -> Iterator[Finding]:
    """Judge what one group consumed of one queue: when each place was finished first, in the order of places."""
    deliveries = columns.deliveries
    order = np.lexsort((deliveries.op_index[rows], deliveries.queue_offset[rows]))
    rows = rows[order]
    rows = rows[np.diff(deliveries.queue_offset[rows], prepend=-1) != 0]
    ended = deliveries.op_index[rows]
    latest = np.maximum.accumulate(ended)
    before = np.concatenate(([-1], latest[:-1]))
    late = (deliveries.invoke_index[rows] < before) & (before != ended)
    for at in np.flatnonzero(late).tolist():
        held_up = int(rows[np.flatnonzero(ended[:at] == before[at])[-1]])
        yield _overtaking(columns, context, int(rows[at]), held_up)


def _overtaking(columns: Columns, context: Context, row: int, held_up: int) -> Finding:
    deliveries = columns.deliveries
    broker = columns.names.queues[int(deliveries.queue[row])].broker
    rule = context.promises.rule(broker, _sent_ns(columns, row, held_up))
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly="overtaken",
        judgement=rule.judgement,
        detail=(
            f"began before offset {deliveries.queue_offset[held_up]} (key "
            f"{columns.names.key(int(deliveries.message[held_up]))}) was consumed"
        ),
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
    )


def _sent_ns(columns: Columns, *rows: int) -> int:
    """When the first of some delivered messages was sent, or else delivered."""
    deliveries, sends = columns.deliveries, columns.sends
    sent = np.isin(sends.message, deliveries.message[list(rows)])
    return int(min(deliveries.invoke_ns[list(rows)].min(), *sends.invoke_ns[sent].tolist()))


def check_keys(columns: Columns, context: Context) -> Verdict:
    """Compare the queues of all messages of each sharding key."""
    sends = columns.sends
    keyed = sends.where((sends.sharding_key != UNKNOWN) & (sends.outcome == Outcome.OK))
    findings = list(_moved(columns, context, keyed))
    tally = Tally.of(findings, sharding_keys=len(np.unique(keyed.sharding_key)))
    return Verdict(
        checker="sharding_keys",
        valid="key_moved" not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _moved(columns: Columns, context: Context, keyed: Touches) -> Iterator[Finding]:
    for _, rows in rows_by_id(keyed.sharding_key):
        of_key = keyed.where(rows[np.argsort(keyed.op_index[rows], kind="stable")])
        for row in (1 + np.flatnonzero(np.diff(of_key.queue) != 0)).tolist():
            excuse = _excuse(context, int(of_key.time_ns[row]))
            before = columns.names.queues[int(of_key.queue[row - 1])]
            key = columns.names.sharding_keys[int(of_key.sharding_key[row])]
            yield finding_at(
                columns,
                of_key,
                row,
                anomaly="key_moved",
                judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, "key_moved"),
                detail=f"sharding key {key} was in queue {before.queue} of {before.broker}{excuse}",
            )


def _excuse(context: Context, time_ns: int) -> str:
    """Why not all producers may have seen the same queues by then; empty when all must have."""
    for fault in context.facts.faults:
        fired = fault.fired_ns is not None and fault.fired_ns <= time_ns
        if fired and fault.kind == "topic_change":
            return "; the topic got more queues"
        if fired and fault.kind in RESTARTS_PRODUCERS:
            return f"; fault {fault.fault_id} ({fault.kind}): a producer began with the queues of that time"
    return ""


# A producer that is started while a broker is away does not know the queues of that one, nor of one that never returns.
RESTARTS_PRODUCERS = frozenset({"client_crash", "split_name_servers", "disk_lost"})

ORDERLY = Kernel(
    name="orderly",
    partition_by="queue",
    anomalies=("overtaken",),
    partial=tally_orderly,
    unknown_reason=nothing_missing,
)
SHARDING_KEYS = Checker(
    name="sharding_keys",
    anomalies=("key_moved",),
    check=check_keys,
    applies=lambda context: bool(context.facts.orderly),
)
