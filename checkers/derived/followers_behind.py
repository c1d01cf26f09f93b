"""Lagging followers: the times in which members that read from them may receive messages late.

A follower whose leader is gone for good may lack messages that other followers have. At least one follower has every
message that a synchronous leader has acknowledged, and members read from any follower. A follower notices the silence
of its leader, and then asks the other followers for missing messages. So a message that only one follower has may reach
members this time of silence and a round of requests after the last fault that hindered the replicas. Followers of
Apache RocketMQ do not ask (`replication.fetches_missing`).

A follower that starts learns from a coordinator which node is its leader. While no coordinator answers, or none knows
the leader, the follower asks the replicas of its configuration every few seconds. So it lags, and members that the
leader has redirected to it wait. Members that started in this time also wait, because they do not know a leader either.
So do members whose last answer of a coordinator came while the leader was away. Others read from the leader. A
coordinator that started knows the leader once the leader has registered again. The follower asks each coordinator about
once a second, so it learns of its leader when a pending registration has ended and the next one is answered. Followers
of Apache RocketMQ wait for their next regular registration (`registration`).

A broken link between leader and follower is enough if leaders redirect all members to followers, or if a synchronous
leader serves a message only once a follower has it. A black hole at either of them also breaks the link. TCP doubles
the time between two attempts to send a packet. So after the link is whole, it takes at most as long as it was broken
until the follower gets the next packet. If another fault affects that attempt, the time since the first fault counts.
The wait ends in any case when the follower gives up a silent connection and opens another.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.checkers.derived.rebalances import leader_lost_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.excuses.excuse import VISIBLE_END
from staticfire.checkers.guarantees.fault_times import FOREVER_NS
from staticfire.checkers.guarantees.promises import (
    FOLLOWER_HOLDS_ACKED,
    NOT_FETCHED,
    NS_PER_S,
)
from staticfire.checkers.guarantees.uncopied import stops_of
from staticfire.checkers.model.intervals import Span, joined, shared

BEHIND = "slave_behind_slave"
LEADER_UNKNOWN = "leader_unknown"
COORDINATOR_SILENT = "coordinator_silent"
LINK_BROKEN = "follower_link_broken"
UNCOPIED = "uncopied"
_FOLLOWERS_MIN = 2
# A pending registration without an answer ends after at most twice the time of a request, then the next one follows.
_ASKED_TIMES = 3
_IN_ROUNDS = (
    "registration"  # policies.py: a follower that knows no leader waits for its next registration
)


def behind_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which a follower may lack messages of another; empty with a leader, or with one follower."""
    facts, lost_ns = context.facts, leader_lost_ns(context, broker)
    has_others = len(facts.replica_sets.get(broker, ())) > _FOLLOWERS_MIN
    if not has_others or facts.behaves(NOT_FETCHED.policy):
        return []
    spans = context.excuses.spans(BEHIND, broker)
    return [Span(max(start_ns, lost_ns), end_ns) for start_ns, end_ns in spans if end_ns > lost_ns]


def leaderless_spans(context: Context, broker: str, process: int) -> list[Span]:
    """Return the times in which a member may read from a follower that does not know its leader.

    If leaders do not redirect members to followers, only a member without an address of the leader reads from one.
    """
    key = "leaderless", broker, process
    if key not in context.cache:
        context.cache[key] = _leaderless_spans(context, broker, process)
    found = context.cache[key]
    assert isinstance(found, list)
    return found


def _leaderless_spans(context: Context, broker: str, process: int) -> list[Span]:
    facts = context.facts
    unknown = silent = [Span(0, FOREVER_NS)] if facts.coordinators else []
    for coordinator in facts.coordinators:
        says_nothing = context.excuses.spans(COORDINATOR_SILENT, broker, (coordinator,))
        forgot = context.excuses.spans(LEADER_UNKNOWN, broker, (coordinator,))
        unknown = shared(unknown, joined([*says_nothing, *forgot]))
        silent = shared(silent, says_nothing)
    if not facts.follower_reads:
        opened_ns = [one.time_ns for one in context.timeline.opens if one.process == process]
        missed_ns = _leader_missed_ns(context, broker, silent)
        unknown = [
            span
            for span in unknown
            if any(span.start_ns <= at_ns < span.end_ns for at_ns in (*opened_ns, *missed_ns))
        ]
    asked_s = _ASKED_TIMES * facts.timings.request_s
    if facts.behaves(_IN_ROUNDS):
        asked_s += facts.timings.register_s
    return [
        Span(max(start_ns, stop.start_ns), end_ns + int(asked_s * NS_PER_S))
        for start_ns, end_ns in unknown
        for stop in _stops(context, facts.replica_sets.get(broker, ())[1:])
        if stop.start_ns < end_ns and stop.end_ns > start_ns
    ]


def _leader_missed_ns(context: Context, broker: str, silent: Sequence[Span]) -> list[int]:
    """Return when the coordinators stopped answering after members may have learned from them that the leader is away.

    `silent`: the times in which no coordinator answers. A member asks for routes every `Timings.route_refresh_s`.
    """
    refresh_ns = int(context.facts.timings.route_refresh_s * NS_PER_S)
    return [
        span.start_ns
        for span in silent
        for stop in _stops(context, context.facts.replica_sets.get(broker, ())[:1])
        if stop.start_ns < span.start_ns < stop.end_ns + refresh_ns
    ]


def _stops(context: Context, nodes: Sequence[str]) -> list[Span]:
    return [span for node in nodes for span in stops_of(context.facts, node)]


def unsent_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which followers from which members read may lack messages because of a broken link."""
    return _unsent_spans(context, broker) if context.facts.follower_reads else []


def unshown_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which members may not get stored messages, because a broken link keeps these from followers.

    A synchronous leader serves a message once a follower has it; Apache RocketMQ serves it at once (`visible_end`).
    """
    facts = context.facts
    waits = FOLLOWER_HOLDS_ACKED[facts.replication] and not facts.behaves(VISIBLE_END)
    return _unsent_spans(context, broker) if waits or facts.follower_reads else []


def uncopied_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which a synchronous leader may wait for a follower before it serves a stored message.

    It waits for connected followers. A process that ends closes its connection; any other silent connection ends later
    than its fault.
    """
    facts = context.facts
    waits = FOLLOWER_HOLDS_ACKED[facts.replication] and not facts.behaves(VISIBLE_END)
    return context.excuses.spans(UNCOPIED, broker) if waits else []


def _unsent_spans(context: Context, broker: str) -> list[Span]:
    """Return the times in which a broken link keeps data of the leader from followers, until TCP repeats it."""
    timings = context.facts.timings
    reconnected_ns = int((timings.replication_silence_s + 2 * timings.request_s) * NS_PER_S)
    broken: list[Span] = []
    for start_ns, end_ns in context.excuses.spans(LINK_BROKEN, broker):
        if broken and start_ns <= broken[-1].end_ns:
            start_ns = broken.pop().start_ns
        broken.append(Span(start_ns, end_ns + min(end_ns - start_ns, reconnected_ns)))
    return broken
