"""Delivery in time: the listener receives a message at once if nothing delays it.

**slow_delivery**: an acknowledged message waited in its queue for longer than the bound. Time counts only while no
listener of the group ran for the queue, a live member owned it, and no fault excused the wait (`excuse_table.py`). A
call that begins ends a wait, even if it has another message. The bound is half a second plus the time of two packets
(`Timings.packet_s`, known in the simulation), at most two seconds; on real machines it is two seconds. With short
polling the bound also includes the time until a broker checks held pulls (`Timings.poll_s`). On a slow disk the bound
is at least the time until the broker flushes a message (`Timings.flush_wait_s`). These waits of a member do not count:

* The first `STARTED_WITHIN_NS` after it gained the queue. But the time between two messages that it received counts
  even then, because the member had begun, and still had the queue.
* `PUT_OFF_NS` after an orderly listener failed, because the member retries the message before it continues.
* The time until a member has sent back a message for which its listener failed, if the broker declined it, because the
  client then sends a copy of its own. A broker that makes the copy answers at once.
* The time in which a member fetches nothing because it keeps failed messages that it cannot send back. It passes them
  to its listener again after `HELD_NS`. Until then it fetches nothing if it keeps more than `HELD_MAX` messages of the
  queue, and nothing that is more than `SPAN_MAX` behind a message that it keeps.

In a clustering group the first delivery counts, in a broadcasting group the first one to each member's process. In a
group that changed its filter only messages that both filters accept count. The checker allows more time for followers
that lost their leader for good, because they ask each other first, and for members that read from a follower that
started while no coordinator answered, because this follower does not know its leader. If leaders redirect members to
followers, it also allows the time until TCP repeats the data that a broken link between the two delayed
(`followers_behind.py`).

If no acknowledgement reports the position of a message, the rule applies from its store time on. This concerns messages
that brokers first keep in an internal queue (delays, transactions), retries, and sends without an answer. An
acknowledgement shows that a synchronous leader serves the message. Without an acknowledgement, the time does not count
in which a fault kept the message from the follower for which the leader waits. The checker skips such a message if a
fault had set the clock of its broker wrong before the delivery.

Cannot see: messages that were never delivered (`unseen`); messages that were not acknowledged, if their store time is
not known, as on real machines; waits that calls interrupt repeatedly, none of them longer than the bound; the wait of a
message that is not yet in its queue (`late_delivery`); the first `STARTED_WITHIN_NS` of a member that receives nothing
in this time, or nothing more; groups that report no assignments.

Source: PullRequestHoldService of Apache RocketMQ 4.9: a broker holds a pull that finds nothing for 15 s, and answers it
as soon as a message arrives. With short polling it checks the pull every 5 s, and so does each follower
(ReputMessageService), which the bound allows in faithful mode. Jepsen measures latency and does not judge it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from operator import attrgetter

import numpy as np

from staticfire.checkers.derived.followers_behind import (
    behind_spans,
    leaderless_spans,
    uncopied_spans,
    unsent_spans,
    unshown_spans,
)
from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.derived.wall_clocks import brokers_stepped_ns, on_run_clock
from staticfire.checkers.engine.kernel import (
    Context,
    Kernel,
    Split,
    finding_at,
    nothing_missing,
    queue_of,
)
from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.features.message_times import ROUGHNESS_NS
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, seconds
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Chunk,
    Columns,
    Ints,
    LogKey,
    Mask,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.intervals import Span, joined, shared, without

# A message usually takes milliseconds from its acknowledgement to the listener. The member may have to send a request
# first, and the answer takes another packet. A busy machine or an unknown network takes longer.
AT_ONCE_NS, AT_ONCE_MAX_NS = NS_PER_S // 2, 2 * NS_PER_S
PACKETS = 2
# In this time the member asks for the offset, repeats the request if no broker answers, and sends the first pull.
STARTED_WITHIN_NS = 10 * NS_PER_S
PUT_OFF_NS = 10 * NS_PER_S
# RocketMQ: pullThresholdForQueue, consumeConcurrentlyMaxSpan, ConsumeMessageConcurrentlyService
HELD_MAX, SPAN_MAX = 1000, 2000
HELD_NS = 5 * NS_PER_S
# an arrival wakes no pull at Apache's followers: they check held pulls every 5 s
FOLLOWERS_LOOK_NS = 5 * NS_PER_S
NEVER = -1
ANY_PROCESS = -1


Reader = tuple[
    int, int, int
]  # a queue, a group, and a process if the group broadcasts, else ANY_PROCESS
Tenure = tuple[
    int, int, int, int
]  # a queue, a group, a process, and since when it has owned the queue


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Held:
    """Messages of failed calls, and the time in which a member may have kept each of them; arrays of shape (messages,).

    The time ends when the member passed the message to its listener again, or after HELD_NS if it never did, because it
    may have lost the queue.
    """

    process: Ints
    queue_offset: Ints
    since_ns: Ints
    until_ns: Ints


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Candidates:
    """First deliveries that were late, according to one chunk of a queue; arrays of shape (deliveries,)."""

    number: int  # of the chunk
    given: MessageEvents
    # when the message was acknowledged, or stored if no acknowledgement reports its position
    available_ns: Ints
    is_acked: Mask
    # By reader: the times in which its listener ran for messages of this chunk; gaps up to the least bound are closed.
    busy: Mapping[Reader, Sequence[Span]]
    # By tenure: the first and the last time at which the owner received messages of this chunk.
    given_in: Mapping[Tenure, Span]
    held: Mapping[Reader, Held]


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class DeliveryWaits:
    """The state of some chunks of one queue. `merge` is associative and commutative."""

    chunks: tuple[Candidates, ...] = ()
    counts: Tally = field(default_factory=Tally)

    def merge(self, other: DeliveryWaits) -> DeliveryWaits:
        chunks = sorted((*self.chunks, *other.chunks), key=lambda chunk: chunk.number)
        return DeliveryWaits(chunks=tuple(chunks), counts=self.counts.merge(other.counts))


def tally_delivery_waits(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole queues (partition key: log)."""
    return conclude_waits(_scan(columns, context, 0), columns, context)


