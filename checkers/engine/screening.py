"""The screening pass over whole queues: it clears messages, and names the others as candidates.

A message is *cleared* if all of this is true: it has one acknowledged send, and no other send has the same position.
Every delivery from this position is this message with an intact body. No group received it twice or after a higher
offset. Its topic is that of its queue. Every group that wants it has consumed it or has not reached it yet. The broker
did not hold it back (no delay, no transaction).

A send that no broker answered, or that failed, is also cleared if no member received its message.

A kernel that judges message by message only counts cleared messages. Every other message is a candidate, and the
screened kernels get all events of candidates, in all queues.

A cleared message may also appear in another queue, where it is a candidate. Then the exact pass corrects its counts
here (`checkers/engine/engine.py`). The screening relies on one rule that every writer of histories keeps: a key is sent
only once.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from staticfire.checkers.engine.kernel import Context, ScreenedCounts
from staticfire.checkers.engine.position_index import PositionIndex, index_of
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    Mask,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.message_ids import PROCESS_SHIFT

# slots of the table that decides most messages without a binary search; a power of two
SIEVE = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class Candidates:
    """The messages of some whole queues that the screening does not clear."""

    bad_position: Mask  # shape (positions,)
    messages: Ints  # ids, sorted and distinct; UNKNOWN stands for bodies without a readable key
    pending: Ints  # rows of sends that are pending, including those of candidates

    def of_sends(self, columns: Columns) -> Mask:
        """Whether the message of each send is a candidate, shape (sends,)."""
        return is_among(columns.sends.message, self.messages)


def candidates_of(columns: Columns, context: Context) -> Candidates:
    """Find the messages of whole queues that cannot be cleared."""
    index = index_of(columns)
    bad = np.zeros(index.size, np.bool_)
    bad[index.send_position[_odd_sends(columns, index)]] = True
    bad[index.delivery_position[_odd_deliveries(columns, index)]] = True
    streams = index.streams
    bad[streams.position[streams.back]] = True
    missed, pending = _not_consumed(columns, context, index, bad)
    bad[index.send_position[missed]] = True
    messages = _messages_at(columns, index, bad)
    return Candidates(bad_position=bad, messages=messages, pending=pending)


def widened(columns: Columns, candidates: Candidates, more: Ints) -> Candidates:
    """Return the candidates with more messages (ids), and with all positions to which candidates were sent."""
    index = index_of(columns)
    messages = np.union1d(candidates.messages, more)
    bad = candidates.bad_position.copy()
    bad[index.send_position[is_among(columns.sends.message, messages) & index.placed]] = True
    return Candidates(bad_position=bad, messages=messages, pending=candidates.pending)


def screened_out(columns: Columns, candidates: Candidates) -> ScreenedCounts:
    """Count the messages that are not candidates. `candidates` must come from `widened`."""
    index = index_of(columns)
    sends = columns.sends
    is_candidate = candidates.of_sends(columns)
    cleared = np.flatnonzero(~is_candidate & (sends.outcome == Outcome.OK))
    clean = ~candidates.bad_position[index.delivery_position]
    identified = columns.deliveries.message_id != UNKNOWN
    return ScreenedCounts(
        sends=np.bincount(sends.outcome[~is_candidate], minlength=len(Outcome)),
        deliveries=int(np.count_nonzero(clean)),
        identified=int(np.count_nonzero(clean & identified)),
        delivered=int(np.count_nonzero(index.delivered_at[index.send_position[cleared]])),
        pending=int(np.count_nonzero(~is_candidate[candidates.pending])),
    )


def with_deliveries(chosen: Columns, columns: Columns, messages: Ints) -> Columns:
    """Replace the deliveries in `chosen` by those of `messages` in `columns`; ids in any order, with repeats."""
    theirs = is_among(columns.deliveries.message, np.unique(messages))
    return replace(chosen, deliveries=columns.deliveries.where(theirs))


def is_among(messages: Ints, chosen: Ints) -> Mask:
    """Whether each of `messages` is in `chosen`, which is sorted; shape of `messages`."""
    if not len(chosen):
        return np.zeros(len(messages), np.bool_)
    if len(messages) <= SIEVE >> 6:  # making the sieve would take longer
        return _found(messages, chosen)
    sieve = np.zeros(SIEVE, np.bool_)
    sieve[_sieve_position(chosen)] = True
    maybe = np.flatnonzero(sieve[_sieve_position(messages)])
    among = np.zeros(len(messages), np.bool_)
    among[maybe] = _found(messages[maybe], chosen)
    return among


def _found(messages: Ints, chosen: Ints) -> Mask:
    at = np.searchsorted(chosen, messages)
    at[at == len(chosen)] = 0
    found: Mask = chosen[at] == messages
    return found


def _sieve_position(messages: Ints) -> Ints:
    """Return a hash below SIEVE of each id, from the low bits of its number and of its process."""
    position: Ints = (messages ^ (messages >> (PROCESS_SHIFT - 8))) & (SIEVE - 1)
    return position


def _odd_sends(columns: Columns, index: PositionIndex) -> Ints:
    """Return rows of sends with a known position whose position cannot be cleared.

    Another send has it, its send was not acknowledged, its queue is of another topic, or the broker held the message
    back.
    """
    sends = columns.sends
    rows = np.flatnonzero(index.placed)
    position = index.send_position[rows]
    last = np.full(index.size, UNKNOWN, np.int64)
    last[position] = rows
    odd = (last[position] != rows) | (sends.outcome[rows] != Outcome.OK)
    odd |= columns.names.topic_of_log[sends.log[rows]] != sends.topic[rows]
    odd |= _is_special(sends)[rows]
    found: Ints = rows[odd]
    return found


def _is_special(sends: MessageEvents) -> Mask:
    """Whether the broker first held each message back (a delay or a transaction), shape (sends,)."""
    special: Mask = (sends.due_ns != UNKNOWN) | (sends.transaction != Transaction.NONE)
    return special


def _odd_deliveries(columns: Columns, index: PositionIndex) -> Ints:
    """Return rows of deliveries that are not an intact copy of the message sent to their position and topic."""
    deliveries = columns.deliveries
    sent_to = np.zeros(index.size, np.bool_)
    sent_to[index.send_position[index.placed]] = True
    odd = ~sent_to[index.delivery_position] | ~deliveries.body_ok
    odd |= deliveries.message == UNKNOWN
    odd |= columns.names.topic_of_log[deliveries.log] != deliveries.topic
    odd[index.conflicting_deliveries] = True
    return np.flatnonzero(odd)


def _not_consumed(
    columns: Columns, context: Context, index: PositionIndex, bad: Mask
) -> tuple[Ints, Ints]:
    """Return rows of sends that a group missed, and of those that a group has not reached yet."""
    sends = columns.sends
    acked = (sends.outcome == Outcome.OK) & index.placed
    rows = np.flatnonzero(acked & ~bad[index.send_position])
    if not context.facts.wanted_tags:
        wanting = _Wanting(columns, context)
        consumed = np.bincount(
            index.delivery_position[wanting.consumed(columns.deliveries)], minlength=index.size
        )
        rows = rows[consumed[index.send_position[rows]] < wanting.groups_of[sends.topic[rows]]]
    if not len(rows):
        return rows, rows
    return _missed(columns, context, index, rows)


class _Wanting:
    """The groups that read each topic: those that must read it, and those that drained it."""

    def __init__(self, columns: Columns, context: Context) -> None:
        names = columns.names
        known = sorted({*names.groups, *context.facts.groups})
        table = np.zeros((len(known) + 1, len(names.topics)), np.bool_)  # the last row: no group
        for row, group in enumerate(known):
            for topic, name in enumerate(names.topics):
                table[row, topic] = asks(context, group, name)
        self.groups_of = np.count_nonzero(table, axis=0)
        self._table = table[[known.index(group) for group in names.groups] + [-1]]

    def consumed(self, deliveries: MessageEvents) -> Mask | Ints:
        """Return rows of deliveries that were consumed by a group that reads their topic."""
        consumed = deliveries.outcome == Outcome.OK
        if self._table[:-1].all():
            return np.flatnonzero(consumed)
        return np.flatnonzero(consumed & self._table[deliveries.group, deliveries.topic])


def asks(context: Context, group: str, topic: str) -> bool:
    drained = context.timeline.drains_of(group, topic) is not None
    return group in context.facts.groups and (topic in context.facts.groups[group] or drained)


def _missed(
    columns: Columns, context: Context, index: PositionIndex, rows: Ints
) -> tuple[Ints, Ints]:
    """Separate the messages that some group passed without consuming them from those that it has not reached."""
    sends = columns.sends.where(rows)
    position = index.send_position[rows]
    seen = index.delivered_at[position]
    is_candidate, pending = np.zeros((2, len(rows)), np.bool_)
    for group, consumed in _consumed_by(columns, context, index, position):
        missing = context.wants(columns, sends, group) & ~consumed[position]
        some = np.flatnonzero(missing | ~seen)
        passed = context.resolved(columns, sends.where(some), group)
        is_candidate[some] |= passed
        pending[some] |= missing[some] & ~passed
    return rows[is_candidate], rows[pending]


def _consumed_by(
    columns: Columns, context: Context, index: PositionIndex, positions: Ints
) -> Iterator[tuple[str, Mask]]:
    """Yield each group of the facts, and whether it has consumed each of `positions`, a mask of shape (index size,)."""
    deliveries, groups = columns.deliveries, columns.names.groups
    asked = np.zeros(index.size, np.bool_)
    asked[positions] = True
    there = np.flatnonzero(asked[index.delivery_position])
    finished = deliveries.outcome[there] == Outcome.OK
    for group in context.facts.groups:
        consumed = np.zeros(index.size, np.bool_)
        if group in groups:
            mine = deliveries.group[there] == groups.index(group)
            # A broadcasting group does not get messages again that its listener did not finish.
            by_group = there[mine if group in context.facts.broadcasting else mine & finished]
            consumed[index.delivery_position[by_group]] = True
        yield group, consumed


def _messages_at(columns: Columns, index: PositionIndex, bad: Mask) -> Ints:
    """Return all messages at bad positions, all that are sent twice, and some that were sent without a known position.

    These last ones were acknowledged, stored with a weak status, or held back by the broker.
    """
    sends, deliveries = columns.sends, columns.deliveries
    sent = np.where(
        index.placed,
        bad[index.send_position],
        (sends.outcome == Outcome.OK) | (sends.outcome == Outcome.WEAK) | _is_special(sends),
    )
    got = bad[index.delivery_position]
    sighted = np.concatenate((sends.message[sent], deliveries.message[got]))
    return np.unique(np.concatenate((sighted, _sent_twice(sends.message))))


def _sent_twice(messages: Ints) -> Ints:
    """Return messages with more than one send. The harness never records such a history, but an edited one may."""
    ordered = np.sort(messages)
    twice: Ints = ordered[1:][ordered[1:] == ordered[:-1]]
    return twice
