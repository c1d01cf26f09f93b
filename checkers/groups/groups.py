"""Consumer groups: every queue has an owner, and only one unless the group broadcasts.

**queue_unowned**: no living member owned a queue of the group for longer than a rebalance takes. Time in which a fault
of the queue's broker or of the members excuses this does not count (excuse_table.py, rebalances.py). A queue must have
its first owner within this time, plus the time in which clients learn of a queue, after its first acknowledged message.
The same holds after a leader confirmed the queue to an operator and could register it with the coordinators. A queue
without any acknowledged message may disappear with the disk of the leader, because other nodes may not know the queue.
So may a queue whose only acknowledged message was delayed and not yet moved to it. The drain reports that such a queue
is empty.
**double_ownership**: two living members owned one queue for longer than a rebalance takes. Time in which one of them
could not learn of the other does not count. Each member computes its share alone, so the members overlap for a while.
In a broadcasting group every member owns every queue. A rebalance takes 23 s at rest (20 s until each member has
checked its group, and a request), and 30 s near faults or if a member started or ended in this time. If brokers do not
notify members, it also takes at least 23 s from the last start or end of a member or broker.

A member owns the queues that it reports (`assign`) until it reports other ones, its node starts again or ends by
itself, or a fault ends it.

Cannot see: an owner that never pulls (its messages are `unseen`, or wait for too long: `delivery_gap`); groups of a
client that does not report assignments; the end of an owner that the harness did not notice: it counts as owner until
its node starts again.

Source: RebalanceImpl and RebalanceService (every 20 s) of Apache RocketMQ 4.9. Jepsen does not judge groups.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from staticfire.checkers.derived.confirmed_queues import confirmed_queues, registered_ns
from staticfire.checkers.derived.rebalances import (
    bound_ns,
    excused_spans,
    leader_lost_ns,
    locked_ns,
)
from staticfire.checkers.engine.kernel import Checker, Context, some_rows
from staticfire.checkers.guarantees.fault_effects import STOPS
from staticfire.checkers.guarantees.fault_times import began_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict, seconds
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, LogKey, Outcome
from staticfire.checkers.model.intervals import Span, shared, without

QueueOfGroup = tuple[str, LogKey]


@dataclass(frozen=True, slots=True)
class Owned:
    """One interval in which a process owned a queue."""

    process: int
    span: Span
    op_index: int  # of the assignment that began it


def check_groups(columns: Columns, context: Context) -> Verdict:
    """Judge the assignments of all groups."""
    owned = owned_while_watched(context)
    findings = [
        *_unowned(columns, context, owned),
        *_double_ownership(context, owned),
    ]
    tally = Tally.of(findings, queues_owned=len(owned))
    return Verdict(
        checker="groups",
        valid=not findings,
        counts=tally.counts,
        findings=tally.findings,
    )


def watched_until_ns(context: Context) -> int:
    """Return the time until which the run watched groups: that of the last assignment or drain."""
    drained = (drain.time_ns for drain in context.timeline.drains.values())
    changed = (
        changes[-1].time_ns for changes in context.timeline.ownership.values() if len(changes)
    )
    return max((*drained, *changed), default=0)


def owned_while_watched(context: Context) -> Mapping[QueueOfGroup, list[Owned]]:
    """Return the intervals in which processes owned each queue of a group while the run watched groups; cached."""
    if "owned" not in context.cache:
        end_ns = watched_until_ns(context)
        pairs = sorted(context.timeline.ownership)
        context.cache["owned"] = {pair: list(_owned(context, pair, end_ns)) for pair in pairs}
    found = context.cache["owned"]
    assert isinstance(found, dict)
    return found


def _owned(context: Context, pair: QueueOfGroup, end_ns: int) -> Iterator[Owned]:
    """Yield the intervals in which processes owned one queue."""
    since: dict[int, tuple[int, int]] = {}
    for change in context.timeline.ownership[pair]:
        if change.change == "gained":
            since[change.process] = (change.time_ns, change.op_index)
        elif change.process in since:
            yield _ended(context, change.process, *since.pop(change.process), change.time_ns)
    for process, (start_ns, op_index) in since.items():
        yield _ended(context, process, start_ns, op_index, end_ns)


def owned_spans(context: Context, pair: QueueOfGroup, end_ns: int) -> Iterator[tuple[int, Span]]:
    """Yield the process and the time of each ownership of a queue of a group; one that lasts ends at `end_ns`."""
    for one in _owned(context, pair, end_ns):
        yield one.process, one.span


def _ended(context: Context, process: int, start_ns: int, op_index: int, until_ns: int) -> Owned:
    deaths = _deaths(context, process)
    died_ns = min(deaths[bisect_left(deaths, start_ns) :][:1], default=until_ns)
    return Owned(process, Span(start_ns, min(until_ns, died_ns)), op_index)


def _deaths(context: Context, process: int) -> list[int]:
    """Return the times at which a process may have ended, sorted: at a start or end of its node, or at a fault."""
    key = "deaths", process
    if key not in context.cache:
        node = context.timeline.nodes.get(process)
        context.cache[key] = [] if node is None else sorted(_ends(context, process, node))
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def _ends(context: Context, process: int, node: str) -> Iterator[int]:
    own_start_ns = 0
    for opened in context.timeline.opens:
        if opened.process == process:
            own_start_ns = opened.time_ns
        elif opened.node == node:
            yield opened.time_ns
    for ended in context.facts.exits:
        if ended.node == node:
            yield ended.time_ns
    for fault in context.facts.faults:
        if STOPS in fault.effects and node in fault.targets and fault.bitten_ns is not None:
            yield began_ns(fault)
            if own_start_ns <= began_ns(fault):  # otherwise the process started after the fault
                yield fault.bitten_ns  # until then the process may have gained a queue


def _unowned(
    columns: Columns, context: Context, owned: Mapping[QueueOfGroup, list[Owned]]
) -> Iterator[Finding]:
    acknowledged = _first_acknowledged(columns)
    confirmed = _confirmed(context)
    known = dict.fromkeys([*confirmed, *(pair[1] for pair in owned)], FOREVER_NS) | acknowledged
    last_ns, timings = watched_until_ns(context), context.facts.timings
    for group, topics in sorted(context.facts.groups.items()):
        if not any(name == group for name, _ in owned):
            continue  # its members do not report what they own
        members = context.timeline.members(group)
        for queue in sorted(queue for queue in known if queue.topic in topics):
            owners = owned.get((group, queue), ())
            spans = [one.span for one in owners]
            nodes = context.timeline.nodes
            given_up = [(nodes.get(of.process, ""), of.span.end_ns) for of in owners]
            first = known[queue] + int(timings.route_refresh_s * NS_PER_S)
            first = min([first, *(span.start_ns for span in spans)])
            lost_ns = leader_lost_ns(context, queue.stream)
            is_stored = queue in acknowledged and not _is_empty(context, group, queue)
            end_ns = last_ns if is_stored else min(last_ns, lost_ns)
            excused = excused_spans(context, "queue_unowned", group, queue.stream, members)
            until_ns = min(last_ns, lost_ns)
            due = [Span(of.start_ns, min(of.end_ns, until_ns)) for of in confirmed.get(queue, ())]
            for alone in without([Span(first, end_ns), *due], spans):
                alone_ns = _length_ns(without([alone], excused))
                locked = locked_ns(context, group, queue.stream, alone.start_ns, given_up)
                if alone_ns > bound_ns(context, group, alone) + locked:
                    detail = f"no member owned the queue for {seconds(alone_ns)}"
                    yield _finding(context, "queue_unowned", (group, queue), alone, -1, detail)
                    break


def _confirmed(context: Context) -> Mapping[LogKey, list[Span]]:
    """Return the times in which clients must know each queue that a leader has confirmed."""
    facts, lag_ns = context.facts, registered_ns(context.facts)
    found: dict[LogKey, list[Span]] = {}
    for one in confirmed_queues(context):
        known_ns = one.span.start_ns + lag_ns
        for window in context.excuses.windows("queues_unregistered", one.stream):
            if window.start_ns <= known_ns:
                known_ns = max(known_ns, window.end_ns + lag_ns)
        known_ns += int(facts.timings.route_refresh_s * NS_PER_S)
        for partition in range(one.queues):
            queue = LogKey(one.topic, one.stream, partition)
            found.setdefault(queue, []).append(Span(known_ns, one.span.end_ns))
    return found


def _is_empty(context: Context, group: str, queue: LogKey) -> bool:
    """Whether the drain shows that no remaining replica ever stored a message in a queue."""
    drain = context.timeline.drains_of(group, queue.topic)
    end = None if drain is None else drain.ends.get(queue)
    return end is not None and end.max_offset == 0


def _length_ns(spans: Iterable[Span]) -> int:
    return sum(span.length_ns for span in spans)


def first_acknowledged_rows(columns: Columns, _context: Context) -> Columns:
    """Select the first acknowledged send of each queue; the checker reads no other rows."""
    return some_rows(columns, sends=_first_acks(columns))


def _first_acks(columns: Columns) -> Ints:
    sends = columns.sends
    rows = np.flatnonzero((sends.outcome == Outcome.OK) & (sends.log != UNKNOWN))
    return rows[np.unique(sends.log[rows], return_index=True)[1]]


def _first_acknowledged(columns: Columns) -> dict[LogKey, int]:
    """Return the time of the first acknowledgement in each queue."""
    firsts = columns.sends.where(_first_acks(columns))
    return {
        columns.names.logs[queue]: at
        for queue, at in zip(firsts.log.tolist(), firsts.time_ns.tolist(), strict=True)
    }


def _double_ownership(
    context: Context, owned: Mapping[QueueOfGroup, list[Owned]]
) -> Iterator[Finding]:
    for pair, intervals in owned.items():
        if pair[0] in context.facts.broadcasting:
            continue
        for one, other in combinations(intervals, 2):
            if one.process == other.process:
                continue
            nodes = map(context.timeline.nodes.get, (one.process, other.process))
            both = shared([one.span], [other.span])
            if not both:
                continue
            excused = excused_spans(context, "double_ownership", pair[0], pair[1].stream, nodes)
            both_ns = _length_ns(without(both, excused))
            if both_ns > bound_ns(context, pair[0], both[0]):
                detail = (
                    f"processes {one.process} and {other.process} owned the queue together for "
                    f"{seconds(both_ns)}"
                )
                at = max(one.op_index, other.op_index)
                yield _finding(context, "double_ownership", pair, both[0], at, detail)


def _finding(
    context: Context, anomaly: str, pair: QueueOfGroup, span: Span, op_index: int, detail: str
) -> Finding:
    group, queue = pair
    return Finding(
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        op_index=op_index,
        time_ns=span.start_ns,
        detail=detail,
        topic=queue.topic,
        broker=queue.home,
        queue=queue.partition,
        group=group,
    )


GROUPS = Checker(
    name="groups",
    anomalies=("queue_unowned", "double_ownership"),
    check=check_groups,
    rows=first_acknowledged_rows,
    applies=lambda context: bool(context.timeline.ownership),
)