def scan_waits(columns: Columns, context: Context, chunk: Chunk) -> DeliveryWaits:
    """Find late deliveries in a chunk of a queue. The readers may have been busy with other chunks at these times."""
    return _scan(columns, context, chunk.number)


def conclude_waits(state: DeliveryWaits, columns: Columns, context: Context) -> Tally:
    """Judge the late deliveries. The function reads only the names of `columns`."""
    findings: list[Finding] = []
    busy: dict[Reader, list[Span]] = {}
    given_in: dict[Tenure, Span] = {}
    for chunk in state.chunks:
        for reader, spans in chunk.busy.items():
            busy[reader] = joined([*busy.get(reader, ()), *spans])
        for tenure, (first_ns, last_ns) in chunk.given_in.items():
            other = given_in.get(tenure, Span(first_ns, last_ns))
            given_in[tenure] = Span(min(first_ns, other.start_ns), max(last_ns, other.end_ns))
    held: dict[Reader, list[Held]] = {}
    for chunk in state.chunks:
        for reader, kept in chunk.held.items():
            held.setdefault(reader, []).append(kept)
    for reader, parts in held.items():
        busy[reader] = joined([*busy[reader], *_too_much_held(parts)])
    for chunk in state.chunks:
        given = chunk.given
        for row in range(len(given)):
            reader = _reader(columns, context, given, row)
            waited = Span(int(chunk.available_ns[row]), int(given.invoke_ns[row]))
            idle = _idle(waited, busy.get(reader, ()))
            far_behind = _held_before(held.get(reader, ()), int(given.queue_offset[row]))
            idle = without(idle, joined(far_behind))
            findings.extend(_judge(columns, context, chunk, row, idle, given_in))
    return state.counts.merge(Tally.of(findings))


