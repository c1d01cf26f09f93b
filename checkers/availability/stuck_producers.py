"""Success of producers: a producer succeeds again soon after the heal of a fault, and always at rest.

**producer_stuck**: a producer sent repeatedly (at least `SENDS_MIN` requests) for `REQUESTS` times as long as a request
may take, and no broker acknowledged with SEND_OK, although no fault hindered the producer on its way to some broker
(excuse_table.py: a fault hinders until the cluster must have recovered from it). If a fault hinders the way to another
broker, only sends count that were tried as often as there are brokers: each attempt goes to another broker, and a
single attempt may always have gone to the wrong one. A broker that has lost its leader accepts no sends. A producer
keeps the routes that it knows. So a fault of a coordinator hinders only a producer that starts, or the way to a leader
that starts. A producer also starts again after a send with an unknown outcome: it then has a new process number. A
stored half message counts as acknowledged, for any outcome of its transaction, and so does a request without a reply.

The checker finds the lasting effects of a fault only if the load continues long enough after it: in campaigns with a
quiet end (`quiet_s`), or with a long time between two faults.

**refused_at_rest**: in ten different seconds of a minute, while the cluster was at rest (rest.py), sends of a producer
were refused, had no answer for as long as a request may take, or needed more than one attempt. Healthy brokers store
the sends that they get, but a broker that is busy for a moment may refuse sends. Illegal sends have no attempts, so
they do not count. A transaction may be rolled back, so only its attempts count. The rule also applies to send-backs of
consumers. In the simulation a single send-back that a broker did not answer is enough, if no fault hindered the broker
and the consumer (send_backs.py).

**weak_at_rest**: the same for sends that brokers answered with a weaker status than SEND_OK, because healthy brokers
keep the promises of the profile. A single such answer is legal at any time: the broker reports that it waited without
success. Only sends count that are so low in the log that no follower can have been haSlaveFallbehindMax behind, because
under load a broker need not wait for such followers.

**overdue_send**: a send took longer than `OVERDUE_TIMES` times the time that the client gives a send with all its
attempts, or a request with its reply (outside the simulation `REQUESTS` times, because a busy machine delays clients).
Faults of brokers and of the network are not an excuse, because the client ends a send by its own clock. Judged only if
this time is known (`Timings.send_s`).

Cannot see: a producer that stops sending; one near faults that succeeds occasionally; sends of forwarders; rarer
refusals and weak statuses; weak statuses of messages whose physical offset is unknown; sends with one attempt and
unknown outcome that ended within the time of a request (such as one-way sends); send-backs of clients that do not
report whether they made the copy.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import chain

import numpy as np

from staticfire.checkers.availability.gap_rows import next_acked, unacknowledged
from staticfire.checkers.availability.send_backs import declined_send_backs
from staticfire.checkers.derived.client_lifetimes import sends_by
from staticfire.checkers.derived.rebalances import starts_ns, stops_ns
from staticfire.checkers.derived.rest import WITHIN_S, often_at_rest
from staticfire.checkers.engine.kernel import Checker, Context, finding_at, some_rows
from staticfire.checkers.engine.observed import observed_verdict
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Verdict, seconds
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    Mask,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.event_times import began_latest, ended_earliest
from staticfire.checkers.model.intervals import Span, joined, without

STUCK, REFUSED, WEAK = "producer_stuck", "refused_at_rest", "weak_at_rest"
NO_ROUTE = "route_unknown"  # row of the table of excuses
OVERDUE = "overdue_send"
OVERDUE_TIMES = 2  # times as long as a client gives a send, in the simulation
REQUESTS = 4  # consecutive requests with their full time and a healthy broker
SENDS_MIN = 4  # least number of requests
REQUEST_BYTES_MAX = 16 << 20  # most bytes that a broker stores for one request


def check_stuck_producers(columns: Columns, context: Context) -> Verdict:
    """Judge the sends of each producer, and the send-backs of consumers."""
    findings = [
        finding
        for node in context.facts.producers
        for judged in (_stuck, _refused_at_rest, _weak_at_rest, _overdue_send)
        if (finding := judged(columns, context, node)) is not None
    ]
    findings += declined_send_backs(context)
    counts = {"producers": len(context.facts.producers)}
    return observed_verdict("stuck_producers", findings, counts, None)


def _stuck(columns: Columns, context: Context, node: str) -> Finding | None:
    sends = columns.sends
    rows = sends_by(sends, context, (node,))
    through = _got_through(sends)[rows]
    brokers, living = sorted(context.facts.replica_sets), context.facts.living_sets
    _, firsts = np.unique(sends.process[rows], return_index=True)
    again_ns = sorted(sends.invoke_ns[rows][firsts].tolist())[1:]  # of each process but the first
    hindered = {broker: _hindered(context, broker, node, again_ns) for broker in brokers}
    anywhere = joined(chain.from_iterable(hindered.values()))
    everywhere = sends.tries[rows] >= len(brokers)
    serving = [broker for broker in brokers if broker in living]
    judged = [(broker, anywhere, np.full(len(rows), True)) for broker in serving[:1]]
    judged += [(broker, hindered[broker], everywhere) for broker in serving]
    for broker, spans, counts in judged:
        for free in without([Span(0, FOREVER_NS)], spans):
            for failed in _failed_intervals(sends, rows, through, counts, free):
                if _is_long(sends, failed, context):
                    return _finding(columns, context, node, broker, failed)
    return None


def _hindered(context: Context, broker: str, node: str, again_ns: Sequence[int]) -> list[Span]:
    """Return the times in which a fault hinders a producer on its way to a broker.

    `again_ns`: when the producer began its first send under each further process number, without a route yet.
    """
    spans = context.excuses.spans(STUCK, broker, (node,))
    timings = context.facts.timings
    starts = [*starts_ns(context, frozenset({node})), *again_ns]
    leader = frozenset(context.facts.replica_sets.get(broker, ())[:1])
    asked_ns = round(2 * timings.request_s * NS_PER_S)  # a producer that starts asks for a route
    known_ns = round((timings.register_s + timings.route_refresh_s) * NS_PER_S)
    for window in context.excuses.windows(NO_ROUTE, broker, (node,)):
        start_ns, end_ns = window.start_ns, window.end_ns
        if (
            not starts
            or any(start_ns - asked_ns <= at <= end_ns for at in starts)
            or any(start_ns - known_ns <= at <= end_ns for at in stops_ns(context, leader))
        ):
            spans.append(Span(start_ns, end_ns))
    return joined(spans)


def _got_through(sends: MessageEvents) -> Mask:
    """Whether a broker stored each send as safely as requested: it acknowledged it, or kept it at a known position."""
    kept = (sends.log != UNKNOWN) & (sends.outcome != Outcome.WEAK)
    through: Mask = (sends.outcome == Outcome.OK) | kept
    return through


def _failed_intervals(
    sends: MessageEvents, rows: Ints, through: Mask, counts: Mask, free: Span
) -> Iterator[Ints]:
    """Yield the rows of consecutive sends that count, began and ended in `free`, and were not stored."""
    begun_ns, ended_ns = sends.invoke_ns[rows], sends.time_ns[rows]
    inside = (begun_ns >= free.start_ns) & (begun_ns < free.end_ns)
    rows, through = rows[inside], through[inside]
    counted = ~through & counts[inside] & (ended_ns[inside] <= free.end_ns)
    for interval in np.split(np.arange(len(rows)), np.flatnonzero(through)):
        failed = interval[counted[interval]]
        if len(failed):
            yield rows[failed]


def _is_long(sends: MessageEvents, failed: Ints, context: Context) -> bool:
    lasted_ns = int(sends.time_ns[failed].max() - sends.invoke_ns[failed[0]])
    bound_ns = int(REQUESTS * context.facts.timings.request_s * NS_PER_S)
    return lasted_ns > bound_ns and len(np.unique(sends.invoke_ns[failed])) >= SENDS_MIN


def _finding(columns: Columns, context: Context, node: str, broker: str, failed: Ints) -> Finding:
    sends = columns.sends
    since_ns = int(sends.invoke_ns[failed[0]])
    lasted = seconds(int(sends.time_ns[failed].max()) - since_ns)
    count = len(np.unique(sends.invoke_ns[failed]))
    return finding_at(
        columns,
        sends,
        int(failed[0]),
        anomaly=STUCK,
        judgement=judge(context.facts.mode, STUCK),
        detail=f"{node} got no SEND_OK for {lasted}, in {count} sends, and no fault was in its way to {broker}",
        at_invocation=True,
    )


def _refused_at_rest(columns: Columns, context: Context, node: str) -> Finding | None:
    refused = _unserved(columns.sends, context)
    ended = "refused, not answered, or tried again,"
    return _again_and_again(columns, context, node, REFUSED, refused, ended)


def _weak_at_rest(columns: Columns, context: Context, node: str) -> Finding | None:
    sends = columns.sends
    highest = context.facts.follower_behind_max_bytes - REQUEST_BYTES_MAX
    is_low = (sends.position != UNKNOWN) & (sends.position < highest)
    weak = (sends.outcome == Outcome.WEAK) & is_low
    return _again_and_again(columns, context, node, WEAK, weak, "answered with a weaker status")


def _overdue_send(columns: Columns, context: Context, node: str) -> Finding | None:
    """Return a finding for the first send of the node that took too long although no fault hindered the node."""
    sends = columns.sends
    rows = sends_by(sends, context, (node,))
    for row in rows[_took_too_long(sends, context)[rows]].tolist():
        began_ns, ended_ns = int(began_latest(sends, row)), int(ended_earliest(sends, row))
        if context.excuses.find(OVERDUE, began_ns, ended_ns, None, (node,)) is None:
            return finding_at(
                columns,
                sends,
                row,
                anomaly=OVERDUE,
                judgement=judge(context.facts.mode, OVERDUE),
                detail=f"a send of {node} took {seconds(ended_ns - began_ns)}; "
                f"its client gives it {context.facts.timings.send_s:g} s",
                at_invocation=True,
            )
    return None


def _took_too_long(sends: MessageEvents, context: Context) -> Mask:
    """Whether each send took too long, shape (sends,)."""
    times = OVERDUE_TIMES if context.facts.disks_observed else REQUESTS
    most_ns = int(times * context.facts.timings.send_s * NS_PER_S)
    found: Mask = ended_earliest(sends) - began_latest(sends) > (most_ns or FOREVER_NS)
    return found


def _again_and_again(
    columns: Columns, context: Context, node: str, anomaly: str, found: Mask, ended: str
) -> Finding | None:
    """Return a finding if many seconds of a minute at rest have a send of the node in `found`, a mask of sends."""
    sends = columns.sends
    rows = sends_by(sends, context, (node,))
    rows = rows[found[rows]]
    often = often_at_rest(context, node, sends.invoke_ns[rows], sends.time_ns[rows])
    if often is None:
        return None
    return finding_at(
        columns,
        sends,
        int(rows[often.first]),
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        detail=f"sends of {node} were {ended} in {often.seconds} seconds of the next {WITHIN_S}, "
        "and no fault was near",
        at_invocation=True,
    )


def _unserved(sends: MessageEvents, context: Context) -> Mask:
    """Whether each send is legal and at least one of its attempts failed, shape (sends,)."""
    waited = sends.time_ns - sends.invoke_ns >= int(context.facts.timings.request_s * NS_PER_S)
    silent = (sends.outcome == Outcome.UNKNOWN) & waited & (sends.log == UNKNOWN)
    tried = (sends.tries > 0) & (sends.transaction == Transaction.NONE)
    found: Mask = tried & ((sends.outcome == Outcome.FAILED) | silent)
    return found | (sends.tries > 1)


def first_rows(columns: Columns, context: Context) -> Columns:
    """Select sends of producers that were not acknowledged at the first attempt, or took too long."""
    return some_rows(columns, sends=_that_matter(columns, context))


def _that_matter(columns: Columns, context: Context) -> Mask:
    sends = columns.sends
    again: Mask = sends.tries > 1
    return unacknowledged(sends, context) | _took_too_long(sends, context) | again


def rows_again(columns: Columns, context: Context, gathered: Columns) -> Columns:
    """Select the same sends, and the next acknowledged send of these queues after each failed one of any queue."""
    wanted = _that_matter(columns, context)
    for node in context.facts.producers:
        wanted[next_acked(columns.sends, gathered.sends, context, node)] = True
    return some_rows(columns, sends=wanted)


STUCK_PRODUCERS = Checker(
    name="stuck_producers",
    anomalies=(STUCK, REFUSED, WEAK, OVERDUE),
    check=check_stuck_producers,
    rows=first_rows,
    rows_again=rows_again,
    applies=lambda context: bool(context.facts.producers or context.timeline.sent_back),
)
