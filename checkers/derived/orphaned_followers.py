"""Followers whose leader is gone for good: the time in which they may not have caught up with each other.

What a synchronous leader has acknowledged is on one of its followers at least, and members read from any. A follower
learns from the silence of its leader that it is gone, and then asks the other followers for what they have. So a
message that is on one of them alone reaches members of the group up to that silence, and a round of questions, after
the last fault that was in the way of the replicas. Followers of Apache RocketMQ ask none
(`replication.fetches_missing`).
"""

from __future__ import annotations

from staticfire.checkers.derived.rebalances import leader_lost_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.promises import NOT_FETCHED
from staticfire.checkers.model.intervals import Span

BEHIND = "slave_behind_slave"
_FOLLOWERS_MIN = 2


def behind_spans(context: Context, broker: str) -> list[Span]:
    """When a follower of a replica set may lack what another one has; none while there is a leader, or one follower."""
    facts, lost_ns = context.facts, leader_lost_ns(context, broker)
    has_others = len(facts.replica_sets.get(broker, ())) > _FOLLOWERS_MIN
    if not has_others or facts.behaves(NOT_FETCHED.policy):
        return []
    spans = context.excuses.spans(BEHIND, broker)
    return [Span(max(start_ns, lost_ns), end_ns) for start_ns, end_ns in spans if end_ns > lost_ns]
