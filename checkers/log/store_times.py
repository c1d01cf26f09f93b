"""Store times in a queue: a broker stamps and appends a message under one lock, so store times ascend with the offset.

**nonmonotonic_store_time**: the store time of a message is before that of the message below it in its queue. The two
are neighbours: both were delivered with a store time, and no such message is between them. A hardened broker never
gives a message an earlier time than the previous one, even if its clock goes back. RocketMQ stores the time that its
clock shows. So in faithful mode the checker skips messages that were delivered after a fault that bit had set the wall
clock of a replica of the broker wrong. It also skips an offset that was delivered with several store times
(`store_time_changed`, `inconsistent_offsets`). Allowed after damage that may destroy a suffix of the log, because the
broker then uses offsets again, and the message below may be the newer one.

Searches by time depend on these times.

Cannot see: contents that a client does not report.

Source: CommitLog.asyncPutMessage of Apache RocketMQ 4.9, which sets the store timestamp while it holds the lock.
"""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from staticfire.checkers.derived.proven import BUFFERED_NS
from staticfire.checkers.derived.wall_clocks import brokers_stepped_ns
from staticfire.checkers.engine.kernel import Context, Kernel, Split, finding_at, nothing_missing
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Chunk, Columns, Ints, MessageEvents

ANOMALY = "nonmonotonic_store_time"


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedChunk:
    """The lowest and highest messages of a chunk of a queue, whose neighbours are in other chunks."""

    number: int
    ends: tuple[MessageEvents, ...]  # empty, or the first and the last, each as one row


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class TimedInChunks:
    """The state of some chunks of one queue. `merge` is associative and commutative."""

    tally: Tally
    chunks: tuple[TimedChunk, ...]  # by number

    def merge(self, other: TimedInChunks) -> TimedInChunks:
        chunks = sorted((*self.chunks, *other.chunks), key=lambda chunk: chunk.number)
        return TimedInChunks(tally=self.tally.merge(other.tally), chunks=tuple(chunks))


def tally_store_times(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: log)."""
    given, rows = columns.deliveries, _timed(columns, context)
    log, stored_ms = given.log[rows], given.stored_ms[rows]
    back = np.flatnonzero((log[1:] == log[:-1]) & (stored_ms[1:] < stored_ms[:-1]))
    pairs = ((_at(given, rows[at]), _at(given, rows[at + 1])) for at in back.tolist())
    return Tally.of(_finding(columns, context, *pair) for pair in pairs)


def scan_store_times(columns: Columns, context: Context, chunk: Chunk) -> TimedInChunks:
    """Judge a chunk of a queue, and keep its lowest and highest messages."""
    rows = _timed(columns, context)
    ends = tuple(_at(columns.deliveries, row) for row in rows[[0, -1]]) if len(rows) else ()
    timed = TimedChunk(number=chunk.number, ends=ends)
    return TimedInChunks(tally=tally_store_times(columns, context), chunks=(timed,))


def conclude_store_times(state: TimedInChunks, columns: Columns, context: Context) -> Tally:
    """Judge neighbours in two different chunks. The function reads only the names of `columns`."""
    ends = [chunk.ends for chunk in state.chunks if chunk.ends]
    met = ((lower[1], upper[0]) for lower, upper in pairwise(ends))
    findings = [
        _finding(columns, context, lower, upper)
        for lower, upper in met
        if upper.stored_ms[0] < lower.stored_ms[0]
    ]
    return state.tally.merge(Tally.of(findings))


def _timed(columns: Columns, context: Context) -> Ints:
    """Return one row of deliveries for each offset with only one store time, sorted by queue and offset."""
    given = columns.deliveries
    known = (given.stored_ms != UNKNOWN) & (given.queue_offset != UNKNOWN)
    if context.facts.mode == "faithful":
        stepped_ns = brokers_stepped_ns(columns, context)[columns.names.stream_of_log[given.log]]
        known &= given.invoke_ns < stepped_ns
    rows = np.flatnonzero(known)
    rows = rows[np.lexsort((given.op_index[rows], given.queue_offset[rows], given.log[rows]))]
    log, offset = given.log[rows], given.queue_offset[rows]
    is_first = np.ones(len(rows), np.bool_)
    is_first[1:] = (log[1:] != log[:-1]) | (offset[1:] != offset[:-1])
    group = np.cumsum(is_first) - 1
    stored_ms = given.stored_ms[rows]
    disputed = np.unique(group[stored_ms != stored_ms[is_first][group]])
    found: Ints = rows[is_first & ~np.isin(group, disputed)]
    return found


def _at(given: MessageEvents, row: int) -> MessageEvents:
    return given.row(int(row))


def _finding(
    columns: Columns, context: Context, lower: MessageEvents, upper: MessageEvents
) -> Finding:
    """Make the finding of two neighbours, of one row each."""
    broker = columns.names.logs[int(lower.log[0])].stream
    times_ns = [int(of.invoke_ns[0]) for of in (lower, upper)]
    rule = context.promises.visible.rule(broker, min(times_ns) - BUFFERED_NS, max(times_ns))
    return finding_at(
        columns,
        upper,
        0,
        anomaly=ANOMALY,
        judgement=rule.judgement,
        detail=(
            f"stored {lower.stored_ms[0] - upper.stored_ms[0]} ms before key "
            f"{columns.names.key(int(lower.message[0]))}, which lies below it, at offset "
            f"{lower.queue_offset[0]}"
        ),
        group=columns.names.groups[upper.group[0]],
        at_invocation=True,
        other=int(lower.message[0]),
    )


STORE_TIMES = Kernel(
    name="store_times",
    partition_by="log",
    anomalies=(ANOMALY,),
    partial=tally_store_times,
    unknown_reason=nothing_missing,
    split=Split(scan_store_times, conclude_store_times),
)
