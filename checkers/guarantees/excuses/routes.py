"""Excuses for routes of coordinators, tables of servers, and single nodes."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role
from staticfire.checkers.guarantees.excuses.seconds import (
    forgets_after_a_pause,
    one_look,
    two_requests,
)
from staticfire.checkers.guarantees.fault_effects import (
    CLOCK,
    CUTS,
    DISK,
    EMPTIES,
    NETWORK,
    ROLLS_BACK,
    ROUTES,
    STALLS,
    STOPS,
    WRITES_FAIL,
)

ROWS: tuple[Excuse, ...] = (
    # routes.py
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STOPS, STALLS, DISK, NETWORK, CUTS, ROUTES),
            on=(Role.INVOLVED,),
            after=two_requests,
            mechanism="the broker and the coordinator could not communicate",
        )
        for anomaly in ("missing_route", "stale_route")
    ),
    # route_changes.py
    Excuse(
        anomaly="route_drift",
        effects=(STOPS, STALLS, DISK, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        after=two_requests,
        mechanism="the leader could not register at the coordinator",
    ),
    # confirmed_queues.py
    Excuse(
        anomaly="queues_forgotten",
        effects=(EMPTIES,),
        on=(Role.LEADER,),
        mechanism="the leader lost its disk, and no follower may have had the new queues",
    ),
    # ... if the table of topics is not fsynced
    Excuse(
        anomaly="queues_unsynced",
        effects=(ROLLS_BACK, WRITES_FAIL),
        on=(Role.LEADER,),
        mechanism="the disk of the leader had not stored the new queues",
    ),
    Excuse(
        anomaly="departed_route",
        effects=(STALLS,),
        on=(Role.INVOLVED,),
        after=forgets_after_a_pause,
        mechanism="a coordinator that stood still gives servers a registration period to come back",
    ),
    # ... if a process ended, and its connections with it
    Excuse(
        anomaly="goodbye_lost",
        effects=(STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        after=two_requests,
        mechanism="the end of a connection did not reach the coordinator",
    ),
    # server_tables.py
    Excuse(
        anomaly="table_uncopied",
        effects=(STOPS, STALLS, DISK, NETWORK, CUTS),
        on=(Role.INVOLVED,),
        after=one_look,
        mechanism="the follower could not ask its leader, or could not write the answer",
    ),
    # node_exits.py
    Excuse(
        anomaly="node_died",
        effects=(WRITES_FAIL,),
        on=(Role.INVOLVED,),
        after=lambda t: t.follower_sync_s,
        mechanism="its disk failed: a page that could not be written back is noticed at the next fsync",
    ),
    Excuse(
        anomaly="clock",
        effects=(CLOCK,),
        on=(Role.REPLICAS,),
        mechanism="the clock of the broker was wrong",
    ),
)
