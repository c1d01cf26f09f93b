"""Order in a message queue: offsets name one message each, follow real time, and are delivered in turn.

**inconsistent_offsets**: two messages at one (queue, offset). **nonmonotonic_send**: a process's send
that was acknowledged before its next one began has the higher offset. **realtime_order**: the same
across processes: appending to one log is linearizable. **out_of_order**: among first deliveries to a
group, one owner (a process between two of its assignments) gets a lower offset after a higher one; so
2, 1, 2 is out of order. Redeliveries are the duplication checker's business.

After a power loss that may cost a suffix of the log, offsets are used again: then the first two are
allowed for messages that were exposed to it.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator

import numpy as np

from checkers.columns import Columns, Ints, Outcome, Touches
from checkers.kernel import Context, Kernel, finding_at, nothing_missing, rows_by_id
from checkers.placements import Placements, conflicting, first_at, place_ids, placements_of
from checkers.promises import FOREVER_NS, NS_PER_S, Damage, Judgement, judge
from checkers.verdict import Finding, Tally

BUFFERED_NS = 30 * NS_PER_S  # how long a consumer may sit on a message before it delivers it


def tally_order(columns: Columns, context: Context) -> Tally:
    """Judge whole message queues (partition key: queue)."""
    findings = [
        *_inconsistent_offsets(columns, context),
        *_misordered_sends(columns, context),
        *_misordered_deliveries(columns, context),
    ]
    return Tally.of(findings)


def _inconsistent_offsets(columns: Columns, context: Context) -> Iterator[Finding]:
    places = placements_of(columns)
    for first, other in zip(*(side.tolist() for side in conflicting(places)), strict=True):
        touches, row = _sighting(columns, places, other)
        first_key = columns.names.key(int(places.message[first]))
        yield finding_at(
            columns,
            touches,
            row,
            anomaly="inconsistent_offsets",
            judgement=_judge_reuse(columns, context, places, (first, other)),
            detail=f"the same offset also held key {first_key}",
        )


def _sighting(columns: Columns, places: Placements, at: int) -> tuple[Touches, int]:
    touches = columns.sends if places.from_send[at] else columns.deliveries
    return touches, int(places.row[at])


def _judge_reuse(
    columns: Columns, context: Context, places: Placements, pair: tuple[int, int]
) -> Judgement:
    """Whether the log may have lost one of two messages, so that its offset was used again."""
    broker = columns.names.queues[int(places.queue[pair[0]])].broker
    since_ns = min(_stored_since_ns(columns, places, at) for at in pair)
    if any(_is_fragile(columns, places, at) for at in pair):
        return _judge_fragile(context, broker, since_ns)
    return context.promises.rule(broker, since_ns).judgement


def _stored_since_ns(columns: Columns, places: Placements, at: int) -> int:
    touches, row = _sighting(columns, places, at)
    return int(touches.invoke_ns[row]) - (0 if places.from_send[at] else BUFFERED_NS)


def _is_fragile(columns: Columns, places: Placements, at: int) -> bool:
    """Whether the sighting is only a weak acknowledgement.

    A broker delivers only what is as safe as it will ever be: delivered counts as acknowledged.
    """
    touches, row = _sighting(columns, places, at)
    if touches.outcome[row] != Outcome.WEAK:
        return False
    here = (places.queue == places.queue[at]) & (places.offset == places.offset[at])
    return not np.any(here & (places.message == places.message[at]) & ~places.from_send)


def _judge_fragile(context: Context, broker: str, since_ns: int) -> Judgement:
    destroyed = context.promises.damaged(
        broker, at_least=Damage.WRITE_ERROR, since_ns=since_ns, until_ns=FOREVER_NS
    )
    return Judgement.ALLOWED if destroyed else Judgement.VIOLATION


def _misordered_sends(columns: Columns, context: Context) -> Iterator[Finding]:
    sends = columns.sends
    acked = sends.where(sends.outcome == Outcome.OK)
    for _, rows in rows_by_id(acked.queue):
        yield from _misordered_in_queue(columns, context, acked.where(rows))


def _misordered_in_queue(columns: Columns, context: Context, acked: Touches) -> Iterator[Finding]:
    """Compare each send with the highest offset acknowledged before it began."""
    acked = acked.where(np.argsort(acked.op_index, kind="stable"))
    finished_before = np.searchsorted(acked.op_index, acked.invoke_index)  # how many
    highest_row = _running_argmax(acked.queue_offset)[finished_before - 1]
    behind = acked.queue_offset[highest_row] >= acked.queue_offset
    for row in np.flatnonzero(behind & (finished_before > 0)).tolist():
        yield _misordered_send(columns, context, acked, int(highest_row[row]), row)


def _misordered_send(
    columns: Columns, context: Context, acked: Touches, earlier: int, row: int
) -> Finding:
    same = acked.process[earlier] == acked.process[row]
    broker = columns.names.queues[int(acked.queue[row])].broker
    return finding_at(
        columns,
        acked,
        row,
        anomaly="nonmonotonic_send" if same else "realtime_order",
        judgement=context.promises.rule(broker, int(acked.invoke_ns[earlier])).judgement,
        detail=(
            f"key {columns.names.key(int(acked.message[earlier]))} was acknowledged at offset "
            f"{acked.queue_offset[earlier]} before this send began"
        ),
    )


def _running_argmax(values: Ints) -> Ints:
    """Return for each position where the maximum so far first occurred, shape of `values`."""
    highest = np.maximum.accumulate(values)
    rises = np.concatenate(([True], highest[1:] > highest[:-1]))[: len(values)]
    return np.maximum.accumulate(np.where(rises, np.arange(len(values)), 0))


def _misordered_deliveries(columns: Columns, context: Context) -> Iterator[Finding]:
    deliveries = columns.deliveries
    queues = len(columns.names.queues)
    for _, rows in rows_by_id(deliveries.group * queues + deliveries.queue):
        yield from _misordered_to_group(columns, context, deliveries.where(rows))


def _misordered_to_group(
    columns: Columns, context: Context, delivered: Touches
) -> Iterator[Finding]:
    """Judge the deliveries of one queue to one group."""
    delivered = delivered.where(np.argsort(delivered.invoke_index, kind="stable"))
    ids = place_ids(np.zeros(len(delivered), np.int64), delivered.queue_offset)
    firsts = delivered.where(first_at(ids) == np.arange(len(ids)))
    for _, rows in rows_by_id(firsts.process):
        offsets = firsts.queue_offset[rows]
        suspects = np.flatnonzero(offsets < np.maximum.accumulate(offsets))
        if len(suspects):
            yield from _judge_owner(columns, context, firsts.where(rows), suspects.tolist())


def _judge_owner(
    columns: Columns, context: Context, firsts: Touches, suspects: list[int]
) -> Iterator[Finding]:
    """Drop suspects whose owner was assigned anew since the higher offset; report the others."""
    assigned = context.timeline.assignments.get(int(firsts.process[0]), ())
    owned = np.array([bisect_right(assigned, at) for at in firsts.invoke_index.tolist()])
    for row in suspects:
        offset = firsts.queue_offset[row]
        ahead = np.flatnonzero((firsts.queue_offset[:row] > offset) & (owned[:row] == owned[row]))
        if len(ahead):
            yield finding_at(
                columns,
                firsts,
                row,
                anomaly="out_of_order",
                judgement=judge(context.facts.mode, "out_of_order"),
                detail=(
                    f"process {firsts.process[row]} had already been given offset "
                    f"{firsts.queue_offset[ahead[0]]}"
                ),
                group=columns.names.groups[firsts.group[row]],
                at_invocation=True,
            )


ORDER = Kernel(
    name="order",
    partition_by="queue",
    anomalies=("inconsistent_offsets", "nonmonotonic_send", "realtime_order", "out_of_order"),
    partial=tally_order,
    unknown_reason=nothing_missing,
)
