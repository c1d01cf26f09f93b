"""Positions in the commit log: each message has only one, and positions follow the order of the queue and the request.

**inconsistent_physical_offset**: one message, at one offset of its queue, was acknowledged or delivered with different
physical offsets. **nonmonotonic_physical_offset**: the later one of two neighbours in a queue is not further up in the
commit log, so the queue goes back in the log, or two messages share a position. **int_nonmonotonic_send**: a broker
stored several messages of one request in a queue, but not in the order of the request.

Neighbours are messages with a known physical offset and no known message between them. `inconsistent_offsets` judges
offsets that have two messages. Replicas hold the same bytes, so it does not matter from which one a consumer read.
After damage that may destroy a suffix of the log, the broker uses positions again. Then the first two are allowed for
messages that the damage may have destroyed, if it happened before the later one was stored.

Cannot see: a message at the position of a message of another queue, if that position is between its own neighbours;
the order of a request without an answer. The messages of one request are the sends of one process that began and ended
together, because a process has one request in flight at a time.

Source: CommitLog.putMessage and putMessages of Apache RocketMQ 4.9, which number and append under one lock; the
`int-nonmonotonic-send` of Jepsen's Kafka workload.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.proven import BUFFERED_NS
from staticfire.checkers.engine.kernel import Context, Kernel, Split, finding_at, nothing_missing
from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.guarantees.promises import Damage, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Chunk,
    Columns,
    Ints,
    Mask,
    MessageEvents,
    Outcome,
)


class Stored(NamedTuple):
    """A message at a position of its queue."""

    events: MessageEvents  # one row: its send, or a delivery
    from_send: bool
    delivered: bool  # a consumer received it from this position

    @property
    def since_ns(self) -> int:
        """The earliest time at which the broker can have stored it."""
        return int(self.events.invoke_ns[0]) - (0 if self.from_send else BUFFERED_NS)

    @property
    def by_ns(self) -> int:
        """The time by which the broker had stored it."""
        return int(self.events.time_ns[0] if self.from_send else self.events.invoke_ns[0])


Pair = tuple[Stored, Stored]  # neighbours of one queue, the lower offset first


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StorageChunk:
    """The lowest and highest messages of a chunk of a queue, whose neighbours are in other chunks."""

    number: int
    stored: tuple[Stored, ...]  # empty, or the first and the last with a physical offset
    # empty, or the first and the last that a broker answered with a position
    sent: tuple[Stored, ...]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class StorageInChunks:
    """The state of some chunks of one queue. `merge` is associative and commutative."""

    tally: Tally
    chunks: tuple[StorageChunk, ...]  # by number

    def merge(self, other: StorageInChunks) -> StorageInChunks:
        chunks = sorted((*self.chunks, *other.chunks), key=lambda chunk: chunk.number)
        return StorageInChunks(tally=self.tally.merge(other.tally), chunks=tuple(chunks))


def tally_storage_order(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: log)."""
    return _tally(columns, context, _Positions(columns))


def scan_storage(columns: Columns, context: Context, chunk: Chunk) -> StorageInChunks:
    """Judge a chunk of a queue, and keep its lowest and highest messages."""
    positions = _Positions(columns)
    stored, sent = np.flatnonzero(positions.stored), np.flatnonzero(positions.sender != UNKNOWN)
    ends = StorageChunk(
        number=chunk.number,
        stored=tuple(positions.stored_at(at) for at in stored[[0, -1]].tolist())
        if len(stored)
        else (),
        sent=tuple(positions.sent_at(at) for at in sent[[0, -1]].tolist()) if len(sent) else (),
    )
    return StorageInChunks(tally=_tally(columns, context, positions), chunks=(ends,))


def conclude_storage(state: StorageInChunks, columns: Columns, context: Context) -> Tally:
    """Judge neighbours in two different chunks. The function reads only the names of `columns`."""
    stored = [chunk.stored for chunk in state.chunks if chunk.stored]
    sent = [chunk.sent for chunk in state.chunks if chunk.sent]
    met = ((lower[1], upper[0]) for lower, upper in pairwise(stored))
    asked = ((lower[1], upper[0]) for lower, upper in pairwise(sent))
    findings = [
        *(_misplaced(columns, context, pair) for pair in met if _goes_back(pair)),
        *(_shuffled(columns, context, pair) for pair in asked if _is_shuffled(pair)),
    ]
    return state.tally.merge(Tally.of(findings))


