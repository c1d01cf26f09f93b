"""Excuses for sends: weak statuses, refusals, stuck producers, and keys that change their queue."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role
from staticfire.checkers.guarantees.excuses.seconds import (
    disk_checked,
    one_request,
    replicates_again,
    routes_known,
    two_requests,
)
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    DISK,
    EMPTIES,
    FORGETS,
    NETWORK,
    QUEUES,
    RIGHTS,
    ROLLS_BACK,
    ROUTES,
    STALLS,
    STOPS,
    UNABLE,
    WRITES_FAIL,
)

ROWS: tuple[Excuse, ...] = (
    # send_status.py: after the heal only until the broker next answers a send with SEND_OK
    Excuse(
        anomaly="spurious_weak_status FLUSH_DISK_TIMEOUT",
        effects=(STALLS, DISK),
        on=(Role.LEADER,),
        after=lambda t: t.flush_timeout_s,
        mechanism="the leader flushed it just after it had given up waiting",
    ),
    Excuse(
        anomaly="spurious_weak_status FLUSH_DISK_TIMEOUT",
        effects=(WRITES_FAIL,),
        on=(Role.LEADER,),
        after=lambda t: t.follower_sync_s,
        mechanism="the disk of the leader failed, and the broker answered all waiting sends at once",
    ),
    Excuse(
        anomaly="spurious_weak_status FLUSH_SLAVE_TIMEOUT",
        effects=(*UNABLE, ROUTES),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=lambda t: t.replication_silence_s,
        mechanism="the follower acknowledged it just after the leader had given up waiting",
    ),
    Excuse(
        anomaly="spurious_weak_status SLAVE_NOT_AVAILABLE",
        effects=(STOPS, STALLS, CUTS, ROUTES),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=lambda t: t.replication_silence_s,
        mechanism="no follower was in step when the message was stored, and one copied it just before the answer",
    ),
    Excuse(
        anomaly="spurious_weak_status SLAVE_NOT_AVAILABLE",
        effects=(WRITES_FAIL,),
        on=(Role.REPLICAS,),
        after=lambda t: t.replication_silence_s,
        mechanism="a follower whose disk failed ended the connection before it had acknowledged all that it holds",
    ),
    Excuse(
        anomaly="spurious_weak_status SLAVE_NOT_AVAILABLE",
        effects=(NETWORK, DISK),
        on=(Role.REPLICAS,),
        at_least=lambda t: t.replication_silence_s,
        after=lambda t: t.replication_silence_s,
        mechanism="a follower that was in step was silent for so long that the leader counted it as gone",
    ),
    # stuck_producers.py
    Excuse(
        anomaly="overdue_send",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        after=one_request,
        mechanism="the producer was held up",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(*UNABLE, EMPTIES, FORGETS, ROLLS_BACK),
        on=(Role.SERVING_REPLICAS,),
        across=(Role.SERVING_REPLICAS,),
        after=replicates_again,
        held_up=one_request,
        mechanism="the broker could not store the message, or not on as many replicas as asked",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        after=two_requests,
        mechanism="the producer was away",
    ),
    # ... only for a producer or a leader that starts
    Excuse(
        anomaly="route_unknown",
        effects=(STOPS, STALLS),
        on=(Role.COORDINATORS,),
        after=routes_known,
        mechanism="a coordinator knew no route to the broker before it registered again",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.COORDINATORS, Role.INVOLVED),
        across=(Role.COORDINATORS, Role.SERVING_REPLICAS, Role.INVOLVED),
        after=routes_known,
        held_up=one_request,
        mechanism="the producer could not reach the broker, or had no route to it",
    ),
    # refusals.py
    *(
        Excuse(
            anomaly=refusal,
            effects=effects,
            on=(Role.STARTING_REPLICAS,),
            across=(Role.STARTING_REPLICAS,),
            after=after,
            held_up=one_request,
            mechanism=mechanism,
        )
        for refusal in ("wrong_refusal", "needless_refusal")
        for effects, after, mechanism in (
            (
                (STOPS, STALLS, NETWORK, CUTS, EMPTIES, FORGETS, ROLLS_BACK),
                two_requests,
                "the broker could not store anything or had not loaded its topics, and refused before any check",
            ),
            (
                (DISK,),
                disk_checked,
                "the broker could not write, and looks only now and then whether its disk has space again",
            ),
        )
    ),
    *(
        Excuse(
            anomaly="too_busy",
            effects=effects,
            on=(Role.LEADER,),
            after=after,
            held_up=one_request,
            mechanism="requests waited behind a slow disk, or while the broker stood still",
        )
        for effects, after in (((STOPS, STALLS), two_requests), ((DISK,), disk_checked))
    ),
    Excuse(
        anomaly="account_refused",
        effects=(RIGHTS,),
        on=(Role.CLUSTER,),
        after=one_request,
        mechanism="an administrator was changing the rights of the account",
    ),
    # ordered_keys.py: producers use the queues of the leaders in their route
    Excuse(
        anomaly="key_moved",
        effects=(STOPS, STALLS, EMPTIES, DISK),
        on=(Role.LEADERS,),
        after=routes_known,
        mechanism="a leader was not in the routes that producers saw",
    ),
    Excuse(
        anomaly="key_moved",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.LEADERS, Role.INVOLVED),
        across=(Role.COORDINATORS, Role.INVOLVED),
        after=routes_known,
        mechanism="producers saw different routes",
    ),
    Excuse(
        anomaly="key_moved",
        effects=(STOPS, STALLS),
        on=(Role.COORDINATORS,),
        after=routes_known,
        mechanism="a coordinator knew fewer leaders than there are",
    ),
    Excuse(
        anomaly="queues_changed",
        effects=(QUEUES,),
        on=(Role.CLUSTER,),
        after=routes_known,
        mechanism="the topic got more queues",
        unproven=True,
    ),
    Excuse(
        anomaly="queues_changed",
        effects=(EMPTIES,),
        on=(Role.LEADERS,),
        after=routes_known,
        mechanism="a broker is gone for good",
    ),
)
