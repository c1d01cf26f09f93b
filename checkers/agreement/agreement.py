"""Compares the evidence of a run (look-ups, drains, observations) with the history and with itself.

A disagreement is not an anomaly: if two records cannot both be true, one of them is wrong, and it is not known which.
So the verdict is unknown, with one sentence. `checkers/agreement/disagreements.py` compares look-ups, drains and
observations with each other. This module compares messages with them:

* each acknowledged message (of a `send_many`, the first) with the look-ups that had to request all of them;
* its queue with the number of queues of the topic according to the leader, or to the campaign;
* the status and the position of an acknowledgement with the observation of that moment: between two faults that may
  have damaged a broker, its records do not overlap;
* its position with the end of the log that its broker had recovered before it was sent, in the simulation;
* the completion of a send or of a delivery with its invocation: this harness records both, except for the dead letters
  that it reads itself. An op with unknown outcome may also be an op without a completion.

Offsets of a queue are dense. Each position that a complete drain covers has an acknowledged or delivered message, or
one of a send that has no clear outcome or was tried again. If a group wants all messages of a topic, and a broker has
lost none, the group received every message that it drained from this broker, so such a send explains no empty position
there. This is checked only if `RunFacts.due` is not empty, because then this harness recorded all sends.

Cannot see: a false value on which all records agree.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from staticfire.checkers.agreement.disagreements import (
    RECOVERIES_DUE,
    disagreements,
    is_strange,
    queue_numbers,
)
from staticfire.checkers.engine.kernel import Context, Kernel
from staticfire.checkers.features.retries import DEAD
from staticfire.checkers.guarantees.fault_effects import EMPTIES, OFFSETS, QUEUES, ROTS
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, Damage
from staticfire.checkers.guarantees.verdict import Tally
from staticfire.checkers.model.building.column_builder import WEAK_STATUSES
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, LogKey, Mask, Outcome
from staticfire.checkers.model.message_ids import MessageIds
from staticfire.checkers.model.timeline import LookUp
from staticfire.checkers.white_box.send_status import sends_seen

RECORD_MIN = 91  # bytes of a record without topic, properties and body (RocketMQ: MessageDecoder)
COMPRESSED_FROM = 4096  # bytes of a body; a body of at least this size may be stored in fewer bytes
# time after a fault in which messages from before it may still be acknowledged
SETTLED_NS = 30 * NS_PER_S
UNKNOWN_TRIES = 1 << 20  # for a client that does not report its number of attempts
EXPLAIN_PASSED = frozenset({OFFSETS, QUEUES, ROTS, EMPTIES})
NOT_LOOKED_UP = "not_looked_up"
STRANGE_QUEUES = "strange_queues"
STATUSES_DIFFER = "statuses_differ"
POSITIONS_DIFFER = "positions_differ"
BELOW_RECOVERY = "below_recovery"
EMPTY_POSITIONS = "empty_positions"
PASSED_POSITIONS = "passed_positions"
UNPLACED = "unplaced"
BEGUN = "begun"
WITHOUT_BEGINNING = "without_beginning"
REASONS = {
    STRANGE_QUEUES: "{} messages are of queues that their topic does not have: their numbers are too large",
    NOT_LOOKED_UP: "{} acknowledged messages of brokers that were asked for all of theirs are in no look-up",
    STATUSES_DIFFER: "{} sends have another status than their producers were seen to get",
    POSITIONS_DIFFER: "{} acknowledged messages lie within the record of another one, by what disks were seen to hold",
    BELOW_RECOVERY: "{} messages lie below the end of the log that their broker had recovered before they were sent",
    PASSED_POSITIONS: "drains have read {} positions of queues at which no message was acknowledged or delivered",
}


def tally_agreement(columns: Columns, context: Context) -> Tally:
    """Count the disagreements about messages of whole queues, or of chunks (partition key: log)."""
    seen = _seen(columns, context)
    return Tally(
        counts={
            NOT_LOOKED_UP: _not_looked_up(columns, context),
            STRANGE_QUEUES: _in_strange_queues(columns, context),
            STATUSES_DIFFER: _with_other_status(columns, seen),
            POSITIONS_DIFFER: _misplaced(columns, context, seen),
            BELOW_RECOVERY: _below_recovery(columns, context),
            **_beginnings(columns, context),
            **_positions(columns, context),
        }
    )


def _disagreement(tally: Tally, context: Context) -> str | None:
    if context.facts.unread:
        return context.facts.unread
    counted = (words.format(n) for name, words in REASONS.items() if (n := tally.counts.get(name)))
    found = next(counted, None) or _never_begun(tally) or _too_many_empty(tally)
    return found or next(disagreements(context), None)


def _never_begun(tally: Tally) -> str | None:
    """Return how many messages have ops without an invocation, as a text; None if none has, or if no op has one."""
    count = tally.counts.get(WITHOUT_BEGINNING, 0) if tally.counts.get(BEGUN, 0) else 0
    if not count:
        return None
    return f"{count} messages were sent or delivered by an op that ended and has no invocation"


def _too_many_empty(tally: Tally) -> str | None:
    empty, unplaced = tally.counts.get(EMPTY_POSITIONS, 0), tally.counts.get(UNPLACED, 0)
    if empty <= unplaced:
        return None
    return f"drained queues have {empty} positions without any message, and {unplaced} sends may have put one there"


class _Asked(NamedTuple):
    """The look-ups of one topic on one broker; arrays have shape (messages,), sorted by message."""

    since: int  # op index before which a send must have ended for a look-up to request it
    message: Ints
    queue: Ints  # its partition
    offset: Ints


def _not_looked_up(columns: Columns, context: Context) -> int:
    sends, names = columns.sends, columns.names
    if not context.timeline.look_ups or not len(sends):
        return 0
    first = np.ones(len(sends), np.bool_)  # whether it is the first row of its op
    first[1:] = (sends.op_index[1:] != sends.op_index[:-1]) | (sends.log[1:] != sends.log[:-1])
    if (
        columns.chunk is not None
    ):  # its first message may not be the first one of the range that its op reported
        first &= sends.queue_offset != columns.chunk.first_offset
    placed = (sends.log != UNKNOWN) & (sends.queue_offset != UNKNOWN)
    rows = np.flatnonzero(first & placed & (sends.outcome == Outcome.OK))
    missing = 0
    for queue in np.unique(sends.log[rows]).tolist():
        asked = _asked(columns, context, names.logs[queue])
        if asked is None:
            continue
        mine = rows[(sends.log[rows] == queue) & (sends.op_index[rows] < asked.since)]
        missing += int(np.count_nonzero(~_is_asked(asked, columns, mine)))
    return missing


def _is_asked(asked: _Asked, columns: Columns, rows: Ints) -> Mask:
    if not len(asked.message):
        return np.zeros(len(rows), np.bool_)
    sends = columns.sends
    number = np.array([queue.partition for queue in columns.names.logs], np.int64)
    at = np.minimum(np.searchsorted(asked.message, sends.message[rows]), len(asked.message) - 1)
    found: Mask = (
        (asked.message[at] == sends.message[rows])
        & (asked.queue[at] == number[sends.log[rows]])
        & (asked.offset[at] == sends.queue_offset[rows])
    )
    return found


def _asked(columns: Columns, context: Context, queue: LogKey) -> _Asked | None:
    """Return the look-ups of a queue's topic; None if they need not have requested all acknowledged messages."""
    of = "asked", queue.topic, queue.home
    if of not in context.cache:
        ids, mine = MessageIds(columns.names.other_keys), _look_ups(context, queue)
        complete = mine and all(one.asked is not None and one.error is None for one in mine)
        rows = [(ids[row.key], row.queue, row.queue_offset) for one in mine for row in one.found]
        rows += [(ids[row.key], row.queue, row.queue_offset) for one in mine for row in one.torn]
        table = np.array(sorted(rows), np.int64).reshape(-1, 3)
        context.cache[of] = (
            _Asked(_begun_after(context, queue.stream), *table.T) if complete else None
        )
    known = context.cache[of]
    assert known is None or isinstance(known, _Asked)
    return known


