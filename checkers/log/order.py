"""Order in a queue: each offset has one message, offsets follow real time, and deliveries follow offsets.

**inconsistent_offsets**: two messages were at one (queue, offset). **nonmonotonic_send**: a send that was acknowledged
before the next one of its process began has the higher offset. **realtime_order**: the same across processes, because
appending to one log is linearizable. **out_of_order**: among the first deliveries to a group, one owner receives a
lower offset after a higher one, so 2, 1, 2 is out of order. An owner is a process from one gain of the queue to its
next gain. An assignment that leaves the queue with its process, or that concerns another topic or group, does not end
the ownership. `duplication` judges redeliveries.

After a power loss that may destroy a suffix of the log, the broker uses offsets again. Then the first three are allowed
for messages that the power loss may have destroyed, if it came before the later message was stored.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.message_positions import (
    MessagePositions,
    conflicting,
    placements_of,
)
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.engine.position_index import Streams, index_of, number_runs
from staticfire.checkers.guarantees.promises import NS_PER_S, Damage, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, MessageEvents, Outcome

NOWHERE: Ints = np.zeros(0, np.int64)
BUFFERED_NS = 30 * NS_PER_S  # how long a consumer may buffer a message before it delivers it


def tally_order(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: log)."""
    findings = [
        *_inconsistent_offsets(columns, context),
        *_misordered_sends(columns, context),
        *_misordered_deliveries(columns, context),
    ]
    return Tally.of(findings)


def _inconsistent_offsets(columns: Columns, context: Context) -> Iterator[Finding]:
    positions = _disputed(columns)
    for first, other in zip(*(side.tolist() for side in conflicting(positions)), strict=True):
        events, row = _sighting(columns, positions, other)
        first_key = columns.names.key(int(positions.message[first]))
        yield finding_at(
            columns,
            events,
            row,
            anomaly="inconsistent_offsets",
            judgement=_judge_reuse(columns, context, positions, (first, other)),
            detail=f"the same offset also held key {first_key}",
            other=int(positions.message[first]),
        )


def _disputed(columns: Columns) -> MessagePositions:
    """Return all sends and deliveries at positions that have more than one message, or an unreadable one."""
    index = index_of(columns)
    disputed = np.zeros(index.size, np.bool_)
    disputed[index.send_position[index.conflicting_sends]] = True
    disputed[index.delivery_position[index.conflicting_deliveries]] = True
    if not disputed.any():
        return placements_of(columns, NOWHERE, NOWHERE)
    return placements_of(
        columns,
        np.flatnonzero(disputed[index.send_position]),
        np.flatnonzero(disputed[index.delivery_position]),
    )


def _sighting(columns: Columns, positions: MessagePositions, at: int) -> tuple[MessageEvents, int]:
    events = columns.sends if positions.from_send[at] else columns.deliveries
    return events, int(positions.row[at])


def _judge_reuse(
    columns: Columns, context: Context, positions: MessagePositions, pair: tuple[int, int]
) -> Judgement:
    """Return the judgement of two messages at one offset: the log may have lost one, and the broker used it again."""
    broker = columns.names.logs[int(positions.queue[pair[0]])].stream
    since_ns = min(_stored_since_ns(columns, positions, at) for at in pair)
    until_ns = max(_stored_by_ns(columns, positions, at) for at in pair)
    if any(_is_fragile(columns, positions, at) for at in pair):
        return _judge_fragile(context, broker, since_ns, until_ns)
    return context.promises.rule(broker, since_ns, until_ns).judgement


def _stored_since_ns(columns: Columns, positions: MessagePositions, at: int) -> int:
    events, row = _sighting(columns, positions, at)
    return int(events.invoke_ns[row]) - (0 if positions.from_send[at] else BUFFERED_NS)


def _stored_by_ns(columns: Columns, positions: MessagePositions, at: int) -> int:
    events, row = _sighting(columns, positions, at)
    return int(events.time_ns[row] if positions.from_send[at] else events.invoke_ns[row])


def _is_fragile(columns: Columns, positions: MessagePositions, at: int) -> bool:
    """Whether the only evidence of a message is a weak acknowledgement.

    A delivery counts as an acknowledgement: a broker delivers only messages that are as safe as its profile requires.
    """
    events, row = _sighting(columns, positions, at)
    if events.outcome[row] != Outcome.WEAK:
        return False
    here = (positions.queue == positions.queue[at]) & (positions.offset == positions.offset[at])
    return not np.any(here & (positions.message == positions.message[at]) & ~positions.from_send)


def _judge_fragile(context: Context, broker: str, since_ns: int, until_ns: int) -> Judgement:
    destroyed = context.promises.damaged(
        broker, at_least=Damage.WRITE_ERROR, since_ns=since_ns, until_ns=until_ns
    )
    return Judgement.ALLOWED if destroyed else Judgement.VIOLATION