def _tally(columns: Columns, context: Context, positions: _Positions) -> Tally:
    return Tally.of(
        [
            *(_inconsistent(columns, context, positions, row) for row in positions.contradicting()),
            *(_misplaced(columns, context, pair) for pair in positions.stored_pairs()),
            *(_shuffled(columns, context, pair) for pair in positions.sent_pairs()),
        ]
    )


class _Positions:
    """The messages at each position of some queues; arrays have shape (positions,), sorted by queue and offset."""

    def __init__(self, columns: Columns) -> None:
        self._columns, self._index = columns, index_of(columns)
        index, sends, deliveries = self._index, columns.sends, columns.deliveries
        disputed = np.concatenate(
            (
                index.send_position[index.conflicting_sends],
                index.delivery_position[index.conflicting_deliveries],
            )
        )
        self.physical = np.full(index.size, UNKNOWN, np.int64)
        _fill(self.physical, index.delivery_position, deliveries.position)
        rows = np.flatnonzero(index.placed)
        _fill(self.physical, index.send_position[rows], sends.position[rows])
        self.physical[disputed] = UNKNOWN
        self._others = self._differing()
        # whether its message has exactly one physical offset
        self.stored = self.physical != UNKNOWN
        self.stored[index.delivery_position[self._others]] = False
        rows = rows[sends.outcome[rows] <= Outcome.WEAK]
        self.sender = np.full(index.size, UNKNOWN, np.int64)  # rows of sends
        self.sender[index.send_position[rows]] = rows
        self.sender[disputed] = UNKNOWN

    def _differing(self) -> Ints:
        """Return rows of deliveries whose physical offset differs from the one in `physical`."""
        deliveries = self._columns.deliveries
        there = self.physical[self._index.delivery_position]
        rows = np.flatnonzero(there != deliveries.position)
        known = (there[rows] != UNKNOWN) & (deliveries.position[rows] != UNKNOWN)
        found: Ints = rows[known]
        return found

    def contradicting(self) -> list[int]:
        """Return the row of one delivery from each position that has different physical offsets."""
        _, first = np.unique(self._index.delivery_position[self._others], return_index=True)
        rows: list[int] = self._others[first].tolist()
        return rows

    def stored_at(self, position: int) -> Stored:
        """Return the message at a position for which `stored` is true."""
        deliveries = self._columns.deliveries
        rows = np.flatnonzero(self._index.send_position == position)
        rows = rows[self._index.placed[rows]]
        if len(rows) and self._columns.sends.position[rows[0]] != UNKNOWN:
            return self._sent(int(rows[0]), position)
        rows = np.flatnonzero(self._index.delivery_position == position)
        row = int(rows[deliveries.position[rows] != UNKNOWN][0])
        return Stored(deliveries.row(row), from_send=False, delivered=True)

    def sent_at(self, position: int) -> Stored:
        """Return the send to a position that has a `sender`."""
        return self._sent(int(self.sender[position]), position)

    def _sent(self, row: int, position: int) -> Stored:
        events = self._columns.sends.row(row)
        return Stored(events, from_send=True, delivered=bool(self._index.delivered_at[position]))

    def stored_pairs(self) -> Iterator[Pair]:
        """Yield neighbours of which the later one is not further up in the log."""
        positions = np.flatnonzero(self.stored)
        physical = self.physical[positions]
        for at in np.flatnonzero(physical[1:] <= physical[:-1]).tolist():
            pair = self.stored_at(int(positions[at])), self.stored_at(int(positions[at + 1]))
            if pair[0].events.log[0] == pair[1].events.log[0]:
                yield pair

    def sent_pairs(self) -> Iterator[Pair]:
        """Yield neighbours of one request that are not in the order of the request."""
        sends = self._columns.sends
        positions = np.flatnonzero(self.sender != UNKNOWN)
        rows = self.sender[positions]
        began, process = sends.invoke_index[rows], sends.process[rows]
        back = np.flatnonzero((began[1:] <= began[:-1]) & (process[1:] == process[:-1]))
        shuffled = _are_shuffled(sends.where(rows[back]), sends.where(rows[back + 1]))
        for at in back[shuffled].tolist():
            yield self.sent_at(int(positions[at])), self.sent_at(int(positions[at + 1]))