def _begun_after(context: Context, broker: str) -> int:
    """Return the index of the op after which the look-ups of a broker began: a drain, or the last earlier look-up.

    A look-up has no invocation. The harness selects the messages to look up before it sends the first query, and a late
    message may be acknowledged in between.
    """
    timeline = context.timeline
    mine = min(one.op_index for one in timeline.look_ups if one.broker == broker)
    before = [one.op_index for one in timeline.look_ups]
    before += [drain.op_index for drain in timeline.drains.values()]
    return max((index for index in before if index < mine), default=mine)


def _look_ups(context: Context, queue: LogKey) -> list[LookUp]:
    return [
        one
        for one in context.timeline.look_ups
        if (one.topic, one.broker) == (queue.topic, queue.home)
    ]


def _in_strange_queues(columns: Columns, context: Context) -> int:
    known = queue_numbers(context)
    strange = [of for of, queue in enumerate(columns.names.logs) if is_strange(known, queue)]
    if not strange:
        return 0
    touched = (columns.sends.log, columns.deliveries.log)
    return sum(int(np.count_nonzero(np.isin(queues, strange))) for queues in touched)


class _Seen(NamedTuple):
    """Observations of sends at their acknowledgements; arrays and lists have shape (observations,)."""

    rows: Ints  # of sends
    status: list[str]
    broker: list[str]  # according to the history
    broker_seen: list[str]  # according to the observation
    end: Ints  # of the record in the log, or UNKNOWN


