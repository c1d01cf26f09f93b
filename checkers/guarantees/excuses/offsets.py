"""Excuses for committed offsets that a broker no longer knows, and for late commits."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import ON_ITS_WAY_S, Excuse, Role, Since
from staticfire.checkers.guarantees.excuses.seconds import (
    one_request,
    routes_known,
    two_requests,
)
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    DISK,
    EMPTIES,
    FORGETS,
    LISTENER,
    NETWORK,
    OFFSETS,
    ROLLS_BACK,
    ROUTES,
    STALLS,
    STOPS,
    WRITES_FAIL,
)

ROWS: tuple[Excuse, ...] = (
    # committed.py: the leader reported the committed offset
    Excuse(
        anomaly="offset_lost",
        effects=(FORGETS,),
        on=(Role.LEADER,),
        before=lambda t: t.offset_persist_s,
        after=two_requests,
        mechanism="the leader ended before it had written the offset down",
    ),
    Excuse(
        anomaly="offset_lost",
        effects=(ROLLS_BACK,),
        on=(Role.LEADER,),
        before=lambda t: t.offset_persist_s + t.write_back_s,
        after=two_requests,
        mechanism="the disk of the leader had not stored the offset",
    ),
    Excuse(
        anomaly="offset_lost",
        effects=(DISK,),
        on=(Role.LEADER,),
        before=lambda t: t.offset_persist_s,
        after=lambda t: max(two_requests(t), t.offset_persist_s),  # the next attempt
        since=Since.LEADER_ENDS,
        mechanism="the leader could not write the offset down, and ended",
    ),
    Excuse(
        anomaly="offset_lost",
        effects=(STOPS,),
        on=(Role.LEADER,),
        before=lambda _: ON_ITS_WAY_S,
        mechanism="the leader ended before it had executed the commit",
    ),
    # ... unless the commit is known to have arrived there
    Excuse(
        anomaly="offset_on_its_way",
        effects=(STOPS, STALLS, NETWORK, CUTS),
        on=(Role.LEADER,),
        across=(Role.INVOLVED,),
        before=lambda _: ON_ITS_WAY_S,
        after=two_requests,
        mechanism="the commit was lost on its way, or a follower took it",
    ),
    # ... unless the commit is known to have been sent there
    Excuse(
        anomaly="offset_at_follower",
        effects=(ROUTES,),
        on=(Role.LEADER,),
        before=lambda _: ON_ITS_WAY_S,
        after=two_requests,
        mechanism="the leader was not in the routes of the client, and a follower took the commit",
    ),
    Excuse(
        anomaly="offset_at_follower",
        effects=(STOPS, STALLS),
        on=(Role.ALL_COORDINATORS,),
        after=lambda t: t.register_s,
        since=Since.MEMBER_STARTS,
        mechanism="a client that starts knows only the follower, and commits there",
    ),
    Excuse(
        anomaly="offset_at_follower",
        effects=(FORGETS,),
        on=(Role.ALL_COORDINATORS,),
        after=routes_known,
        mechanism="coordinators without routes learned only of the follower, and clients that asked committed there",
    ),
    # ... if the commit is known to have been sent to a follower
    Excuse(
        anomaly="offset_sent_to_follower",
        effects=(STOPS,),
        on=(Role.LEADER,),
        after=lambda t: t.route_refresh_s + t.request_s,
        mechanism="a client that asked for the route while the leader was away knows a follower until it asks again",
    ),
    # committed.py: a follower reported the offset, or the history does not say which node did
    Excuse(
        anomaly="offset_forgotten",
        effects=(FORGETS, ROLLS_BACK, DISK),
        on=(Role.REPLICAS,),
        before=lambda t: t.offset_persist_s + t.follower_sync_s,
        after=two_requests,
        mechanism="an offset that was not yet written down, or not yet copied to a follower, is forgotten",
    ),
    Excuse(
        anomaly="offset_forgotten",
        effects=(STOPS, STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS, Role.INVOLVED),
        before=lambda t: t.follower_sync_s,
        after=two_requests,
        mechanism="a follower answered that had not yet copied the offset, or the commit was lost on its way",
    ),
    Excuse(
        anomaly="offset_forgotten",
        effects=(STOPS, STALLS),
        on=(Role.ALL_COORDINATORS,),
        before=lambda t: t.follower_sync_s,
        after=lambda t: t.register_s,
        mechanism="a client that starts knows only the follower, before the leader registers again",
    ),
    Excuse(
        anomaly="offset_replaced",
        effects=(EMPTIES,),
        on=(Role.REPLICAS,),
        mechanism="a disk was emptied, and the replicas may have come up with older offsets",
    ),
    Excuse(
        anomaly="offset_replaced",
        effects=(OFFSETS,),
        on=(Role.CLUSTER,),
        mechanism="an operator reset the offsets",
        unproven=True,
        one_way=True,
    ),
    # commit_times.py: a member without a fault near it or its broker commits soon, and before it leaves
    Excuse(
        anomaly="commit_late",
        effects=(STOPS, STALLS, DISK, LISTENER),
        on=(Role.INVOLVED,),
        after=one_request,
        mechanism="the member was away, or its listener or its disk slow",
    ),
    Excuse(
        anomaly="commit_late",
        effects=(STOPS, STALLS, DISK, WRITES_FAIL, NETWORK),
        on=(Role.STARTING_REPLICAS,),
        after=two_requests,
        held_up=one_request,
        mechanism="no broker took commits",
    ),
    Excuse(
        anomaly="commit_late",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        across=(Role.STARTING_REPLICAS,),
        after=two_requests,
        held_up=one_request,
        mechanism="the member could not reach the broker",
    ),
    # ... unless the history shows that the member has used the broker since
    Excuse(
        anomaly="broker_unknown",
        effects=(STOPS, STALLS),
        on=(Role.STARTING_REPLICAS,),
        after=lambda t: t.route_refresh_s + t.request_s,
        mechanism="the member learned late that the broker is back",
    ),
    Excuse(
        anomaly="broker_unknown",
        effects=(STOPS,),
        on=(Role.COORDINATORS,),
        after=lambda t: t.route_refresh_s + t.request_s,
        mechanism="a coordinator that starts names no broker",
    ),
)
