"""Compares the answers of leaders to a reset of offsets to a time with the store times of delivered messages.

**wrong_time_search** (`message_queries.py`): an operator reset a group to a time, and for a queue the leader answered
an offset that a search for this time cannot return. A search returns the message whose store time is nearest, the
earlier one of two that are equally near, and the first one with exactly this time; a faithful broker may return any of
the messages with exactly this time. The leader answers with the committed offset of the group if the search returns a
higher one.

* Too far: a message below the answer was stored at the time or later; or one that was stored before it is as near.
* Not far enough, and the group had committed more: a message above the answer was stored before the time; or the answer
  was stored before the time, and a message above is nearer.

A message counts if all its deliveries have one store time, and if it was in the queue at the request: it was stored
before the time or delivered before the request, and the queue still had it at the end. Allowed if a clock of the broker
was wrong, because store times then do not ascend, if a fault changed a stored record of the leader, and if the queue
may have lost a tail.

Cannot see: messages that no group received before the request; answers for queues in which the group had committed no
more than the answer.

Source: Broker2Client.resetOffset and ConsumeQueue.getOffsetInQueueByTime of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import numpy as np

from staticfire.checkers.derived.proven import BUFFERED_NS
from staticfire.checkers.engine.kernel import Context, finding_at
from staticfire.checkers.features.delays import clock_stepped
from staticfire.checkers.guarantees.facts import OffsetsReset
from staticfire.checkers.guarantees.fault_effects import ROTS
from staticfire.checkers.guarantees.fault_times import began_ns, by_target
from staticfire.checkers.guarantees.promises import Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, LogKey

ANOMALY = "wrong_time_search"
NO_ROWS: Final = np.zeros(0, np.int64)


class Answer(NamedTuple):
    """A leader's answer for one queue."""

    reset: OffsetsReset
    time_ms: int  # requested by the operator
    log: LogKey
    offset: int
    committed: int  # the offset that the group had committed right before; 0: the leader does not report it

    @property
    def may_be_too_low(self) -> bool:
        """Whether the search returned this offset, not a higher one."""
        return self.offset < self.committed


class Witnesses(NamedTuple):
    """The deliveries that decide whether an answer is right. Each field has the row of one delivery, or none."""

    answered: Ints  # the message at the answered offset
    before: Ints  # the highest message below it that was stored before the time
    too_far: Ints  # the highest message below it that was stored at the time or later
    passed: Ints  # the highest message above it that was stored before the time
    behind: Ints  # the lowest message above it that was stored at the time or later


def answers(context: Context) -> Iterator[Answer]:
    """Yield the answers of all resets to a time."""
    for reset in chain.from_iterable(fault.resets for fault in context.facts.faults):
        if reset.time_ms is None:
            continue
        committed = dict(reset.committed)
        for partition, offset in reset.answers:
            log = LogKey(reset.topic, reset.stream, partition)
            yield Answer(reset, reset.time_ms, log, offset, committed.get(partition, 0))


def rows_at_answers(columns: Columns, context: Context) -> Ints:
    """Return the rows of the deliveries that are compared with answers."""
    kept = (rows for one in answers(context) for rows in _witnesses(columns, context, one))
    return np.unique(np.concatenate([NO_ROWS, *kept]))


def wrong_answers(columns: Columns, context: Context) -> Iterator[Finding]:
    """Yield a finding for each answer with a wrong offset."""
    for one in answers(context):
        rows = _witnesses(columns, context, one)
        stored_ms = _Times(columns, rows)
        witness, words = _wrong(context, one, rows, stored_ms)
        if len(witness):
            yield _finding(columns, context, one, witness, rows.answered, words)


class _Times:
    """The store times of witnesses in ms; None without a witness."""

    def __init__(self, columns: Columns, rows: Witnesses) -> None:
        stored_ms = columns.deliveries.stored_ms
        found = [int(stored_ms[row[0]]) if len(row) else None for row in rows]
        self.answered, self.before, self.too_far, self.passed, self.behind = found


def _wrong(context: Context, one: Answer, rows: Witnesses, times: _Times) -> tuple[Ints, str]:
    """Return the row of the delivery that shows that an answer is wrong, and why; no row if the answer may be right."""
    asked_ms, answered_ms = one.time_ms, times.answered
    is_exact = context.facts.mode == "hardened" or answered_ms not in (None, asked_ms)
    if times.too_far is not None and (times.too_far > asked_ms or is_exact):
        return rows.too_far, f"a message below it was stored at {times.too_far} ms"
    before_ms = asked_ms if times.before is None else times.before
    if answered_ms is not None and 0 < asked_ms - before_ms <= answered_ms - asked_ms:
        return rows.before, f"a message below it is as near, of {before_ms} ms"
    if not one.may_be_too_low:
        return NO_ROWS, ""
    if times.passed is not None:
        return rows.passed, f"a message above it was stored at {times.passed} ms"
    behind_ms = times.behind
    if answered_ms is None or behind_ms is None or behind_ms - asked_ms >= asked_ms - answered_ms:
        return NO_ROWS, ""
    return rows.behind, f"a message above it is nearer, of {behind_ms} ms"