def _idle(waited: Span, busy: Sequence[Span]) -> list[Span]:
    """Return the idle time within `waited`. `busy` must be sorted, and its spans must not overlap."""
    first = bisect_left(busy, waited.start_ns, key=attrgetter("end_ns"))
    last = bisect_left(busy, waited.end_ns, key=attrgetter("start_ns"))
    return without([waited], busy[first:last])


def bound_ns(context: Context, broker: str | None = None) -> int:
    """Return how long a message may wait without a fault, in ns; without a replica set, the least of all bounds."""
    facts = context.facts
    has_follower = len(facts.replica_sets.get(broker, ())) > 1 if broker is not None else False
    unwoken_ns = FOLLOWERS_LOOK_NS if has_follower and facts.mode == "faithful" else 0
    at_once_ns = AT_ONCE_NS + int(PACKETS * facts.timings.packet_s * NS_PER_S)
    flush_wait_ns = int(facts.timings.flush_wait_s * NS_PER_S)
    at_once_ns = max(min(at_once_ns, AT_ONCE_MAX_NS), flush_wait_ns)
    return at_once_ns + unwoken_ns + int(facts.timings.poll_s * NS_PER_S)


def _scan(columns: Columns, context: Context, number: int) -> DeliveryWaits:
    available_ns, is_acked = _there_ns(columns, context)
    sends, deliveries, bound = columns.sends, columns.deliveries, bound_ns(context)
    rows: list[Ints] = []
    busy: dict[Reader, list[Span]] = {}
    given_in: dict[Tenure, Span] = {}
    held: dict[Reader, Held] = {}
    waited = 0
    for of_reader in _readers(columns, context):
        group = int(deliveries.group[of_reader[0]])
        reader = _reader(columns, context, deliveries, of_reader[0])
        put_off_ns = PUT_OFF_NS if columns.names.groups[group] in context.facts.orderly else 0
        begins_ns, ends_ns = _at_work(columns, context, of_reader, put_off_ns, bound)
        spans = map(Span, begins_ns.tolist(), ends_ns.tolist())
        busy[reader] = list(spans)
        given_in.update(_given_in(columns, context, of_reader))
        kept = _held(columns, of_reader)
        if len(kept.process):
            held[reader] = kept
        there = available_ns[of_reader]
        name = columns.names.groups[group]
        if name in context.facts.filters_changed_ns:
            there = _acked_ns(columns, context.matches(columns, sends, name))[of_reader]
        waited += int(np.count_nonzero(there != NEVER))
        # The call itself begins in one of the spans. A gap before that span is longer than the bound.
        own = np.searchsorted(begins_ns, deliveries.invoke_ns[of_reader], side="right") - 1
        idle_since = np.concatenate(([NEVER], ends_ns[:-1]))[own]
        late = (there != NEVER) & (begins_ns[own] - np.maximum(there, idle_since) > bound)
        if np.any(late):
            _, first = np.unique(index_of(columns).delivery_position[of_reader], return_index=True)
            rows.append(of_reader[first[late[first]]])
    chosen = np.concatenate([np.zeros(0, np.int64), *rows])
    candidates = Candidates(
        number=number,
        given=deliveries.where(chosen),
        available_ns=available_ns[chosen],
        is_acked=is_acked[chosen],
        busy=busy,
        given_in=given_in,
        held=held,
    )
    return DeliveryWaits(
        chunks=(candidates,), counts=Tally(counts={"timed": waited} if waited else {})
    )