def _seen(columns: Columns, context: Context) -> _Seen:
    sends = columns.sends
    stored = np.flatnonzero((sends.outcome <= Outcome.WEAK) & (sends.log != UNKNOWN))
    found = list(sends_seen(columns, context, stored))
    ends = [seen["end_offset"] for _, _, seen in found]
    return _Seen(
        np.array([row for _, row, _ in found], np.int64),
        [seen["status"] for _, _, seen in found],
        [broker for broker, _, _ in found],
        [seen["broker_name"] for _, _, seen in found],
        np.array([UNKNOWN if end is None else end for end in ends], np.int64),
    )


def _with_other_status(columns: Columns, seen: _Seen) -> int:
    weak = np.array([status in WEAK_STATUSES for status in seen.status], np.bool_)
    elsewhere = np.array([a != b for a, b in zip(seen.broker, seen.broker_seen, strict=True)], bool)
    was_weak = columns.sends.outcome[seen.rows] == Outcome.WEAK
    return int(np.count_nonzero((weak != was_weak) | elsewhere))


def _misplaced(columns: Columns, context: Context, seen: _Seen) -> int:
    sends, count = columns.sends, 0
    physical, size = sends.position[seen.rows], sends.size[seen.rows]
    least = RECORD_MIN + np.where((size > 0) & (size < COMPRESSED_FROM), size, 0)
    latest = seen.end - least  # the last position at which the record can begin
    known = seen.end != UNKNOWN
    begin = np.where(physical == UNKNOWN, latest, physical)
    brokers = np.array(seen.broker, object)
    for broker in set(seen.broker):
        log = _ends(context, broker)
        mine = np.flatnonzero(known & (brokers == broker))
        rows = seen.rows[mine]
        since, until = log.interval(sends.invoke_ns[rows]), log.interval(sends.time_ns[rows])
        # Near a fault the log may have lost a record before the answer to its send arrives.
        quiet = (since == until) & (since >= 0)
        mine, since = mine[quiet], since[quiet]
        count += int(np.count_nonzero(begin[mine] > latest[mine]))
        for at, interval in zip(mine.tolist(), since.tolist(), strict=True):
            ends = log.ends.get(interval, [])
            next_end = bisect_left(ends, seen.end[at])
            twice = next_end + 1 < len(ends) and ends[next_end + 1] == seen.end[at]
            count += int(twice or (next_end > 0 and ends[next_end - 1] > begin[at]))
    return count