def _witnesses(columns: Columns, context: Context, one: Answer) -> Witnesses:
    """Find the witnesses of an answer among the deliveries of its queue, or among those of `rows_at_answers`."""
    deliveries = columns.deliveries
    rows = _timed(columns, one)
    offset, stored_ms = deliveries.queue_offset[rows], deliveries.stored_ms[rows]
    was_given = deliveries.invoke_ns[rows] < one.reset.asked_ns
    is_before, is_above = stored_ms < one.time_ms, offset > one.offset
    is_kept = offset >= _min_offset(context, one)
    is_there = is_kept & (was_given | is_before)
    late_below = rows[is_there & ~is_before & (offset < one.offset)]
    late_above = rows[is_there & ~is_before & is_above]
    return Witnesses(
        answered=rows[is_there & (offset == one.offset)],
        before=rows[is_there & is_before & (offset < one.offset)][-1:],
        too_far=late_below[-1:],
        passed=rows[is_there & is_before & is_above][-1:],
        behind=late_above[:1],
    )


def _timed(columns: Columns, one: Answer) -> Ints:
    """Return the row of the first delivery from each offset of the queue with only one store time, sorted by offset."""
    deliveries, names = columns.deliveries, columns.names
    if one.log not in names.logs:
        return NO_ROWS
    is_here = deliveries.log == names.logs.index(one.log)
    known = (deliveries.stored_ms != UNKNOWN) & (deliveries.queue_offset != UNKNOWN)
    rows = np.flatnonzero(is_here & known)
    rows = rows[np.lexsort((deliveries.invoke_ns[rows], deliveries.queue_offset[rows]))]
    offsets, first, group = np.unique(
        deliveries.queue_offset[rows], return_index=True, return_inverse=True
    )
    stored_ms = deliveries.stored_ms[rows]
    is_disputed = np.zeros(len(offsets), np.bool_)
    is_disputed[group[stored_ms != stored_ms[first][group]]] = True
    found: Ints = rows[first[~is_disputed]]
    return found


def _min_offset(context: Context, one: Answer) -> int:
    """Return the first offset of the queue at the drain; 0 if no drain reports it."""
    drain = context.timeline.drains_of(one.reset.group, one.log.topic)
    end = None if drain is None else drain.ends.get(one.log)
    return 0 if end is None else end.min_offset


def _finding(
    columns: Columns, context: Context, one: Answer, witness: Ints, answered: Ints, words: str
) -> Finding:
    reset, stream = one.reset, one.log.stream
    detail = (
        f"a reset of the group to {one.time_ms} ms was answered at {reset.answered_ns / 1e9:.3f} s with offset "
        f"{one.offset}, and {words}"
    )
    times_ns = columns.deliveries.invoke_ns[np.concatenate([witness, answered])]
    first_ns, last_ns = int(times_ns.min()), int(times_ns.max())
    rule = context.promises.visible.rule(
        stream, first_ns - BUFFERED_NS, max(last_ns, reset.answered_ns)
    )
    why = clock_stepped(context, one.log, 0, reset.answered_ns) or _rotten(
        context, stream, reset.answered_ns
    )
    judgement = judge(context.facts.mode, ANOMALY)
    if why is not None:
        judgement, detail = Judgement.ALLOWED, f"{detail}; {why}"
    elif rule.judgement is not Judgement.VIOLATION:
        judgement = rule.judgement
    return finding_at(
        columns,
        columns.deliveries,
        int(witness[0]),
        anomaly=ANOMALY,
        judgement=judgement,
        detail=detail,
        group=reset.group,
    )


def _rotten(context: Context, stream: str, until_ns: int) -> str | None:
    """Return a text if a fault had changed a record of the leader, and perhaps its store time; None otherwise."""
    leader = context.facts.replica_sets.get(stream, ())[:1]
    for fault in chain.from_iterable(map(by_target, context.facts.faults)):
        is_rotten = ROTS in fault.effects and fault.bitten_ns is not None
        if is_rotten and not set(leader).isdisjoint(fault.targets) and began_ns(fault) <= until_ns:
            return f"a stored record of {leader[0]} had been changed"
    return None
