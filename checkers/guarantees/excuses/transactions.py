"""Excuses for transactions: checks that come too often, or not at all."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role, Since
from staticfire.checkers.guarantees.excuses.seconds import (
    producers_known,
    routes_known,
    two_requests,
)
from staticfire.checkers.guarantees.fault_effects import (
    CLOCK,
    CUTS,
    EMPTIES,
    FORGETS,
    NETWORK,
    ROLLS_BACK,
    ROTS,
    ROUTES,
    STALLS,
    STOPS,
    UNABLE,
    WRITES_FAIL,
)

ROWS: tuple[Excuse, ...] = (
    Excuse(
        anomaly="check_held",
        effects=(*UNABLE, ROUTES),
        on=(Role.REPLICAS, Role.INVOLVED),
        across=(Role.REPLICAS, Role.COORDINATORS),
        after=routes_known,
        mechanism="producers could not be asked about the transaction",
    ),
    # transactions.py: only leaders check transactions, so losses of followers do not count
    Excuse(
        anomaly="checked_too_often",
        effects=(STOPS, FORGETS, ROLLS_BACK, EMPTIES),
        on=(Role.LEADER,),
        mechanism="a broker forgot that it had asked",
    ),
    # needless_checks.py: a check after the transaction was over, or a second one in the same round
    Excuse(
        anomaly="asked_again",
        effects=UNABLE,
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=two_requests,
        mechanism="the broker did not learn how it ended, or refused that, or asked in time and was slow",
    ),
    Excuse(
        anomaly="asked_again",
        effects=(CLOCK,),
        on=(Role.LEADER,),
        after=two_requests,
        mechanism="the clock of the broker was wrong, by which it takes the age of a transaction",
    ),
    # ... a check that the broker sent in time
    Excuse(
        anomaly="check_on_its_way",
        effects=(STALLS, CUTS),
        on=(Role.LEADER, Role.INVOLVED),
        across=(Role.LEADER,),
        after=two_requests,
        mechanism="what the broker asked arrived when TCP repeated it",
    ),
    # ... a broker that has two copies of a half message, and checks both
    Excuse(
        anomaly="half_doubled",
        effects=(STOPS, FORGETS, ROLLS_BACK, EMPTIES, WRITES_FAIL),
        on=(Role.LEADER,),
        after=two_requests,
        mechanism="the broker ended before it had recorded that it had put the half back, or that it was over",
    ),
    Excuse(
        anomaly="answer_on_its_way",
        effects=(STOPS, STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        across=(Role.REPLICAS,),
        after=two_requests,
        mechanism="a producer answered late, or its answer did not arrive",
    ),
    # check_rounds.py: applies only while the broker knows none of the producers
    Excuse(
        anomaly="producers_unknown",
        effects=(STOPS, STALLS, CUTS, ROUTES),
        on=(Role.LEADER, Role.INVOLVED),
        across=(Role.LEADER, Role.COORDINATORS),
        after=producers_known,
        mechanism="the broker knows no producer before one announces itself again",
    ),
    Excuse(
        anomaly="producers_unknown",
        effects=(STOPS, STALLS),
        on=(Role.COORDINATORS,),
        after=producers_known,
        since=Since.MEMBER_STARTS,
        mechanism="a producer that started knew no route to the broker",
    ),
    Excuse(
        anomaly="check_swallowed",
        effects=(STALLS, CUTS),
        on=(Role.INVOLVED,),
        across=(Role.LEADER,),
        after=lambda t: t.heartbeat_s + two_requests(t),
        mechanism="the broker asks on a dead connection until the producer announces its new one",
    ),
    Excuse(
        anomaly="half_damaged",
        effects=(ROTS,),
        on=(Role.LEADER,),
        mechanism="a round ends at a damaged half, until it is repaired",
    ),
)