class _Ends(NamedTuple):
    """The ends of a broker's records, observed between faults that may have damaged it."""

    cut_points: Ints  # alternately the begin of a fault and the end of the time that it may affect
    # by number of a quiet interval: the end of each message, ascending
    ends: Mapping[int, list[int]]

    def interval(self, times_ns: Ints) -> Ints:
        """Return the number of the quiet interval of each time, same shape; UNKNOWN if it is in none."""
        number = np.searchsorted(self.cut_points, times_ns, side="right")
        found: Ints = np.where(number % 2 == 0, number, UNKNOWN)
        return found


def _ends(context: Context, broker: str) -> _Ends:
    of = "ends", broker
    if of not in context.cache:
        context.cache[of] = _make_ends(context, broker)
    known = context.cache[of]
    assert isinstance(known, _Ends)
    return known


def _make_ends(context: Context, broker: str) -> _Ends:
    cut_points: list[int] = []
    for start_ns, until_ns in sorted(context.promises.hit_times(broker)):
        end_ns = until_ns + SETTLED_NS
        if cut_points and start_ns <= cut_points[-1]:
            cut_points[-1] = max(cut_points[-1], end_ns)
        else:
            cut_points += [start_ns, end_ns]
    log = _Ends(np.array(cut_points, np.int64), {})
    seen = [
        of
        for of in context.observations
        if of["kind"] == "ack_durability"
        and of["broker_name"] == broker
        and of["end_offset"] is not None
    ]
    intervals = log.interval(np.array([of["time_ns"] for of in seen], np.int64)).tolist()
    once = {
        (interval, of["key"], of["end_offset"])
        for interval, of in zip(intervals, seen, strict=True)
    }
    ends: dict[int, list[int]] = {}
    for interval, _, end in once:
        ends.setdefault(interval, []).append(end)
    return _Ends(log.cut_points, {interval: sorted(found) for interval, found in ends.items()})


def _below_recovery(columns: Columns, context: Context) -> int:
    """Count acknowledged sends below the end of the log that their leader had last recovered before they began.

    This needs a record of every start with times of the run's clock; real nodes stamp their logs with their own clocks.
    """
    sends, names, count = columns.sends, columns.names, 0
    if RECOVERIES_DUE not in context.facts.due:
        return count
    placed = (sends.outcome == Outcome.OK) & (sends.position != UNKNOWN)
    rows = np.flatnonzero(placed & (sends.log != UNKNOWN))
    recovered = _recoveries(context)
    for broker in np.unique(names.stream_of_log[sends.log[rows]]).tolist():
        nodes = context.facts.replica_sets.get(names.streams[broker], ())
        found = recovered.get(nodes[0] if nodes else "", [])
        if not found:
            continue
        at_ns = np.array([time_ns for time_ns, _ in found], np.int64)
        ends = np.array([end for _, end in found], np.int64)
        mine = rows[names.stream_of_log[sends.log[rows]] == broker]
        last = np.searchsorted(at_ns, sends.invoke_ns[mine], side="left") - 1
        same = (last >= 0) & (last == np.searchsorted(at_ns, sends.time_ns[mine], "right") - 1)
        count += int(np.count_nonzero(same & (sends.position[mine] < ends[last])))
    return count


def _beginnings(columns: Columns, context: Context) -> dict[str, int]:
    """Count the messages of sends and deliveries with an invocation, and of completed ones without an invocation."""
    # another program recorded the history, and may report only completions
    if not context.facts.due:
        return {}
    dead = np.array([topic.startswith(DEAD) for topic in columns.names.topics], np.bool_)
    begun = alone = 0
    for events in (columns.sends, columns.deliveries):
        has_none = events.op_index == events.invoke_index
        without = np.flatnonzero(has_none & (events.outcome != Outcome.UNKNOWN))
        alone += int(np.count_nonzero(~dead[events.topic[without]]))
        begun += len(events) - int(np.count_nonzero(has_none))
    return {BEGUN: begun, WITHOUT_BEGINNING: alone}


def _recoveries(context: Context) -> dict[str, list[tuple[int, int]]]:
    """Return, by node, when it had recovered its log in ns, and the end of the log, sorted by time."""
    found: dict[str, list[tuple[int, int]]] = {}
    for seen in context.observations:
        if seen["kind"] == "recovery" and "end_offset" in seen:
            found.setdefault(seen["node"], []).append((seen["time_ns"], seen["end_offset"]))
    return {node: sorted(starts) for node, starts in found.items()}


