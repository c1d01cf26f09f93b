"""Slaves whose master is gone for good: the time in which they may not have caught up with each other.

What a synchronous master has acknowledged is on one of its slaves at least, and members read from any. A slave learns
from the silence of its master that it is gone, and then asks the other slaves for what they have. So a message that is
on one of them alone reaches members of the group up to that silence, and a round of questions, after the last fault
that was in the way of the replicas. Slaves of Apache RocketMQ ask none (`replication.fetches_missing`).
"""

from __future__ import annotations

from staticfire.checkers.derived.rebalances import master_lost_ns
from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.promises import NOT_FETCHED
from staticfire.checkers.model.intervals import Span

BEHIND = "slave_behind_slave"
_SLAVES_MIN = 2


def behind_spans(context: Context, broker: str) -> list[Span]:
    """When a slave of a broker name may lack what another one has; none while there is a master, or one slave."""
    facts, lost_ns = context.facts, master_lost_ns(context, broker)
    has_others = len(facts.replica_sets.get(broker, ())) > _SLAVES_MIN
    if not has_others or facts.behaves(NOT_FETCHED.policy):
        return []
    spans = context.excuses.spans(BEHIND, broker)
    return [Span(max(start_ns, lost_ns), end_ns) for start_ns, end_ns in spans if end_ns > lost_ns]
