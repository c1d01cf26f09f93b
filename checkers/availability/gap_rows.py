"""Selects the few rows that decide the gaps of a history of any size.

It reads whole queues twice. The first pass (`first_rows`) selects every send of a producer that was not acknowledged,
the last send that began (the end of the load), and deliveries in other queues than those in which their message was
acknowledged. The second pass (`decisive_rows`) has those rows of all queues. It selects the next acknowledgement after
each failed send, sends that took longer than the bound, the slowest one of each life of a producer, and the message of
each queue that waited longest for each group, with its deliveries.

Memory holds sends that failed or were too slow, and deliveries of retries and copies, but not the whole history.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.client_lifetimes import lives, load_end_ns, load_start_ns, sends_by
from staticfire.checkers.derived.first_deliveries import first_consumed_ns
from staticfire.checkers.engine.kernel import Context, some_rows
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.guarantees.promises import NS_PER_S
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    Mask,
    MessageEvents,
    Outcome,
    joined,
)


def first_rows(columns: Columns, context: Context) -> Columns:
    """Select the rows of these queues that the second pass may need for other queues."""
    return some_rows(
        columns, sends=_failed_or_last(columns, context), deliveries=_elsewhere(columns)
    )


def decisive_rows(columns: Columns, context: Context, gathered: Columns) -> Columns:
    """Select the rows of these queues that decide; `gathered` has the `first_rows` of all queues, in their order."""
    sends, delivered = columns.sends, columns.deliveries
    end_ns = load_end_ns(gathered.sends, context)
    wanted = _failed_or_last(columns, context)
    for node in context.facts.producers:
        rows = sends_by(sends, context, (node,))
        acked = rows[sends.outcome[rows] == Outcome.OK]
        wanted[_next_acked(sends, acked, _failed_ns(gathered.sends, context, node))] = True
        for slow in _slow(sends, acked, context, node, end_ns):
            wanted[slow] = True
    wanted[list(_longest_waits(columns, context, gathered.deliveries, end_ns))] = True
    messages = np.unique(sends.message[wanted])
    reported = (delivered.outcome == Outcome.OK) & is_among(delivered.message, messages)
    return some_rows(columns, sends=wanted, deliveries=reported | _elsewhere(columns))


def unacknowledged(sends: MessageEvents, context: Context) -> Mask:
    """Whether each send is of a producer and was not acknowledged with SEND_OK, shape (sends,)."""
    rows = sends_by(sends, context, context.facts.producers)
    wanted = np.zeros(len(sends), np.bool_)
    wanted[rows] = sends.outcome[rows] != Outcome.OK
    return wanted


def next_acked(sends: MessageEvents, gathered: MessageEvents, context: Context, node: str) -> Ints:
    """Return rows of the next acknowledged send of a producer after each unacknowledged send of `gathered`."""
    rows = sends_by(sends, context, (node,))
    acked = rows[sends.outcome[rows] == Outcome.OK]
    return _next_acked(sends, acked, _failed_ns(gathered, context, node))


def _failed_or_last(columns: Columns, context: Context) -> Mask:
    sends = columns.sends
    wanted = unacknowledged(sends, context)
    wanted[sends_by(sends, context, context.facts.producers)[-1:]] = True
    return wanted


def _elsewhere(columns: Columns) -> Mask:
    """Whether each delivery was consumed and its message was not acknowledged in these queues, shape (deliveries,)."""
    sends, delivered = columns.sends, columns.deliveries
    here = np.unique(sends.message[sends.outcome == Outcome.OK])
    known = (delivered.outcome == Outcome.OK) & (delivered.message != UNKNOWN)
    found: Mask = known & ~is_among(delivered.message, here)
    return found


def _failed_ns(sends: MessageEvents, context: Context, node: str) -> Ints:
    """Return the invocation times of the unacknowledged sends of a node in ns, ascending."""
    rows = sends_by(sends, context, (node,))
    begun_ns: Ints = sends.invoke_ns[rows[sends.outcome[rows] != Outcome.OK]]
    return begun_ns


def _next_acked(sends: MessageEvents, acked: Ints, failed_ns: Ints) -> Ints:
    """Return rows of the first acknowledged send that began after each failed one, and of those that began with one.

    `acked` are rows in the order of their invocations.
    """
    begun_ns = sends.invoke_ns[acked]
    after = np.searchsorted(begun_ns, failed_ns, side="right")
    together = np.flatnonzero(is_among(begun_ns, np.unique(failed_ns)))
    return acked[np.union1d(after[after < len(acked)], together)]


def _slow(
    sends: MessageEvents, acked: Ints, context: Context, node: str, load_end_ns: int
) -> Iterator[Ints]:
    """Yield rows of sends that took longer than the bound, and of the slowest one of each life."""
    assert context.facts.gap_max_s is not None
    took_ns = sends.time_ns[acked] - sends.invoke_ns[acked]
    yield acked[took_ns > int(context.facts.gap_max_s * NS_PER_S)]
    begun_ns = sends.invoke_ns[acked]
    for start_ns, end_ns in lives(context, node, load_end_ns):
        first, last = np.searchsorted(begun_ns, (start_ns, end_ns)).tolist()
        if first < last:
            slowest = first + int(np.argmax(took_ns[first:last]))
            yield acked[slowest : slowest + 1]


def _longest_waits(
    columns: Columns, context: Context, elsewhere: MessageEvents, load_end_ns: int
) -> Iterator[int]:
    """Yield, for each queue and group, the row of the acknowledged send that waited longest."""
    mine = np.unique(columns.sends.message[columns.sends.outcome == Outcome.OK])
    of_mine = elsewhere.where(is_among(elsewhere.message, mine))
    together = Columns(
        names=columns.names,
        sends=columns.sends,
        deliveries=joined(MessageEvents, [columns.deliveries, of_mine])
        if len(of_mine)
        else columns.deliveries,
        commits=columns.commits,
    )
    for group in sorted(context.facts.groups):
        for row, _waited_ns in longest_waits(together, context, group, load_end_ns):
            yield row


def longest_waits(
    columns: Columns, context: Context, group: str, load_end_ns: int
) -> Iterator[tuple[int, int]]:
    """For each queue that `group` reads, yield the row of the acknowledged send that waited longest, and its wait (ns).

    A message that no consumer received waits until the load ends. No wait begins before the start of the load.
    """
    sends = columns.sends
    topics = context.facts.groups[group]
    of_group = np.array([topic in topics for topic in columns.names.topics], np.bool_)
    acked = (sends.outcome == Outcome.OK) & (sends.time_ns < load_end_ns)
    rows = np.flatnonzero(acked & of_group[sends.topic])
    if not len(rows):
        return
    delivered_ns = np.minimum(first_consumed_ns(columns, group), load_end_ns)
    waited_ns = delivered_ns[rows] - np.maximum(sends.time_ns[rows], load_start_ns(context))
    for queue in np.unique(sends.log[rows]):
        of_queue = np.flatnonzero(sends.log[rows] == queue)
        worst = of_queue[np.argmax(waited_ns[of_queue])]
        yield int(rows[worst]), int(waited_ns[worst])