def _positions(columns: Columns, context: Context) -> dict[str, int]:
    """Count the drained offsets without a known message, and the messages that may be stored at unknown offsets."""
    counts = {PASSED_POSITIONS: 0, EMPTY_POSITIONS: 0, UNPLACED: _unplaced(columns)}
    # Another program recorded the history: other clients may send too, and positions may be missing.
    if not context.facts.due:
        return counts
    names, sends, given = columns.names, columns.sends, columns.deliveries
    ends = _drained_ends(context)
    for number in np.union1d(np.unique(sends.log), np.unique(given.log)).tolist():
        if number == UNKNOWN or names.internal_topic[names.topic_of_log[number]]:
            continue
        queue = names.logs[number]
        low, high = ends.get(queue, (0, 0))
        if columns.chunk is not None:
            low = max(low, columns.chunk.first_offset)
            high = min(high, columns.chunk.last_offset + 1)
        if low < high:
            stored = _of_queue(sends.log, number), _of_queue(given.log, number)
            placed = sends.outcome[stored[0]] <= Outcome.WEAK
            seen = sends.queue_offset[stored[0]][placed], given.queue_offset[stored[1]]
            empty = high - low - _different(np.concatenate(seen), low, high)
            counts[PASSED_POSITIONS if _all_is_delivered(context, queue) else EMPTY_POSITIONS] += (
                empty
            )
    return counts


def _of_queue(queues: Ints, number: int) -> slice:
    """Return the rows of a queue, by which rows are sorted."""
    return slice(*np.searchsorted(queues, [number, number + 1]).tolist())


def _different(offsets: Ints, low: int, high: int) -> int:
    """Return the number of distinct offsets in [low, high)."""
    within = offsets[(offsets >= low) & (offsets < high)] - low
    if high - low > 4 * len(offsets) + 1024:  # a table would be mostly empty
        return len(np.unique(within))
    occurs = np.zeros(high - low, np.bool_)
    occurs[within] = True
    return int(np.count_nonzero(occurs))


def _unplaced(columns: Columns) -> int:
    """Return the most messages that sends may have stored at positions that no answer reported."""
    sends = columns.sends
    may_be_stored = sends.outcome != Outcome.FAILED
    named = (sends.outcome <= Outcome.WEAK) & (sends.queue_offset != UNKNOWN)
    again = np.where(sends.tries > 0, sends.tries - 1, UNKNOWN_TRIES)
    return int(np.sum(np.where(may_be_stored, again + ~named, 0)))


def _drained_ends(context: Context) -> Mapping[LogKey, tuple[int, int]]:
    """Return the first offset and the end of each queue in the last complete drain that has it."""
    drains = sorted(context.timeline.drains.values(), key=lambda drain: drain.op_index)
    return {
        queue: (end.min_offset, end.max_offset)
        for drain in drains
        if drain.complete
        for queue, end in drain.ends.items()
    }


def _all_is_delivered(context: Context, queue: LogKey) -> bool:
    """Whether some group received every message that was ever at a drained position of a queue."""
    facts = context.facts
    moved = any(EXPLAIN_PASSED & set(fault.effects) for fault in facts.faults)
    lost = context.promises.damaged(
        queue.stream, at_least=Damage.WRITE_ERROR, since_ns=0, until_ns=FOREVER_NS
    )
    return (
        facts.mode == "hardened"
        and not moved
        and not lost
        and any(
            queue.topic in topics
            and group not in facts.wanted_tags
            and group not in facts.assigned
            and _is_drained(context, group, queue.topic)
            for group, topics in facts.groups.items()
        )
    )


def _is_drained(context: Context, group: str, topic: str) -> bool:
    drain = context.timeline.drains_of(group, topic)
    return drain is not None and drain.complete


AGREEMENT = Kernel(
    name="agreement",
    partition_by="log",
    anomalies=(),
    partial=tally_agreement,
    unknown_reason=_disagreement,
)
