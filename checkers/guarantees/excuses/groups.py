"""Excuses for groups: queues without an owner or with two owners, and resets of offsets."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role, Since
from staticfire.checkers.guarantees.excuses.seconds import (
    half_a_rebalance,
    one_request,
    two_requests,
)
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    DISK,
    EMPTIES,
    NETWORK,
    ROUTES,
    STALLS,
    STOPS,
    UNABLE,
)

ROWS: tuple[Excuse, ...] = (
    # groups.py: a fault shorter than half of a rebalance delays at most one rebalance, and the bound includes that
    Excuse(
        anomaly="queue_unowned",
        effects=(STOPS, STALLS, EMPTIES),
        on=(Role.ALL_REPLICAS,),
        at_least=half_a_rebalance,
        after=two_requests,
        mechanism="a broker of which no replica answers is not in the routes",
    ),
    Excuse(
        anomaly="queue_unowned",
        effects=(STOPS, STALLS, EMPTIES, CUTS),
        on=(Role.ALL_REPLICAS,),
        across=(Role.COORDINATORS,),
        after=lambda t: t.register_s + t.rebalance_s,
        mechanism="a broker whose connection to a coordinator ended is not in the routes before it registers again",
    ),
    Excuse(
        anomaly="queue_unowned",
        effects=(STOPS, STALLS, EMPTIES),
        on=(Role.LEADER,),
        at_least=half_a_rebalance,
        after=two_requests,
        since=Since.ROUTES_FORGOTTEN,
        mechanism="a coordinator that starts learns the queues of a broker from its leader",
    ),
    # ... before clients can know a queue that its leader has confirmed
    Excuse(
        anomaly="queues_unregistered",
        effects=(STOPS, STALLS, DISK, NETWORK, CUTS, ROUTES),
        on=(Role.LEADER, Role.COORDINATORS),
        after=lambda t: t.register_s,
        mechanism="the leader could not register the new queues at a coordinator that clients ask",
    ),
    Excuse(
        anomaly="queue_unlocked",
        effects=(STOPS, STALLS, EMPTIES, NETWORK, CUTS),
        on=(Role.LEADER,),
        across=(Role.INVOLVED,),
        at_least=half_a_rebalance,
        after=two_requests,
        held_up=one_request,
        mechanism="the leader gives no locks, and a follower gives none at all",
    ),
    Excuse(
        anomaly="queue_unowned",
        effects=(STALLS,),
        on=(Role.INVOLVED,),
        at_least=half_a_rebalance,
        since=Since.SHARED_ANEW,
        mechanism="a member that stalls does not take its new share, and brokers still count it as a member",
    ),
    # rebalances.py: while no member is up that could take over the queues of a member that ended, or learn of its end
    Excuse(
        anomaly="member_away",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        at_least=half_a_rebalance,
        mechanism="a member that is away takes no share",
    ),
    Excuse(
        anomaly="end_unnoticed",
        effects=UNABLE,
        on=(Role.BROKERS,),
        after=two_requests,
        mechanism="members learn from a broker that another one has ended",
    ),
    Excuse(
        anomaly="queue_unowned",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        across=(Role.BROKERS, Role.COORDINATORS),
        at_least=half_a_rebalance,
        after=two_requests,
        held_up=one_request,
        since=Since.SHARED_ANEW,
        mechanism="a member that is cut off does not know its share, or brokers still count it as a member",
    ),
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STOPS, STALLS),
            on=(Role.ALL_COORDINATORS,),
            after=lambda t: t.register_s,
            since=Since.MEMBER_STARTS,
            mechanism="a member that starts cannot announce itself to all brokers before these register again",
        )
        for anomaly in ("queue_unowned", "double_ownership")
    ),
    Excuse(
        anomaly="double_ownership",
        effects=(STOPS,),
        on=(Role.ALL_COORDINATORS,),
        after=lambda t: t.register_s,
        since=Since.BROKER_STARTS,
        mechanism="members that have not heard of a broker that started are not in its list before it registers again",
    ),
    Excuse(
        anomaly="double_ownership",
        effects=(STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        across=(Role.BROKERS,),
        at_least=half_a_rebalance,
        after=two_requests,
        held_up=one_request,
        since=Since.SHARED_ANEW,
        mechanism="a member that is cut off does not know that others have taken its queues",
    ),
    # settled.py: for a member that does not report its queues
    Excuse(
        anomaly="queue_regained",
        effects=(STOPS, STALLS, DISK, NETWORK, CUTS),
        on=(Role.LEADER,),
        across=(Role.REPLICAS, Role.INVOLVED),
        after=lambda t: t.replication_silence_s,
        mechanism="the broker was away, and a member that does not say what it owns took the queue over again",
    ),
    # resets.py
    Excuse(
        anomaly="reset_ignored",
        effects=(STOPS, STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.LEADER, Role.INVOLVED),
        across=(Role.LEADER, Role.COORDINATORS),
        after=lambda t: t.heartbeat_s,
        mechanism="the leader did not know the owner, the order did not arrive, or the owner ended before it",
    ),
)
