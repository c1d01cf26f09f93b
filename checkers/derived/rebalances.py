"""Times at which a group divides its queues, and how long faults may delay agreement about the owners.

A window of the table of excuses (`excuse_table.py`) lasts as long as its fault. But members that agree continue to
agree during a fault. So if its row names an event (`since`), a window counts only from such an event on, and not at all
without one. `groups.py` judges by these spans, and `reportable.py` counts them.

Source: RebalanceImpl (each member computes its share from the route and from one broker's list of members),
ConsumerManager (a list changes when a member starts, ends or is silent for too long) and RouteInfoManager (a
coordinator learns the queues of a broker from its leader) of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import chain

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuse import Since
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.facts import FaultFacts, Timings
from staticfire.checkers.guarantees.fault_effects import (
    ADMIN,
    CUTS,
    EMPTIES,
    IN_TURN,
    LISTENER,
    OFFSETS,
    QUEUES,
    RIGHTS,
    ROTS,
    STOPS,
)
from staticfire.checkers.guarantees.fault_times import (
    FOREVER_NS,
    NS_PER_S,
    began_ns,
    by_target,
    healed_ns,
)
from staticfire.checkers.model.intervals import Span, joined, shared

AWAY, UNNOTICED = "member_away", "end_unnoticed"  # these also excuse `queue_unowned`
UNLOCKED = "queue_unlocked"  # also excuses `queue_unowned` in a group whose members need locks
# intervals until members agree: they check their group regularly, and again after a disagreement
REBALANCES = 1.5
# effects that do not change the ownership of queues
_HARMLESS = frozenset({ADMIN, LISTENER, OFFSETS, RIGHTS, ROTS})


@dataclass(frozen=True, slots=True)
class _Group:
    """The members of a group, and the times at which it had to divide its queues again."""

    members: frozenset[str]  # nodes
    # times at which a member started or ended, or the topic got queues; sorted
    changes_ns: tuple[int, ...]
    is_known: bool  # all members report when they started


def excused_spans(
    context: Context, anomaly: str, group: str, broker: str, nodes: Iterable[str | None]
) -> list[Span]:
    """Return the times in which faults excuse that a queue of this replica set has no owner, or that `nodes` own it."""
    members = frozenset(node for node in nodes if node is not None)
    key = "excused spans", anomaly, group, broker, members
    if key not in context.cache:
        windows = context.excuses.windows(anomaly, broker, members)
        if anomaly == "queue_unowned" and group in context.facts.orderly:
            windows = (*windows, *context.excuses.windows(UNLOCKED, broker, members))
        spans = [_since(context, _group(context, group), members, window) for window in windows]
        if anomaly == "queue_unowned":
            spans.append(iter(_without_taker(context, members)))
        context.cache[key] = joined(chain.from_iterable(spans))
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def _without_taker(context: Context, members: frozenset[str]) -> list[Span]:
    """Return the times in which a member is away and no other member can take its queues.

    Each other member is also away or has not started, or no broker can notify it that the first one has ended.
    """
    none_lives = [Span(0, FOREVER_NS)]
    for member in members:
        first_ns = min(starts_ns(context, frozenset({member})), default=0)
        away = context.excuses.spans(AWAY, None, (member,))
        none_lives = shared(none_lives, joined([Span(0, first_ns), *away]))
    away = context.excuses.spans(AWAY, None, members)
    return shared(away, joined([*none_lives, *context.excuses.spans(UNNOTICED)]))


def _since(
    context: Context, group: _Group, members: frozenset[str], window: Window
) -> Iterator[Span]:
    """Yield the part of a window from the first event on that its row requires; nothing without such an event."""
    timings = context.facts.timings
    since, start_ns, end_ns = window.excuse.since, window.start_ns, window.end_ns
    # Members may not have noticed earlier changes yet.
    noticed_s = {
        Since.SHARED_ANEW: timings.rebalance_s,
        Since.BROKER_STARTS: timings.rebalance_s,
        Since.ROUTES_FORGOTTEN: timings.register_s,
    }
    before_ns = start_ns - int(noticed_s.get(since, 0) * NS_PER_S)
    match since:
        case Since.FAULT:
            events = [start_ns]
        case Since.ROUTES_FORGOTTEN:
            events = list(_restarts_of_coordinators(context))
        case Since.BROKER_STARTS:
            events = list(_restarts_of_brokers(context))
        case _ if not group.is_known:
            events = [start_ns]
        case Since.MEMBER_STARTS:
            events = list(starts_ns(context, members))
        case Since.SHARED_ANEW:
            expired_ns = start_ns + int(timings.channel_expiry_s * NS_PER_S)
            events = [*group.changes_ns, expired_ns]
            if not _strikes_alike(context, window.fault, members):
                events += stops_ns(context, _brokers(context))
    first = min((at for at in events if before_ns <= at <= end_ns), default=None)
    if first is not None:
        yield Span(max(start_ns, first), end_ns)


def _group(context: Context, name: str) -> _Group:
    key = "group", name
    if key not in context.cache:
        starting = {one.node for one in context.timeline.subscriptions if one.group == name}
        members = context.timeline.members(name) | starting
        changes = {*starts_ns(context, members), *stops_ns(context, members)}
        for fault in context.facts.faults:
            # A fault without a proven effect also counts, because a leader that did not answer may have made queues.
            if QUEUES in fault.effects and (fault.bitten_ns, fault.fired_ns) != (None, None):
                changes |= {began_ns(fault), healed_ns(fault)}
        nodes = context.timeline.nodes
        is_known = all(
            change.process in nodes
            for pair, of_queue in context.timeline.ownership.items()
            if pair[0] == name
            for change in of_queue
        )
        context.cache[key] = _Group(members, tuple(sorted(changes)), is_known)
    found = context.cache[key]
    assert isinstance(found, _Group)
    return found


def starts_ns(context: Context, nodes: frozenset[str]) -> Iterator[int]:
    """Yield the times in ns at which a client on one of the nodes was ready."""
    return (opened.time_ns for opened in context.timeline.opens if opened.node in nodes)


def stops_ns(context: Context, nodes: frozenset[str]) -> Iterator[int]:
    """Yield the times in ns at which one of the nodes ended, or came back after a fault."""
    for fault in context.facts.faults:
        stops = STOPS in fault.effects and fault.bitten_ns is not None
        if stops and not nodes.isdisjoint(fault.targets):
            yield began_ns(fault)
            yield healed_ns(fault)
    for ended in context.facts.exits:
        if ended.node in nodes:
            yield ended.time_ns


def leader_ended(context: Context, broker: str, since_ns: int, until_ns: int) -> bool:
    """Whether the leader of a replica set ended, or came back, between two times."""
    leader = frozenset(context.facts.replica_sets.get(broker, ())[:1])
    return any(since_ns <= at <= until_ns for at in stops_ns(context, leader))


def leader_was_down(context: Context, broker: str, since_ns: int, until_ns: int) -> bool:
    """Whether the leader of a replica set may have been down at any moment between two times."""
    leader = frozenset(context.facts.replica_sets.get(broker, ())[:1])
    for fault in chain.from_iterable(map(by_target, context.facts.faults)):
        stops = STOPS in fault.effects and fault.bitten_ns is not None
        if not stops or leader.isdisjoint(fault.targets):
            continue
        if began_ns(fault) <= until_ns and healed_ns(fault) >= since_ns:
            return True
    return any(
        since_ns <= ended.time_ns <= until_ns
        for ended in context.facts.exits
        if ended.node in leader
    )


def leader_lost_ns(context: Context, broker: str) -> int:
    """Return when the leader of a replica set lost its disk for good in ns; FOREVER_NS if never.

    The time is that at which the fault bit. The fault may have cut the leader off from its followers before, and until
    then the leader serves alone.
    """
    leader = context.facts.replica_sets.get(broker, ())[:1]
    lost = (
        fault.bitten_ns
        for fault in context.facts.faults
        if fault.permanent and EMPTIES in fault.effects and fault.bitten_ns is not None
        if set(leader) & set(fault.targets)
    )
    return min(lost, default=FOREVER_NS)


def _restarts_of_coordinators(context: Context) -> Iterator[int]:
    """Yield the times in ns at which a coordinator may have lost its routes."""
    servers = frozenset(context.facts.coordinators)
    for fault in context.facts.faults:
        # Faults that affect their targets in turn restart only brokers.
        restarts = STOPS in fault.effects and fault.strikes_when != IN_TURN
        if restarts and fault.bitten_ns is not None and not servers.isdisjoint(fault.targets):
            yield healed_ns(fault)
    for ended in context.facts.exits:
        if ended.node in servers:
            yield ended.time_ns


def _restarts_of_brokers(context: Context) -> Iterator[int]:
    """Yield the times in ns at which a broker came back after a fault, or ended by itself."""
    brokers = _brokers(context)
    for fault in chain.from_iterable(map(by_target, context.facts.faults)):
        stops = STOPS in fault.effects and fault.bitten_ns is not None
        if stops and not brokers.isdisjoint(fault.targets):
            yield healed_ns(fault)
    yield from (ended.time_ns for ended in context.facts.exits if ended.node in brokers)


def _brokers(context: Context) -> frozenset[str]:
    return frozenset(node for of_name in context.facts.replica_sets.values() for node in of_name)


def _strikes_alike(context: Context, fault: FaultFacts, members: frozenset[str]) -> bool:
    """Whether a fault keeps all these members from the same servers, so that they keep asking the same broker."""
    if not members.isdisjoint(fault.targets):
        return False
    if CUTS not in fault.effects:
        return True
    servers = _brokers(context) | set(context.facts.coordinators)
    cut_off = {
        frozenset(
            (is_sender, far)
            for link in fault.links
            for is_sender, near, far in ((True, *link), (False, *reversed(link)))
            if near == member and far in servers
        )
        for member in members
    }
    return bool(fault.links) and len(cut_off) == 1


def rebalanced_ns(timings: Timings) -> int:
    """Return the longest time in ns in which members may disagree about the owners of queues."""
    return int(timings.rebalance_s * REBALANCES * NS_PER_S)


def looked_ns(timings: Timings) -> int:
    """Return the longest time in ns until a member has checked its group: a rebalance interval and a request."""
    return int(timings.rebalance_s * NS_PER_S) + int(timings.request_s * NS_PER_S)


def least_bound_ns(timings: Timings) -> int:
    """Return the shortest value that `bound_ns` can have in a run."""
    return min(looked_ns(timings), rebalanced_ns(timings))


def bound_ns(context: Context, group: str, span: Span) -> int:
    """Return how long members may disagree about the owner of a queue in ns, if they did so throughout `span`.

    Each member checks its group when it learns of a change, and once in each rebalance interval. So all have checked it
    an interval and a request after the last change. Near a fault, or if a change came during the disagreement, they may
    have to check it once more.

    A member checks its group at once when a member starts or ends or a broker starts again, and the broker that it asks
    may not know all other members yet. Brokers that notify members do so later. Without a notification the member
    learns of them at its next check, an interval after the last such change during the disagreement.
    """
    timings, known = context.facts.timings, _group(context, group)
    request_ns = int(timings.request_s * NS_PER_S)
    meanwhile = [at for at in known.changes_ns if span.start_ns + request_ns < at < span.end_ns]
    near_ns = span.start_ns - int(timings.rebalance_s * NS_PER_S)
    at_rest = known.is_known and not meanwhile
    involved = known.members | _brokers(context) | frozenset(context.facts.coordinators)
    if at_rest and not _is_near_a_fault(context, involved, near_ns, span.end_ns):
        return looked_ns(timings)
    until_ns = span.start_ns + rebalanced_ns(timings)
    if not timings.members_notified:
        restarts_ns = stops_ns(context, _brokers(context))
        for change_ns in sorted({*meanwhile, *restarts_ns}):
            if span.start_ns < change_ns <= until_ns:
                until_ns = max(until_ns, change_ns + looked_ns(timings))
    return until_ns - span.start_ns


def locked_ns(
    context: Context, group: str, broker: str, since_ns: int, given_up: Iterable[tuple[str, int]]
) -> int:
    """Return how much longer a queue of an orderly group may have no owner in ns, because of a former owner's lock.

    The lock expires. Every member that gives a queue up unlocks it, except near a fault of the member, of the leader
    that granted the lock, or of a coordinator that names the leader.

    Args:
        context: of the run.
        group: the group.
        broker: the replica set of the queue.
        since_ns: the time at which the queue's last owner gave it up.
        given_up: the node of each former owner, and when it gave the queue up.
    """
    facts = context.facts
    if group not in facts.orderly:
        return 0
    timings, known = facts.timings, _group(context, group)
    life_ns, request_ns = int(timings.lock_life_s * NS_PER_S), int(timings.request_s * NS_PER_S)
    if not known.is_known:
        return life_ns
    others = frozenset({*facts.replica_sets.get(broker, ())[:1], *facts.coordinators})
    expire_ns = (
        at_ns + life_ns
        for node, at_ns in given_up
        if since_ns - life_ns < at_ns <= since_ns
        if _is_near_a_fault(context, others | {node}, at_ns - request_ns, at_ns + request_ns)
    )
    return max(0, max(expire_ns, default=0) - since_ns)


def _is_near_a_fault(
    context: Context, involved: frozenset[str], start_ns: int, end_ns: int
) -> bool:
    """Whether a fault of one of these nodes was active between these times, or one of the nodes ended by itself.

    A fault that begins at the end of this time did not prevent agreement. An exit at the end counts, because the
    harness notices it only after it happened.
    """
    facts = context.facts
    if any(start_ns <= one.time_ns <= end_ns and one.node in involved for one in facts.exits):
        return True
    return any(
        began_ns(fault) < end_ns and healed_ns(fault) >= start_ns
        for fault in facts.faults
        if fault.bitten_ns is not None and not set(fault.effects) <= _HARMLESS
        if not fault.targets or not involved.isdisjoint(fault.targets)
    )
