"""Delayed messages and retries come in time.

**late_delivery**: the first delivery to a group, in the queue to which the message was sent, came more than 10 s after
it was due. Time does not count while a fault hindered the message or no member owned the queue (`queue_unowned` bounds
the time without an owner). If no member of the group reports its queues, the time of a rebalance does not count either.
A retry is due when its delay level is over, counted from the member's report that the broker had taken the message back
(`send_back`). `loss` judges a message that never comes. More time is allowed

* after a restart of a broker whose clock was stepped: it has only the times in its log, and does not know how long a
  message has been there. So the message may wait its whole delay again, and no longer. The same holds for a message
  that was sent up to a delay later, because it may wait behind the first one: a broker delivers a level in order;
* after a clock was set back: log times never go back, so a log may be ahead of the clock for long;
* near any step of a clock, in faithful mode: a running hardened broker notices the step, a faithful one does not;
* on a slow disk: the broker flushes a message when it stores it and again when it is due (`Timings.flush_wait_s`).

A message is also late if its broker moved it to its queue (its store time) more than half a second after it was due (2
s on real machines), and no fault hindered the broker since 10 s before it first kept the message. The bound is small
because a delay level may be only a second longer than the previous one.

A fault hinders a queue and a group while a row of the table of excuses covers the member that owns the queue (any
member while none owns it), unless messages pass. So does a broken link to a follower that must have a message before
members get it, until TCP repeats the data that the link delayed (`followers_behind.py`). So does a send-back of the
owner that its broker did not answer: for the time of one request before the report, the owner may have waited for the
answer and taken no messages. A message passes if it was sent to this queue without a delay and delivered to this group
within the time of one request: its broker stored, flushed, replicated and served it, and the member received it. In a
retry queue, a message passes if the group received it within the time of one request after it was due. Between two
passing messages less than a request apart, a fault is shorter than the row requires (`Excuse.at_least`), so it does not
hinder.

Cannot see: lateness below the bounds; late moves by a broker if clients report no store times, or after a step of its
clock; the lateness of a send with several attempts, each of which may have begun a delay; the lateness of a retry that
was sent back twice, that the client copied itself, or for which the client reports no time.

Source: ScheduleMessageService of Apache RocketMQ 4.9 (it checks a level every 100 ms, and tries failed deliveries
again); bugs #3966 and #9249, which skipped a message whose delivery had failed.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.covers import covering, merged_spans
from staticfire.checkers.derived.first_deliveries import first_deliveries
from staticfire.checkers.derived.followers_behind import behind_spans, unshown_spans
from staticfire.checkers.derived.rebalances import rebalanced_ns
from staticfire.checkers.derived.wall_clocks import brokers_stepped_ns, on_run_clock
from staticfire.checkers.engine.kernel import Checker, Context, finding_at, queue_of, some_rows
from staticfire.checkers.engine.observed import observed_verdict
from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.features.delays import CLOCK_ROUGHNESS_NS, REMAINING_TIME, clock_stepped
from staticfire.checkers.features.retries import FIRST_LEVEL, NS_PER_MS, RETRY
from staticfire.checkers.groups.groups import owned_spans
from staticfire.checkers.guarantees.excuses.excuses import RESTARTED_NS
from staticfire.checkers.guarantees.fault_effects import STOPS
from staticfire.checkers.guarantees.fault_times import by_target, healed_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict, seconds
from staticfire.checkers.measures.reportable import LATE, with_share
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    LogKey,
    Mask,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.event_times import began_earliest
from staticfire.checkers.model.intervals import Span, joined, shared, without

# A broker moves a message within 100 ms of its due time, then stores and replicates it; a backlog may be ahead of it.
LATE_AFTER_NS = 10 * NS_PER_S
# Without a fault a broker checks for due messages every 100 ms. Real machines also have other work.
MOVED_LATE_NS = NS_PER_S // 2
MOVED_LATE_OUTSIDE_NS = 2 * NS_PER_S
SLOW = "slow_delivery"  # row of the table of excuses for faults of any length that hinder a broker
_EVER = Span(0, FOREVER_NS)


class Hindered:
    """The intervals in which faults hindered delayed messages, by group and queue."""

    def __init__(self, columns: Columns, context: Context) -> None:
        self._columns = columns
        self._context = context
        self._known: dict[tuple[str, LogKey], list[Span]] = {}
        self._passes: dict[str, dict[LogKey, tuple[Ints, Ints, Ints]]] = {}

    def spans(self, group: str, queue: LogKey) -> list[Span]:
        known = self._known.get((group, queue))
        if known is None:
            faults = list(_near(self._context, group, queue))
            passing = self._passing(group, queue) if faults else []
            known = self._known[group, queue] = without(faults, passing)
        return known

    def _passing(self, group: str, queue: LogKey) -> list[Span]:
        """Return the times in which messages of the queue passed to the group."""
        if group not in self._passes:
            self._passes[group] = {
                **_passes(self._columns, self._context, group),
                **_retries_in_time(self._columns, self._context, group),
            }
        found = self._passes[group].get(queue)
        return [] if found is None else merged_spans(*found[1:], _apart_ns(self._context))


class _Kept(NamedTuple):
    """Deliveries of messages that brokers first kept in an internal queue; arrays have shape (deliveries,)."""

    given: Ints  # rows of deliveries
    since_ns: Ints  # the earliest time at which the broker kept it
    due_ns: Ints
    known_ns: Ints  # the time from which on it was due according to clients
    latest_ns: Ints  # the time at which it was due if its broker stored it just before it answered

    def where(self, rows: Mask) -> _Kept:
        return _Kept(*(column[rows] for column in self))


def check_late_deliveries(columns: Columns, context: Context) -> Verdict:
    """Judge the first deliveries of delayed messages and of retries."""
    hindered = Hindered(columns, context)
    both = _delayed(columns)[1], _retries(columns, context)
    findings = []
    late = 0
    for kept in both:
        came_late, moved_late = _is_late(columns, kept), _moved_late(columns, context, kept)
        late += int(np.count_nonzero(came_late))
        for number in np.flatnonzero(came_late | moved_late).tolist():
            row, *times_ns, latest_ns = [int(column[number]) for column in kept]
            finding = (
                _judge(columns, context, hindered, row, *times_ns) if came_late[number] else None
            )
            if finding is None and moved_late[number]:
                finding = _moved_late_finding(columns, context, row, latest_ns)
            if finding is not None:
                findings.append(finding)
    verdict = observed_verdict("late_deliveries", findings, {"late": late}, None)
    return with_share(verdict, LATE, context, hindered.spans)


def late_rows(columns: Columns, context: Context) -> Columns:
    """Select late messages, and the fewest passing messages that give the same result as all of them."""
    deliveries = columns.deliveries
    delayed, of_sends = _delayed(columns)
    kept_sends = [delayed]
    kept_deliveries = [
        kept.given[_is_late(columns, kept) | _moved_late(columns, context, kept)]
        for kept in (of_sends, _retries(columns, context))
    ]
    apart_ns, index = _apart_ns(context), index_of(columns)
    may_hinder = context.excuses.has_faults or context.timeline.sent_back
    for number, group in enumerate(columns.names.groups if may_hinder else ()):
        for queue, (rows, began_ns, given_ns) in _passes(columns, context, group).items():
            if any(_near(context, group, queue)):
                found = covering(began_ns, given_ns, apart_ns)
                chosen = rows[np.concatenate(list(found))]
                there = is_among(index.delivery_position, np.unique(index.send_position[chosen]))
                kept_sends.append(chosen)
                kept_deliveries.append(np.flatnonzero(there & (deliveries.group == number)))
        for queue, (rows, due_ns, given_ns) in _retries_in_time(columns, context, group).items():
            if any(_near(context, group, queue)):
                found = covering(due_ns, given_ns, apart_ns)
                kept_deliveries.append(rows[np.concatenate(list(found))])
    return some_rows(
        columns,
        sends=np.unique(np.concatenate(kept_sends)),
        deliveries=np.unique(np.concatenate(kept_deliveries)),
    )


def _apart_ns(context: Context) -> int:
    return int(context.facts.timings.request_s * NS_PER_S)


def _near(context: Context, group: str, queue: LogKey) -> Iterator[Span]:
    """Yield the times in which a fault covers the owner of the queue, or any member while no member owns it."""
    excuses, nodes = context.excuses, context.timeline.nodes
    owned = _owned(context, group, queue)
    yield from behind_spans(context, queue.stream)
    yield from unshown_spans(context, queue.stream)
    for process, span in owned:
        yield from shared([span], excuses.spans(LATE, queue.stream, (nodes.get(process),)))
        yield from shared([span], _unanswered_spans(context).get((group, process), ()))
    alone = without([_EVER], [span for _, span in owned])
    yield from shared(alone, excuses.spans(LATE, queue.stream, context.timeline.members(group)))


def _unanswered_spans(context: Context) -> Mapping[tuple[str, int], Sequence[Span]]:
    """Return, by group and member, the times before its reports of send-backs that were not answered."""
    found = context.cache.get("send-backs without an answer")
    if found is None:
        request_ns = int(context.facts.timings.request_s * NS_PER_S)
        spans: dict[tuple[str, int], list[Span]] = {}
        for of in chain.from_iterable(context.timeline.sent_back.values()):
            if of.is_unanswered:
                waited = Span(of.time_ns - request_ns, of.time_ns)
                spans.setdefault((of.group, of.process), []).append(waited)
        found = {member: joined(of) for member, of in spans.items()}
        context.cache["send-backs without an answer"] = found
    assert isinstance(found, dict)
    return found


def _owned(context: Context, group: str, queue: LogKey) -> list[tuple[int, Span]]:
    """Return the process and the time of each ownership of the queue; empty if no member reports any."""
    pair = group, queue
    if pair not in context.timeline.ownership:
        return []
    return list(owned_spans(context, pair, FOREVER_NS))


def _unreported_ns(context: Context, group: str) -> int:
    """Return how long a queue of the group may have had no owner in ns although the history does not show that."""
    is_reported = any(of == group for of, _ in context.timeline.ownership)
    return 0 if is_reported else rebalanced_ns(context.facts.timings)


def _passes(
    columns: Columns, context: Context, group: str
) -> dict[LogKey, tuple[Ints, Ints, Ints]]:
    """Return, by queue, the sends that passed to the group: rows, invocation times, and times of delivery."""
    sends = columns.sends
    given_ns = first_deliveries(columns, group)
    took_ns = given_ns - sends.invoke_ns
    rows = np.flatnonzero((took_ns >= 0) & (took_ns <= _apart_ns(context)))
    stored = np.isin(sends.outcome[rows], (Outcome.OK, Outcome.WEAK))
    plain = (sends.due_ns[rows] == UNKNOWN) & (sends.transaction[rows] == Transaction.NONE)
    rows = rows[stored & plain]
    rows = rows[np.argsort(sends.log[rows], kind="stable")]
    queues, first = np.unique(sends.log[rows], return_index=True)
    return (
        {
            columns.names.logs[queue]: (of, sends.invoke_ns[of], given_ns[of])
            for queue, of in zip(queues.tolist(), np.split(rows, first[1:]), strict=True)
        }
        if len(rows)
        else {}
    )


def _delayed(columns: Columns) -> tuple[Ints, _Kept]:
    """Return rows of delayed sends, and their first delivery to each group from their queue."""
    sends, deliveries = columns.sends, columns.deliveries
    # A request without an answer, also of an earlier attempt, may have reached its broker at any time. A client that
    # does not report its number of attempts may have made several.
    answered = np.isin(sends.outcome, (Outcome.OK, Outcome.WEAK)) & (sends.tries == 1)
    delayed = np.flatnonzero((sends.due_ns != UNKNOWN) & answered & (sends.log != UNKNOWN))
    if not len(delayed):
        return delayed, _Kept(*[delayed] * 5)
    delayed = delayed[np.argsort(sends.message[delayed], kind="stable")]
    messages = sends.message[delayed]
    rows = np.flatnonzero(is_among(deliveries.message, messages))
    sent = delayed[np.searchsorted(messages, deliveries.message[rows])]
    there = sends.log[sent] == deliveries.log[rows]
    rows, sent = _firsts(deliveries, rows[there], sent[there])
    due_ns = sends.due_ns[sent]
    known_ns = np.maximum(due_ns, sends.time_ns[sent])
    latest_ns = due_ns + sends.time_ns[sent] - sends.invoke_ns[sent]
    return delayed, _Kept(rows, sends.invoke_ns[sent], due_ns, known_ns, latest_ns)


def _is_late(columns: Columns, kept: _Kept) -> Mask:
    found: Mask = began_earliest(columns.deliveries, kept.given) - kept.known_ns > LATE_AFTER_NS
    return found


def _moved_late(columns: Columns, context: Context, kept: _Kept) -> Mask:
    """Whether the broker moved each message to its queue long after it was due without a fault, shape (deliveries,)."""
    given, epoch_ms = columns.deliveries, context.facts.wall_epoch_ms
    found: Mask = np.zeros(len(kept.given), np.bool_)
    if epoch_ms is None or not len(found):
        return found
    stored_ms = given.stored_ms[kept.given]
    stored_ns = on_run_clock(stored_ms, epoch_ms)
    streams = columns.names.stream_of_log[given.log[kept.given]]
    found = (stored_ms != UNKNOWN) & (stored_ns - kept.latest_ns > _moved_late_ns(context))
    found &= given.invoke_ns[kept.given] < brokers_stepped_ns(columns, context)[streams]
    for number in np.flatnonzero(found).tolist():
        broker = columns.names.streams[streams[number]]
        since_ns = int(kept.since_ns[number]) - LATE_AFTER_NS
        waited = Span(since_ns, int(stored_ns[number]))
        found[number] = not shared([waited], context.excuses.spans(SLOW, broker, ()))
    return found


def _moved_late_ns(context: Context) -> int:
    facts = context.facts
    bound_ns = MOVED_LATE_NS if facts.disks_observed else MOVED_LATE_OUTSIDE_NS
    return bound_ns + int(2 * facts.timings.flush_wait_s * NS_PER_S)


def _moved_late_finding(columns: Columns, context: Context, row: int, latest_ns: int) -> Finding:
    epoch_ms = context.facts.wall_epoch_ms
    assert epoch_ms is not None
    stored_s = (int(columns.deliveries.stored_ms[row]) - epoch_ms) / 1000
    by_s = stored_s - latest_ns / NS_PER_S
    return finding_at(
        columns,
        columns.deliveries,
        row,
        anomaly=LATE,
        judgement=judge(context.facts.mode, LATE),
        detail=f"its broker moved it {by_s:.3f} s after it was due, and nothing was in the broker's way",
        group=columns.names.groups[columns.deliveries.group[row]],
        at_invocation=True,
    )


def _retries(columns: Columns, context: Context) -> _Kept:
    """Return the first delivery of each retry from its queue, if a report shows when a broker took it back."""
    found = columns.cache.get("retries that were kept back")
    if found is None:
        found = columns.cache["retries that were kept back"] = _find_retries(columns, context)
    assert isinstance(found, _Kept)
    return found


def _find_retries(columns: Columns, context: Context) -> _Kept:
    names, deliveries = columns.names, columns.deliveries
    levels_ms, sent_back = context.facts.delay_levels_ms, context.timeline.sent_back
    is_retry = np.array([topic.startswith(RETRY) for topic in names.topics], np.bool_)
    rows = np.zeros(0, np.int64)
    if levels_ms and sent_back:
        rows = np.flatnonzero(is_retry[deliveries.topic] & (deliveries.tries > 0))
    rows = rows[np.argsort(deliveries.invoke_index[rows], kind="stable")]
    found: list[tuple[int, ...]] = []
    had: set[tuple[int, ...]] = set()
    for row in rows.tolist():
        tries, group = int(deliveries.tries[row]), int(deliveries.group[row])
        message = int(deliveries.message[row])
        one = message, group, tries, int(deliveries.log[row])
        if one in had:
            continue
        had.add(one)
        reports = [
            of
            for of in sent_back.get(names.key(message) or "", ())
            if of.group == names.groups[group] and of.tries == tries - 1
        ]
        if len(reports) == 1 and reports[0].is_clear and reports[0].by_broker:
            since_ns = reports[0].time_ns
            level_ms = levels_ms[min(FIRST_LEVEL + tries - 1, len(levels_ms)) - 1]
            due_ns = since_ns + level_ms * NS_PER_MS
            found.append((row, since_ns, due_ns, due_ns, due_ns))
    table = np.array(found, np.int64).reshape(-1, 5)
    return _Kept(*table.T)


def _retries_in_time(
    columns: Columns, context: Context, group: str
) -> dict[LogKey, tuple[Ints, Ints, Ints]]:
    """Return, by queue, the retries that came soon after they were due: rows, due times, and times of delivery."""
    deliveries, kept = columns.deliveries, _retries(columns, context)
    if group not in columns.names.groups or not len(kept.given):
        return {}
    given_ns = deliveries.invoke_ns[kept.given]
    in_time = given_ns - kept.due_ns <= _apart_ns(context)
    in_time &= deliveries.group[kept.given] == columns.names.groups.index(group)
    rows, due_ns, given_ns = kept.given[in_time], kept.due_ns[in_time], given_ns[in_time]
    queue = deliveries.log[rows]
    return {
        columns.names.logs[number]: (
            rows[queue == number],
            due_ns[queue == number],
            np.maximum(due_ns, given_ns)[queue == number],
        )
        for number in np.unique(queue).tolist()
    }


def _firsts(deliveries: MessageEvents, rows: Ints, sent: Ints) -> tuple[Ints, Ints]:
    """Return the row of the first delivery of each message to each group, and the row of its send."""
    group = deliveries.group[rows]
    order = np.lexsort((deliveries.invoke_index[rows], group, sent))
    new = (np.diff(sent[order], prepend=-1) != 0) | (np.diff(group[order], prepend=-2) != 0)
    return rows[order[new]], sent[order[new]]


def _judge(
    columns: Columns,
    context: Context,
    hindered: Hindered,
    row: int,
    since_ns: int,
    due_ns: int,
    known_ns: int,
) -> Finding | None:
    deliveries = columns.deliveries
    group, queue = columns.names.groups[deliveries.group[row]], queue_of(columns, deliveries, row)
    assert queue is not None  # the delivery came from it
    given_ns = int(deliveries.invoke_ns[row])
    waited = [Span(known_ns, given_ns)]
    if owned := _owned(context, group, queue):
        waited = shared(waited, [span for _, span in owned])
    free = without(waited, hindered.spans(group, queue))
    free_ns = sum(span.length_ns for span in free)
    stored_ns = int(2 * context.facts.timings.flush_wait_s * NS_PER_S)
    late_ns = LATE_AFTER_NS + stored_ns + _unreported_ns(context, group)
    if free_ns <= late_ns:
        return None
    delay_ns = due_ns - since_ns
    stepped = clock_stepped(context, queue, since_ns - delay_ns, given_ns)
    if stepped is None or not context.facts.behaves(REMAINING_TIME):
        started = _starts_ns(context, queue.stream, Span(since_ns - delay_ns, given_ns))
        again = (
            without([Span(at_ns, given_ns)], hindered.spans(group, queue)) for at_ns in started
        )
        is_again = any(sum(of.length_ns for of in spans) <= delay_ns + late_ns for spans in again)
        stepped = (stepped or _log_is_ahead(columns, context, row)) if is_again else None
    by_ns = int(began_earliest(deliveries, row)) - known_ns
    detail = f"{by_ns / NS_PER_S:.3f} s too late, and in {seconds(free_ns)} of that nothing was in its way"
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly=LATE,
        judgement=Judgement.ALLOWED if stepped else judge(context.facts.mode, LATE),
        detail=f"{detail}; {stepped}" if stepped else detail,
        group=group,
        at_invocation=True,
    )


def _log_is_ahead(columns: Columns, context: Context, row: int) -> str | None:
    """Return a text if the store time of a delivery is after the delivery; None otherwise, or if it is not known."""
    deliveries, facts = columns.deliveries, context.facts
    given_ns, stored_ms = int(deliveries.invoke_ns[row]), int(deliveries.stored_ms[row])
    if facts.wall_epoch_ms is None or stored_ms == UNKNOWN:
        return None
    ahead_ns = (stored_ms - facts.wall_epoch_ms) * NS_PER_MS - given_ns
    return (
        "the log of its broker was ahead of its clock" if ahead_ns >= CLOCK_ROUGHNESS_NS else None
    )


def _starts_ns(context: Context, broker: str, within: Span) -> Iterator[int]:
    """Yield the latest times at which the leader of a replica set had restarted, if they are within a span."""
    leader = frozenset(context.facts.replica_sets.get(broker, ())[:1])
    ends = (
        healed_ns(fault)
        for fault in chain.from_iterable(map(by_target, context.facts.faults))
        if STOPS in fault.effects and not leader.isdisjoint(fault.targets)
    )
    exits = (of.time_ns + RESTARTED_NS for of in context.facts.exits if of.node in leader)
    yield from (at_ns for at_ns in chain(ends, exits) if within.start_ns < at_ns < within.end_ns)


LATE_DELIVERIES = Checker(
    name="late_deliveries",
    anomalies=(LATE,),
    check=check_late_deliveries,
    rows=late_rows,
)