def _misordered_sends(columns: Columns, context: Context) -> Iterator[Finding]:
    """Compare each send with the highest offset acknowledged before it began."""
    sends = columns.sends
    # The position of a message that its broker first kept elsewhere is not known.
    acked = np.flatnonzero((sends.outcome == Outcome.OK) & (sends.queue_offset != UNKNOWN))
    queue, offset = sends.log[acked], sends.queue_offset[acked]
    if not np.any((offset[1:] <= offset[:-1]) & (queue[1:] == queue[:-1])):
        return  # in each queue, offsets ascend in the order of acknowledgements
    _, starts = number_runs(queue)
    for first, last in zip(starts[:-1].tolist(), starts[1:].tolist(), strict=True):
        of_queue = acked[first:last]
        later, earlier = overtaken_sends(sends, of_queue, offset[first:last])
        for row, before in zip(later.tolist(), earlier.tolist(), strict=True):
            yield _misordered_send(columns, context, before, row)


def overtaken_sends(sends: MessageEvents, rows: Ints, offset: Ints) -> tuple[Ints, Ints]:
    """Find sends that began after the acknowledgement of another send with at least their offset.

    Args:
        sends: the sends.
        rows: acknowledged sends of one queue, in the order of acknowledgements.
        offset: of each of `rows`, same shape.

    Returns:
        The rows of these sends, and for each the row of the send with the highest such offset, same shape.
    """
    highest = np.maximum.accumulate(offset)
    back = 1 + np.flatnonzero(offset[1:] <= highest[:-1])
    finished_before = np.searchsorted(sends.op_index[rows], sends.invoke_index[rows[back]])
    reached = highest[finished_before - 1]
    passed = (finished_before > 0) & (reached >= offset[back])
    return rows[back[passed]], rows[np.searchsorted(highest, reached[passed])]


def _misordered_send(columns: Columns, context: Context, earlier: int, row: int) -> Finding:
    sends = columns.sends
    same = sends.process[earlier] == sends.process[row]
    broker = columns.names.logs[int(sends.log[row])].stream
    return finding_at(
        columns,
        sends,
        row,
        anomaly="nonmonotonic_send" if same else "realtime_order",
        judgement=context.promises.rule(
            broker, int(sends.invoke_ns[earlier]), int(sends.time_ns[row])
        ).judgement,
        detail=(
            f"key {columns.names.key(int(sends.message[earlier]))} was acknowledged at offset "
            f"{sends.queue_offset[earlier]} before this send began"
        ),
        other=int(sends.message[earlier]),
    )


def _misordered_deliveries(columns: Columns, context: Context) -> Iterator[Finding]:
    """Yield findings for first deliveries of a stream that come after a delivery with a higher offset."""
    streams = index_of(columns).streams
    late = streams.late
    if not len(late):
        return
    first = np.ones(len(streams.position), np.bool_)
    first[streams.back] = False
    first[late] = True
    _, cuts = number_runs(streams.number[late])
    for start, end in zip(cuts[:-1].tolist(), cuts[1:].tolist(), strict=True):
        stream = int(streams.number[late[start]])
        begin, stop = streams.starts[stream], streams.starts[stream + 1]
        indices = begin + np.flatnonzero(first[begin:stop])
        yield from _misordered_to_group(columns, context, streams, indices, late[start:end])


def _misordered_to_group(
    columns: Columns, context: Context, streams: Streams, firsts: Ints, late: Ints
) -> Iterator[Finding]:
    """Judge the late ones among the first deliveries of one stream, process by process."""
    process = columns.deliveries.process
    owner_of_late = process[streams.row(late)]
    owner_of_first = process[streams.row(firsts)]
    for owner in np.unique(owner_of_late):
        own = streams.row(firsts[owner_of_first == owner])
        candidates = streams.row(late[owner_of_late == owner])
        yield from _judge_owner(columns, context, own, np.flatnonzero(np.isin(own, candidates)))


def _judge_owner(
    columns: Columns, context: Context, rows: Ints, candidates: Ints
) -> Iterator[Finding]:
    """Report candidates after a higher offset, unless their process gained the queue again in between.

    `rows` are deliveries to one process, in the order of calls; `candidates` are indices in it.
    """
    deliveries = columns.deliveries
    offset, called = deliveries.queue_offset[rows], deliveries.invoke_index[rows]
    group = columns.names.groups[deliveries.group[rows[0]]]
    queue = columns.names.logs[deliveries.log[rows[0]]]
    gains = context.timeline.gains(group, queue, int(deliveries.process[rows[0]]))
    gained = np.array([gain.op_index for gain in gains], np.int64)
    term = np.searchsorted(gained, called, side="right")
    starts = np.searchsorted(term, term[candidates])  # terms ascend with calls
    for start in np.unique(starts):
        of_term = candidates[starts == start]
        highest = np.maximum.accumulate(offset[start : of_term[-1] + 1])
        ahead = start + np.searchsorted(highest, offset[of_term], side="right")
        for at, before in zip(of_term.tolist(), ahead.tolist(), strict=True):
            if before < at:
                yield _out_of_order(columns, context, int(rows[at]), int(rows[before]))


def _out_of_order(columns: Columns, context: Context, row: int, before: int) -> Finding:
    deliveries = columns.deliveries
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly="out_of_order",
        judgement=judge(context.facts.mode, "out_of_order"),
        detail=f"process {deliveries.process[row]} had already been given offset {deliveries.queue_offset[before]}",
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
        other=int(deliveries.message[before]),
    )


ORDER = Kernel(
    name="order",
    partition_by="log",
    anomalies=("inconsistent_offsets", "nonmonotonic_send", "realtime_order", "out_of_order"),
    partial=tally_order,
    unknown_reason=nothing_missing,
)