def _at_work(
    columns: Columns, context: Context, rows: Ints, put_off_ns: int, gap_ns: int
) -> tuple[Ints, Ints]:
    """Return the times in which the listener of a reader ran: their begins and their ends, shape (times,), sorted.

    Gaps of at most `gap_ns` are closed. Each call takes at least a nanosecond, so that a call without a duration also
    ends a gap. A call without an end lasts until its process ended. If a broker declined to take the message back, the
    call lasts until the member reports that.
    """
    deliveries = columns.deliveries
    begins_ns = deliveries.invoke_ns[rows]
    ends_ns = np.maximum(deliveries.time_ns[rows], begins_ns + 1)
    has_no_end = deliveries.op_index[rows] == deliveries.invoke_index[rows]
    has_no_end &= deliveries.outcome[rows] == Outcome.UNKNOWN
    for at in np.flatnonzero(has_no_end).tolist():
        died_ns = ended_ns(context, int(deliveries.process[rows[at]]))
        if died_ns != FOREVER_NS:
            ends_ns[at] = max(died_ns, int(ends_ns[at]))
    ends_ns = ends_ns + put_off_ns * (deliveries.outcome[rows] != Outcome.OK)
    ends_ns = np.maximum(ends_ns, _declined_ns(columns, context, rows))
    order = np.argsort(begins_ns, kind="stable")
    begins_ns, ends_ns = begins_ns[order], np.maximum.accumulate(ends_ns[order])
    apart = np.flatnonzero(begins_ns[1:] - ends_ns[:-1] > gap_ns)
    return begins_ns[np.append(0, apart + 1)], ends_ns[np.append(apart, len(ends_ns) - 1)]


def _declined_ns(columns: Columns, context: Context, rows: Ints) -> Ints:
    """Return when a member reported that a broker declined the message of each delivery, or NEVER; shape of `rows`."""
    deliveries, sent_back = columns.deliveries, context.timeline.sent_back
    found = np.full(len(rows), NEVER)
    if not sent_back:
        return found
    within_ns = round(context.facts.timings.send_back_s * NS_PER_S)
    for at in np.flatnonzero(deliveries.outcome[rows] != Outcome.OK).tolist():
        row = rows[at]
        call = int(deliveries.process[row]), int(deliveries.tries[row])
        ended_at_ns = int(deliveries.time_ns[row])
        reports = sent_back.get(columns.names.key(int(deliveries.message[row])) or "", ())
        reported_ns = (
            of.time_ns
            for of in reports
            if of.is_declined and (of.process, of.tries) == call
            if 0 <= of.time_ns - ended_at_ns <= within_ns
        )
        found[at] = max(reported_ns, default=NEVER)
    return found


def _held(columns: Columns, rows: Ints) -> Held:
    """Return the failed messages of a reader that its members may have kept."""
    deliveries, position = columns.deliveries, index_of(columns).delivery_position
    by_member = position[rows], deliveries.process[rows]
    rows = rows[np.lexsort((deliveries.invoke_ns[rows], *by_member))]
    until_ns = deliveries.time_ns[rows] + HELD_NS
    comes_again = position[rows[:-1]] == position[rows[1:]]
    comes_again &= deliveries.process[rows[:-1]] == deliveries.process[rows[1:]]
    until_ns[:-1][comes_again] = deliveries.invoke_ns[rows[1:]][comes_again]
    failed = deliveries.outcome[rows] != Outcome.OK
    failed &= deliveries.op_index[rows] != deliveries.invoke_index[rows]
    since_ns = deliveries.time_ns[rows[failed]]
    return Held(
        process=deliveries.process[rows[failed]],
        queue_offset=deliveries.queue_offset[rows[failed]],
        since_ns=since_ns,
        until_ns=np.maximum(since_ns, until_ns[failed]),
    )


def _too_much_held(parts: Sequence[Held]) -> Iterator[Span]:
    """Yield the times in which a member kept more than HELD_MAX messages of a reader."""
    if sum(len(part.process) for part in parts) <= HELD_MAX:
        return
    process = np.concatenate([part.process for part in parts])
    since_ns = np.concatenate([part.since_ns for part in parts])
    until_ns = np.concatenate([part.until_ns for part in parts])
    for one in np.unique(process).tolist():
        mine = process == one
        ends_ns = np.concatenate((since_ns[mine], until_ns[mine]))
        change = np.repeat((1, -1), np.count_nonzero(mine))
        order = np.lexsort((change, ends_ns))
        ends_ns, kept = ends_ns[order], np.cumsum(change[order])
        for at in np.flatnonzero(kept[:-1] > HELD_MAX).tolist():
            yield Span(int(ends_ns[at]), int(ends_ns[at + 1]))


