"""Excuses for queues of orderly groups that two members own at once."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role, Since
from staticfire.checkers.guarantees.excuses.seconds import one_request
from staticfire.checkers.guarantees.fault_effects import (
    ALL_EFFECTS,
    CUTS,
    EMPTIES,
    FORGETS,
    NETWORK,
    ROLLS_BACK,
    ROUTES,
    STALLS,
    STOPS,
)

_LOCKED = ("two_listeners", "overlapping_owners")


ROWS: tuple[Excuse, ...] = (
    # listeners.py
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STOPS, FORGETS),
            on=(Role.LEADER,),
            after=lambda t: t.lock_end_s,
            mechanism="the leader has forgotten the lock, and the end of its connection tells the member",
        )
        for anomaly in _LOCKED
    ),
    *(
        Excuse(
            anomaly=anomaly,
            effects=(ROLLS_BACK, EMPTIES),
            on=(Role.LEADER,),
            after=lambda t: t.lock_belief_s,
            mechanism="the host of the leader went without a word, and the leader has forgotten the lock",
        )
        for anomaly in _LOCKED
    ),
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STALLS, NETWORK, CUTS),
            on=(Role.INVOLVED, Role.LEADER),
            across=(Role.LEADER,),
            after=lambda t: t.lock_belief_s,
            held_up=one_request,
            since=Since.LEADER_ENDS,
            mechanism="the leader has forgotten the lock, and its end did not reach the member",
        )
        for anomaly in _LOCKED
    ),
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STALLS, NETWORK, CUTS),
            on=(Role.INVOLVED, Role.LEADER),
            across=(Role.LEADER,),
            at_least=lambda t: t.lock_life_s - t.lock_renewal_s,
            after=lambda t: t.lock_belief_s,
            held_up=one_request,
            mechanism="the lock expired while the listener of its member was at work",
        )
        for anomaly in _LOCKED
    ),
    *(
        Excuse(
            anomaly=f"faithful {anomaly}",
            effects=tuple(sorted(ALL_EFFECTS - {ROUTES})),
            on=(Role.LEADER, Role.INVOLVED),
            after=lambda t: t.lock_belief_s,
            mechanism="RocketMQ keeps what is cached when a lock is lost, and takes ages from wall clocks",
        )
        for anomaly in _LOCKED
    ),
)