def _fill(table: Ints, positions: Ints, physical: Ints) -> None:
    known = physical != UNKNOWN
    if known.all():
        table[positions] = physical
    else:
        table[positions[known]] = physical[known]


def _goes_back(pair: Pair) -> bool:
    lower, upper = (of.events for of in pair)
    return bool(upper.position[0] <= lower.position[0])


def _is_shuffled(pair: Pair) -> bool:
    lower, upper = (of.events for of in pair)
    return bool(_are_shuffled(lower, upper)[0])


def _are_shuffled(lower: MessageEvents, upper: MessageEvents) -> Mask:
    """Whether both are of one request, in which the later one in the queue comes first; shape (sends,)."""
    together = lower.log == upper.log
    for name in ("process", "invoke_ns", "time_ns"):
        together &= getattr(lower, name) == getattr(upper, name)
    met = (upper.op_index > lower.invoke_index) | (upper.op_index == lower.op_index)
    found: Mask = together & np.where(
        upper.invoke_index == lower.invoke_index,
        upper.message < lower.message,  # one op, whose messages have keys in their order
        met & (upper.invoke_index < lower.invoke_index),
    )
    return found


def _inconsistent(columns: Columns, context: Context, positions: _Positions, row: int) -> Finding:
    deliveries = columns.deliveries
    position = int(index_of(columns).delivery_position[row])
    known = int(positions.physical[position])
    given = deliveries.row(row)
    stored = Stored(given, from_send=False, delivered=True)
    return finding_at(
        columns,
        given,
        0,
        anomaly="inconsistent_physical_offset",
        judgement=_judge(columns, context, (stored, stored)),
        detail=f"the same message, at the same offset, was also at physical offset {known}",
        group=columns.names.groups[given.group[0]],
        at_invocation=True,
    )


def _misplaced(columns: Columns, context: Context, pair: Pair) -> Finding:
    lower, upper = pair
    return finding_at(
        columns,
        upper.events,
        0,
        anomaly="nonmonotonic_physical_offset",
        judgement=_judge(columns, context, pair),
        detail=(
            f"key {columns.names.key(int(lower.events.message[0]))}, at offset "
            f"{lower.events.queue_offset[0]}, lies at physical offset {lower.events.position[0]}"
        ),
        at_invocation=not upper.from_send,
        other=int(lower.events.message[0]),
    )


def _shuffled(columns: Columns, context: Context, pair: Pair) -> Finding:
    lower, upper = (of.events for of in pair)
    return finding_at(
        columns,
        upper,
        0,
        anomaly="int_nonmonotonic_send",
        judgement=judge(context.facts.mode, "int_nonmonotonic_send"),
        detail=(
            f"in its request it was before key {columns.names.key(int(lower.message[0]))}, which got offset "
            f"{lower.queue_offset[0]}"
        ),
        other=int(lower.message[0]),
    )


def _judge(columns: Columns, context: Context, pair: Pair) -> Judgement:
    """Return the judgement of a pair: allowed if the log may have lost one, so that the broker used positions again."""
    broker = columns.names.logs[int(pair[0].events.log[0])].stream
    since_ns, until_ns = min(of.since_ns for of in pair), max(of.by_ns for of in pair)
    if any(_is_fragile(stored) for stored in pair):
        destroyed = context.promises.damaged(
            broker, at_least=Damage.WRITE_ERROR, since_ns=since_ns, until_ns=until_ns
        )
        return Judgement.ALLOWED if destroyed else Judgement.VIOLATION
    promises = context.promises
    if not all(stored.from_send for stored in pair):
        promises = promises.visible
    return promises.rule(broker, since_ns, until_ns).judgement


def _is_fragile(stored: Stored) -> bool:
    """Whether the only evidence of the message is an acknowledgement with a weak status, which promises nothing."""
    is_acked = stored.from_send and stored.events.outcome[0] == Outcome.OK
    return not is_acked and not stored.delivered


STORAGE_ORDER = Kernel(
    name="storage_order",
    partition_by="log",
    anomalies=(
        "inconsistent_physical_offset",
        "nonmonotonic_physical_offset",
        "int_nonmonotonic_send",
    ),
    partial=tally_storage_order,
    unknown_reason=nothing_missing,
    split=Split(scan_storage, conclude_storage),
)