def _held_before(parts: Sequence[Held], queue_offset: int) -> Iterator[Span]:
    """Yield the times in which a member kept a message that is more than SPAN_MAX before this offset."""
    for part in parts:
        for at in np.flatnonzero(part.queue_offset < queue_offset - SPAN_MAX - 1).tolist():
            yield Span(int(part.since_ns[at]), int(part.until_ns[at]))


def _given_in(columns: Columns, context: Context, rows: Ints) -> Iterator[tuple[Tenure, Span]]:
    """Yield each tenure of a queue with the first and the last time at which its owner received messages in it."""
    deliveries = columns.deliveries
    group, log = int(deliveries.group[rows[0]]), int(deliveries.log[rows[0]])
    for process, owned in _owned(context, (columns.names.groups[group], columns.names.logs[log])):
        given_ns = deliveries.invoke_ns[rows[deliveries.process[rows] == process]]
        given_ns = given_ns[(given_ns >= owned.start_ns) & (given_ns < owned.end_ns)]
        if len(given_ns):
            given_in = Span(int(given_ns.min()), int(given_ns.max()))
            yield (log, group, process, owned.start_ns), given_in


def _reader(columns: Columns, context: Context, given: MessageEvents, row: int) -> Reader:
    group = int(given.group[row])
    is_shared = columns.names.groups[group] not in context.facts.broadcasting
    return int(given.log[row]), group, ANY_PROCESS if is_shared else int(given.process[row])


def _there_ns(columns: Columns, context: Context) -> tuple[Ints, Mask]:
    """Return when each delivered message became available in ns, and whether an acknowledgement shows that.

    The time is NEVER if it is not known. Both arrays have shape (deliveries,).
    """
    deliveries = columns.deliveries
    acked_ns = _acked_ns(columns)
    is_acked = acked_ns != NEVER
    epoch_ms = context.facts.wall_epoch_ms
    if epoch_ms is None or not len(deliveries):
        return acked_ns, is_acked
    stored_ns = on_run_clock(deliveries.stored_ms, epoch_ms) + ROUGHNESS_NS
    stepped = brokers_stepped_ns(columns, context)[columns.names.stream_of_log[deliveries.log]]
    is_known = (deliveries.stored_ms != UNKNOWN) & (deliveries.invoke_ns < stepped)
    return np.where(is_acked | ~is_known, acked_ns, np.maximum(stored_ns, 0)), is_acked


def _acked_ns(columns: Columns, among: Mask | None = None) -> Ints:
    """Return when each delivered message was acknowledged in ns, NEVER if it was not; shape (deliveries,).

    If a power cut destroyed a message, its position may hold another one later.

    Args:
        columns: of whole queues, or of a chunk.
        among: the sends that count, a mask of shape (sends,); None: all.
    """
    sends, deliveries, index = columns.sends, columns.deliveries, index_of(columns)
    visible = (sends.outcome == Outcome.OK) & (sends.transaction == Transaction.NONE)
    if among is not None:
        visible &= among
    rows = np.flatnonzero(visible & (sends.due_ns == UNKNOWN) & index.placed)
    found = np.full(index.size, NEVER, np.int64)
    message = np.full(index.size, UNKNOWN, np.int64)
    np.maximum.at(found, index.send_position[rows], sends.time_ns[rows])
    message[index.send_position[rows]] = sends.message[rows]
    acked_ns = found[index.delivery_position]
    other = message[index.delivery_position] != deliveries.message
    odd = np.flatnonzero(other & (acked_ns != NEVER))
    if len(odd):
        positions, messages = index.send_position[rows].tolist(), sends.message[rows].tolist()
        exact = dict(
            zip(zip(positions, messages, strict=True), sends.time_ns[rows].tolist(), strict=True)
        )
        pairs = zip(
            index.delivery_position[odd].tolist(), deliveries.message[odd].tolist(), strict=True
        )
        acked_ns[odd] = [exact.get(pair, NEVER) for pair in pairs]
    return acked_ns


