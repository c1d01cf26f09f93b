"""Lagging followers: the time in which members that read from them may get messages late.

A follower whose leader is gone for good may not have caught up with the others.
What a synchronous leader has acknowledged is on one of its followers at least, and members read from any. A follower
learns from the silence of its leader that it is gone, and then asks the other followers for what they have. So a
message that is on one of them alone reaches members of the group up to that silence, and a round of questions, after
the last fault that was in the way of the replicas. Followers of Apache RocketMQ ask none
(`replication.fetches_missing`).

A follower that starts learns from a coordinator which node is its leader. While no coordinator answers, or none knows
the leader, the follower asks the replicas of its configuration every few seconds. So it lags, and members that the
leader has sent to it wait there. So do members that have started since, because they have learned of no leader, either;
others read from the leader. A coordinator that started knows the leader once that has registered again. The follower
asks each coordinator about once a second, so it learns of its leader when a registration under way has ended and the
next one is answered. Followers of Apache RocketMQ wait for their next regular registration (`registration`).

A broken link between leader and follower is enough where leaders send all members to followers, or where a synchronous
leader shows a message only once a follower has it. A black hole at either of them breaks the link, too. TCP doubles the
time between two attempts to send a packet, so a follower gets the next packet before the link has been whole for as
long as it was broken. If another fault meets that attempt, the time since the first fault counts. The wait ends in any
case when the follower gives up a silent connection and opens another.
"""

from __future__ import annotations

from staticfire.checkers.derived.rebalances import leader_lost_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuse import VISIBLE_END
from staticfire.checkers.guarantees.fault_effects import STOPS
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, began_ns, by_target, healed_ns
from staticfire.checkers.guarantees.promises import (
    FOLLOWER_HOLDS_ACKED,
    NOT_FETCHED,
    NS_PER_S,
)
from staticfire.checkers.model.intervals import Span, shared

BEHIND = "slave_behind_slave"
LEADER_UNKNOWN = "leader_unknown"
LINK_BROKEN = "follower_link_broken"
UNCOPIED = "progress_held"
_FOLLOWERS_MIN = 2
# A registration that is under way without an answer ends after twice the time of a request, and the next one follows.
_ASKED_TIMES = 3
_IN_ROUNDS = (
    "registration"  # policies.py: a follower that knows no leader waits for its next registration
)


def behind_spans(context: Context, broker: str) -> list[Span]:
    """When a follower of a replica set may lack what another one has; none while there is a leader, or one follower."""
    facts, lost_ns = context.facts, leader_lost_ns(context, broker)
    has_others = len(facts.replica_sets.get(broker, ())) > _FOLLOWERS_MIN
    if not has_others or facts.behaves(NOT_FETCHED.policy):
        return []
    spans = context.excuses.spans(BEHIND, broker)
    return [Span(max(start_ns, lost_ns), end_ns) for start_ns, end_ns in spans if end_ns > lost_ns]


def leaderless_spans(context: Context, broker: str, process: int) -> list[Span]:
    """When a member may read from a follower that does not know its leader.

    Elsewhere than where leaders send members to followers, only one that started in the meantime does.
    """
    key = "leaderless", broker, process
    if key not in context.cache:
        context.cache[key] = _leaderless_spans(context, broker, process)
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def _leaderless_spans(context: Context, broker: str, process: int) -> list[Span]:
    facts = context.facts
    unknown = [Span(0, FOREVER_NS)] if facts.coordinators else []
    for coordinator in facts.coordinators:
        unknown = shared(unknown, context.excuses.spans(LEADER_UNKNOWN, broker, (coordinator,)))
    if not facts.follower_reads:
        opened_ns = [one.time_ns for one in context.timeline.opens if one.process == process]
        unknown = [
            span for span in unknown if any(span.start_ns <= at < span.end_ns for at in opened_ns)
        ]
    followers = frozenset(facts.replica_sets.get(broker, ())[1:])
    starts = [
        of_node
        for fault in facts.faults
        if fault.bitten_ns is not None
        for of_node in by_target(fault)
        if STOPS in of_node.effects and not followers.isdisjoint(of_node.targets)
    ]
    asked_s = _ASKED_TIMES * facts.timings.request_s
    if facts.behaves(_IN_ROUNDS):
        asked_s += facts.timings.register_s
    return [
        Span(max(start_ns, began_ns(start)), end_ns + int(asked_s * NS_PER_S))
        for start_ns, end_ns in unknown
        for start in starts
        if began_ns(start) < end_ns and healed_ns(start) > start_ns
    ]


def unsent_spans(context: Context, broker: str) -> list[Span]:
    """When followers of a replica set that members read from may lack what a broken link kept from them."""
    return _unsent_spans(context, broker) if context.facts.follower_reads else []


def unshown_spans(context: Context, broker: str) -> list[Span]:
    """When members may not get what a leader stored, because a broken link keeps it from all followers.

    A synchronous leader shows a message once a follower has it; Apache RocketMQ shows it at once (`visible_end`).
    """
    facts = context.facts
    waits = FOLLOWER_HOLDS_ACKED[facts.replication] and not facts.behaves(VISIBLE_END)
    return _unsent_spans(context, broker) if waits or facts.follower_reads else []


def uncopied_spans(context: Context, broker: str) -> list[Span]:
    """When a synchronous leader may wait for a follower before it shows what it stored.

    It waits for one that is connected, and a connection that is silent ends later than its fault.
    """
    facts = context.facts
    waits = FOLLOWER_HOLDS_ACKED[facts.replication] and not facts.behaves(VISIBLE_END)
    return context.excuses.spans(UNCOPIED, broker) if waits else []


def _unsent_spans(context: Context, broker: str) -> list[Span]:
    """When a broken link keeps from followers what their leader sends, until TCP repeats it."""
    timings = context.facts.timings
    reconnected_ns = int((timings.replication_silence_s + 2 * timings.request_s) * NS_PER_S)
    broken: list[Span] = []
    for start_ns, end_ns in context.excuses.spans(LINK_BROKEN, broker):
        if broken and start_ns <= broken[-1].end_ns:
            start_ns = broken.pop().start_ns
        broken.append(Span(start_ns, end_ns + min(end_ns - start_ns, reconnected_ns)))
    return broken
