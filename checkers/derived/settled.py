"""Settled messages: messages that their leader serves from the acknowledgement to the end of the run.

A follower may serve a message that its leader does not serve yet, or no longer. The leader may later set back a
consumer that read from the follower, so this explains a duplicate (`excuse_table.py`). A follower sets no consumer
back, because its leader may have the messages that it lacks. So nothing explains a duplicate of a settled message: one
that the leader acknowledged with SEND_OK and has served since then, because no fault may have destroyed it.

A synchronous leader serves the messages that one of its followers has, and never fewer while it runs. After a restart
it may first connect to a follower that lacks a message. So if it has several followers, a message is not settled if one
of them may have lacked it when the leader ended, or until they had connected to it again: it was stored right before,
or while a fault hindered the follower (checkers/guarantees/uncopied.py), or a fault destroyed it there.

Source: HAService and PullMessageProcessor of Apache RocketMQ 4.9; `promises.py` for what a fault may destroy.
"""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S
from staticfire.checkers.guarantees.uncopied import stops_of, uncopied_since_ns
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

# A client resets its offset only after several answers of the leader, seconds after the message was delivered.
SET_BACK_AFTER_NS = NS_PER_S
# Anomalies that are excused if an owner may have been set back.
SET_BACK = ("duplicate_unexplained", "commit_rewound", "nonmonotonic_poll")
REGAINED = "queue_regained"  # row of excuses for a member that does not report its queues
NOWHERE = np.iinfo(np.int64).min  # stands for no offset; lower than all offsets


class SettledPositions:
    """The positions of the settled messages of some queues, and the time from which on each is settled."""

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
        """Whether a message at this offset was settled at `at_ns`."""
        return self.highest_below(queue, offset + 1, at_ns) == offset

    def highest_below(self, queue: int, offset: int, at_ns: int) -> int:
        """Return the highest offset below `offset` with a message that was settled at `at_ns`; NOWHERE without one."""
        start, stop = np.searchsorted(self._queue, (queue, queue + 1))
        stop = start + np.searchsorted(self._offset[start:stop], offset)
        found = np.flatnonzero(self._since_ns[start:stop] <= at_ns)
        return int(self._offset[start + found[-1]]) if len(found) else int(NOWHERE)


def settled_positions(columns: Columns, context: Context) -> SettledPositions:
    """Return the settled messages among the sends of these columns; cached."""
    known = columns.cache.get("settled positions")
    if known is None:
        known = columns.cache["settled positions"] = SettledPositions(columns, context)
    assert isinstance(known, SettledPositions)
    return known


def redelivered_only_after_reset(
    columns: Columns, context: Context, group: str, position: tuple[int, int], given_ns: int
) -> bool:
    """Whether a message that an owner received is settled, so that it comes again only by a reset of offsets.

    `position`: the id of its queue, and its offset there. False if members do not report the queues that they own,
    because the owner may have lost the queue in between.
    """
    if (group, columns.names.logs[position[0]]) not in context.timeline.ownership:
        return False
    return settled_positions(columns, context).has(*position, given_ns + SET_BACK_AFTER_NS)


def settled_spans(context: Context, broker: str) -> list[Span]:
    """Return the times such that a message sent then is settled once a broker has acknowledged it."""
    promises = context.promises
    unshown = _spans_not_served(context, broker)
    changes = [
        *(until_ns + 1 for _, until_ns in promises.hit_times(broker)),
        *promises.stored_cut_points(broker),
        *(ns for span in unshown for ns in span),
    ]
    cut_points = [0, *sorted({at for at in changes if 0 < at < FOREVER_NS}), FOREVER_NS]
    sent_ns = np.array(cut_points[:-1], np.int64)
    settled = promises.must_survive(broker, sent_ns, sent_ns) & ~_lies_in(unshown, sent_ns, sent_ns)
    spans = map(Span, cut_points[:-1], cut_points[1:])
    return joined(
        span for span, is_settled in zip(spans, settled.tolist(), strict=True) if is_settled
    )


def _survives(columns: Columns, context: Context, rows: Ints) -> Mask:
    """Whether each acknowledged send is served by its leader and safe from all faults of the run, shape (rows,)."""
    sends, names = columns.sends, columns.names
    found = np.zeros(len(rows), np.bool_)
    of_broker = names.stream_of_log[sends.log[rows]]
    for number, broker in enumerate(names.streams):
        mine = np.flatnonzero(of_broker == number)
        sent_ns, stored_ns = sends.invoke_ns[rows[mine]], sends.time_ns[rows[mine]]
        found[mine] = context.promises.must_survive(broker, sent_ns, stored_ns)
        found[mine] &= ~_lies_in(_spans_not_served(context, broker), sent_ns, stored_ns)
    return found


def _lies_in(spans: Iterable[Span], sent_ns: Ints, stored_ns: Ints) -> Mask:
    """Whether each message may have been stored in one of the spans, shape (messages,)."""
    found = np.zeros(len(sent_ns), np.bool_)
    for span in spans:
        found |= (stored_ns >= span.start_ns) & (sent_ns < span.end_ns)
    return found


def _spans_not_served(context: Context, broker: str) -> list[Span]:
    """Return the store times of messages that a synchronous leader with several followers may not serve for a while."""
    facts, promises = context.facts, context.promises
    nodes = facts.replica_sets.get(broker, ())
    if facts.replication != "sync" or len(nodes) <= 2:
        return []
    if facts.mode != "hardened":
        return [Span(0, FOREVER_NS)]
    timings = facts.timings
    again_ns = round((timings.replication_silence_s + 2 * timings.request_s) * NS_PER_S)
    found = []
    for began_ns, healed_ns in stops_of(facts, nodes[0]):
        near = (
            hit.since_ns
            for hit in promises.hits_on_followers(broker)
            if hit.start_ns <= healed_ns + again_ns and began_ns <= hit.healed_ns + again_ns
        )
        since_ns = min(uncopied_since_ns(facts, nodes, began_ns), *near, FOREVER_NS)
        found.append(Span(since_ns, healed_ns))
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

    Args:
        context: of the run.
        pair: the group and the queue.
        anomaly: name of rows in the table of excuses.
        times: begin and end in ns.
        nodes: the members involved.
        offset: to which the owner went back; None: not known.
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