def _readers(columns: Columns, context: Context) -> Iterator[Ints]:
    """Yield the rows of deliveries of each reader of each queue, in the order of calls."""
    streams, process = index_of(columns).streams, columns.deliveries.process
    for start, stop in pairwise(streams.starts.tolist()):
        rows = streams.row(np.arange(start, stop))
        group = columns.names.groups[columns.deliveries.group[rows[0]]]
        if group in context.facts.broadcasting:
            for one in np.unique(process[rows]).tolist():
                yield rows[process[rows] == one]
        else:
            yield rows


def _judge(
    columns: Columns,
    context: Context,
    chunk: Candidates,
    row: int,
    idle: Sequence[Span],
    given_in: Mapping[Tenure, Span],
) -> Iterator[Finding]:
    """Judge one delivery. `idle` are the times in which its reader was not busy while the message waited."""
    given = chunk.given
    group, queue = columns.names.groups[given.group[row]], queue_of(columns, given, row)
    assert queue is not None  # the delivery came from it
    longest = Span(0, 0)
    bound = bound_ns(context, queue.stream)
    for process, owned in _owned(context, (group, queue)):
        if group in context.facts.broadcasting and process != int(given.process[row]):
            continue
        tenure = int(given.log[row]), int(given.group[row]), process, owned.start_ns
        started = Span(owned.start_ns + STARTED_WITHIN_NS, owned.end_ns)
        ready = [started, given_in.get(tenure, started)]
        able = [span for span in shared(idle, ready) if span.length_ns > bound]
        if not able:
            continue
        node = context.timeline.nodes.get(process)
        excused = [
            *context.excuses.spans("slow_delivery", queue.stream, (node,)),
            *behind_spans(context, queue.stream),
            *leaderless_spans(context, queue.stream, process),
            *unsent_spans(context, queue.stream),
        ]
        if not chunk.is_acked[row]:
            excused += [
                *unshown_spans(context, queue.stream),
                *uncopied_spans(context, queue.stream),
            ]
        longest = max([longest, *without(able, excused)], key=_length_ns)
    if longest.length_ns > bound:
        yield finding_at(
            columns,
            given,
            row,
            anomaly="slow_delivery",
            judgement=judge(context.facts.mode, "slow_delivery"),
            detail=f"process {given.process[row]} could have had it {seconds(longest.length_ns)} earlier: no fault and "
            f"no other work held it up; the bound is {seconds(bound)}",
            group=group,
            at_invocation=True,
        )


def _length_ns(span: Span) -> int:
    return span.length_ns


def _owned(context: Context, pair: tuple[str, LogKey]) -> Iterator[tuple[int, Span]]:
    """Yield the process and the time of each ownership of a queue."""
    since: dict[int, int] = {}
    for change in context.timeline.ownership.get(pair, ()):
        if change.change == "gained":
            since.setdefault(change.process, change.time_ns)
        elif change.process in since:
            end_ns = min(change.time_ns, ended_ns(context, change.process))
            yield change.process, Span(since.pop(change.process), end_ns)
    for process, start_ns in since.items():
        yield process, Span(start_ns, ended_ns(context, process))


DELIVERY_WAITS = Kernel(
    name="delivery_waits",
    partition_by="log",
    anomalies=("slow_delivery",),
    partial=tally_delivery_waits,
    unknown_reason=nothing_missing,
    split=Split(scan_waits, conclude_waits),
)
