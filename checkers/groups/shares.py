"""Shares of a group: the numbers of queues of a topic that its living members own differ by at most one.

**uneven_shares**: one living member of a group owned at least two queues of a topic more than another one for longer
than a rebalance takes, while the cluster was at rest (rest.py) and no member started or ended. The strategies AVG and
AVG_BY_CIRCLE promise even shares: every member computes its share from the same two lists. The facts name the groups
that use one of the two (`evenly`). In an orderly group, the lock of a member that ended may keep a queue from its new
owner until the lock expires.

A member that gives up its last queue, and never owns one again, may have left: it counts only until then.

Cannot see: a member that never has a queue; groups in which a member does not report its subscription, or in which
members subscribe to different topics; topics that their first message creates, because clients learn of these at
different times; uneven shares near faults.

Source: AllocateMessageQueueAveragely, AllocateMessageQueueAveragelyByCircle and RebalanceImpl of Apache RocketMQ 4.9.
Jepsen does not judge groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.derived.rebalances import bound_ns
from staticfire.checkers.derived.rest import spans_at_rest
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.groups.groups import owned_spans, watched_until_ns
from staticfire.checkers.guarantees.promises import NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict, seconds
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.intervals import Span, shared, without

UNEVEN = "uneven_shares"
MORE = 2  # queues; a difference of one is the remainder
# time, process, change of its number of queues, and 1 if it starts, -1 if it ends
Event = tuple[int, int, int, int]


def check_shares(_columns: Columns, context: Context) -> Verdict:
    """Judge each topic of each group that divides its queues evenly."""
    pairs = [
        (group, topic)
        for group in context.facts.evenly
        for topic in context.facts.groups.get(group, ())
    ]
    findings = [
        finding for group, topic in pairs if (finding := _uneven(context, group, topic)) is not None
    ]
    tally = Tally.of(findings, shared_out=len(pairs))
    return Verdict(
        checker="shares", valid=not findings, counts=tally.counts, findings=tally.findings
    )


def _uneven(context: Context, group: str, topic: str) -> Finding | None:
    lives = _lives(context, group, topic)
    if lives is None:
        return None
    # A member that never got a queue also counts as a member that started.
    opened = [
        Span(one.time_ns, one.time_ns + 1)
        for one in context.timeline.subscriptions
        if one.group == group
    ]
    locked_s = context.facts.timings.lock_life_s if group in context.facts.orderly else 0.0
    locked_ns = int(locked_s * NS_PER_S)
    watched = Span(0, watched_until_ns(context))
    members = {context.timeline.nodes.get(process) for process in lives}
    rests = [
        rest
        for rest in without(shared(spans_at_rest(context, members), [watched]), opened)
        if rest.length_ns > bound_ns(context, group, rest) + locked_ns
    ]
    if not rests:
        return None
    uneven = list(_uneven_spans(_events(context, group, topic, lives)))
    for span in (piece for rest in rests for piece in shared(uneven, [rest])):
        if span.length_ns > bound_ns(context, group, span) + locked_ns:
            return Finding(
                anomaly=UNEVEN,
                judgement=judge(context.facts.mode, UNEVEN),
                op_index=-1,
                time_ns=span.start_ns,
                detail="for "
                f"{seconds(span.length_ns)} one living member had at least {MORE} queues more than another one",
                topic=topic,
                group=group,
            )
    return None


def _lives(context: Context, group: str, topic: str) -> Mapping[int, Span] | None:
    """Return the lifetime of each member; None unless all members report a subscription to this topic and no other."""
    reported = [one for one in context.timeline.subscriptions if one.group == group]
    members = {one.process: one.time_ns for one in reported}
    owners = {
        change.process
        for pair, changes in context.timeline.ownership.items()
        if pair[0] == group
        for change in changes
    }
    if (
        len(members) < 2
        or {one.topic for one in reported} != {topic}
        or not owners <= members.keys()
    ):
        return None
    had_until: dict[int, int] = {}
    for process, span in _owned(context, group, topic):
        had_until[process] = max(span.end_ns, had_until.get(process, 0))
    return {
        process: Span(members[process], min(until_ns, ended_ns(context, process)))
        for process, until_ns in had_until.items()
        if members[process] < until_ns
    }


def _owned(context: Context, group: str, topic: str) -> Iterator[tuple[int, Span]]:
    """Yield the process and the time of each ownership of a queue of the topic."""
    end_ns = watched_until_ns(context)
    for pair in context.timeline.ownership:
        if pair[0] == group and pair[1].topic == topic:
            yield from owned_spans(context, pair, end_ns)


def _events(context: Context, group: str, topic: str, lives: Mapping[int, Span]) -> Sequence[Event]:
    """Return the events at which members started, ended, gained queues and gave them up, sorted."""
    events = [
        event
        for process, life in lives.items()
        for event in ((life.start_ns, process, 0, 1), (life.end_ns, process, 0, -1))
    ]
    for process, span in _owned(context, group, topic):
        events += [(span.start_ns, process, 1, 0), (span.end_ns, process, -1, 0)]
    return sorted(events)


def _uneven_spans(events: Sequence[Event]) -> Iterator[Span]:
    """Yield the times in which the numbers of queues of two living members differed by at least MORE."""
    queues: dict[int, int] = {}
    living: set[int] = set()
    since_ns: int | None = None
    for at_ns, together in groupby(events, key=lambda event: event[0]):
        for _, process, more, life in together:
            queues[process] = queues.get(process, 0) + more
            if life > 0:
                living.add(process)
            elif life < 0:
                living.discard(process)
        counts = [queues[process] for process in living]
        is_uneven = bool(counts) and max(counts) - min(counts) >= MORE
        if is_uneven and since_ns is None:
            since_ns = at_ns
        elif not is_uneven and since_ns is not None:
            yield Span(since_ns, at_ns)
            since_ns = None


SHARES = Checker(
    name="shares",
    anomalies=(UNEVEN,),
    check=check_shares,
    rows=no_rows,
    applies=lambda context: bool(context.facts.evenly and context.timeline.ownership),
)
