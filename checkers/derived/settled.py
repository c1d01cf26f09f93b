"""Settled messages: messages that their leader keeps visible, whatever happens to the cluster.

A follower may serve a message that its leader does not serve yet, or no longer. The leader may later set back a
consumer that read there, so this explains a duplicate (`excuse_table.py`). A follower sets no consumer back, because
its leader may have the messages that it lacks. So nothing explains a duplicate of a settled message: one that the
leader acknowledged with SEND_OK and has served ever since, because no fault may have destroyed it. A leader that waits
for followers serves what one of them has, so there all followers must have had the message.

Source: HAService and PullMessageProcessor of Apache RocketMQ 4.9; `promises.py` for what a fault may destroy.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    LogKey,
    Mask,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.intervals import Span, joined

# A client gives up an offset after more than one answer of the leader, seconds after the message was delivered.
SET_BACK_AFTER_NS = NS_PER_S
# Anomalies that are excused if an owner may have been set back.
SET_BACK = ("duplicate_unexplained", "commit_rewound", "nonmonotonic_poll")
REGAINED = "queue_regained"  # row of excuses for a member that does not report its queues
NOWHERE = np.iinfo(np.int64).min  # below all offsets


class SettledPositions:
    """The positions of the settled messages of some queues, and since when each is settled."""

    def __init__(self, columns: Columns, context: Context) -> None:
        sends = columns.sends
        acknowledged = (sends.outcome == Outcome.OK) & (sends.queue_offset != UNKNOWN)
        plain = (sends.due_ns == UNKNOWN) & (sends.transaction == Transaction.NONE)
        rows = np.flatnonzero(acknowledged & plain & (sends.log != UNKNOWN))
        rows = rows[_survives(columns, context, rows)]
        rows = rows[np.lexsort((sends.time_ns[rows], sends.queue_offset[rows], sends.log[rows]))]
        self._queue, self._offset = sends.log[rows], sends.queue_offset[rows]
        self._since_ns = sends.time_ns[rows]

    def has(self, queue: int, offset: int, at_ns: int) -> bool:
        """Whether a message at this offset was settled by then."""
        return self.highest_below(queue, offset + 1, at_ns) == offset

    def highest_below(self, queue: int, offset: int, at_ns: int) -> int:
        """Return the highest offset below another one with a message that was settled by then; NOWHERE if none has."""
        start, stop = np.searchsorted(self._queue, (queue, queue + 1))
        stop = start + np.searchsorted(self._offset[start:stop], offset)
        found = np.flatnonzero(self._since_ns[start:stop] <= at_ns)
        return int(self._offset[start + found[-1]]) if len(found) else int(NOWHERE)


def settled_positions(columns: Columns, context: Context) -> SettledPositions:
    """Return the settled messages among the sends of these columns; computed once."""
    known = columns.cache.get("settled positions")
    if known is None:
        known = columns.cache["settled positions"] = SettledPositions(columns, context)
    assert isinstance(known, SettledPositions)
    return known


def comes_by_order_only(
    columns: Columns, context: Context, group: str, position: tuple[int, int], given_ns: int
) -> bool:
    """Whether a message that an owner received is settled, so that it comes again only by a reset of offsets.

    `position`: the number of its queue, and its offset there. False if members do not report what they own, because the
    owner may have lost the queue in between.
    """
    if (group, columns.names.logs[position[0]]) not in context.timeline.ownership:
        return False
    return settled_positions(columns, context).has(*position, given_ns + SET_BACK_AFTER_NS)


def settled_spans(context: Context, broker: str) -> list[Span]:
    """Return the times for which a message sent then is settled once a broker has acknowledged it."""
    if not leader_shows_acknowledged(context.facts, broker):
        return []
    ends = [until_ns for _, until_ns in context.promises.hit_times(broker)]
    cut_points = [0, *sorted(end + 1 for end in ends if end < FOREVER_NS), FOREVER_NS]
    sent_ns = np.array(cut_points[:-1], np.int64)
    survives = context.promises.must_survive(broker, sent_ns).tolist()
    spans = map(Span, cut_points[:-1], cut_points[1:])
    return joined(span for span, settled in zip(spans, survives, strict=True) if settled)


def leader_shows_acknowledged(facts: RunFacts, broker: str) -> bool:
    """Whether the leader of a broker never stops serving a message that it acknowledged with SEND_OK and still has.

    A synchronous leader with several followers may stop: after a restart it may first hear of one that lacks it.
    """
    return facts.replication != "sync" or len(facts.replica_sets.get(broker, ())) <= 2


def _survives(columns: Columns, context: Context, rows: Ints) -> Mask:
    """Whether each acknowledged send is served by its leader and safe from all faults of the run, shape (rows,)."""
    sends, names = columns.sends, columns.names
    found = np.zeros(len(rows), np.bool_)
    of_broker = names.stream_of_log[sends.log[rows]]
    for number, broker in enumerate(names.streams):
        if leader_shows_acknowledged(context.facts, broker):
            mine = np.flatnonzero(of_broker == number)
            found[mine] = context.promises.must_survive(broker, sends.invoke_ns[rows[mine]])
    return found


def set_back_by(
    context: Context,
    pair: tuple[str, LogKey],
    anomaly: str,
    times: tuple[int, int],
    nodes: Iterable[str | None] = (),
    *,
    offset: int | None = None,
) -> Window | None:
    """Return the fault by which the owner of a queue may have gone back between two times, by the rows of an anomaly.

    `pair`: the group and the queue. `times`: begin and end, ns. `offset`: how far back, if known.
    """
    nodes, broker = tuple(nodes), pair[1].stream
    window = context.excuses.find(
        anomaly,
        *times,
        broker,
        nodes,
        counts=lambda window: window.sends_back_to(*pair, offset),
    )
    if window is None and pair not in context.timeline.ownership:
        window = context.excuses.find(REGAINED, *times, broker, nodes)
    return window
