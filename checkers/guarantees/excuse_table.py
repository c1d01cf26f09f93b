"""The table of excuses: one row for each mechanism by which a fault makes an anomaly legal.

For each row `test_excuse_rows.py` has a legal history that would be a violation without it.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from types import MappingProxyType

from staticfire.checkers.guarantees.excuse import (
    ON_ITS_WAY_S,
    Excuse,
    Role,
    Seconds,
    Since,
    at_once,
)
from staticfire.checkers.guarantees.facts import Timings
from staticfire.checkers.guarantees.fault_effects import (
    ALL_EFFECTS,
    CLOCK,
    CUTS,
    DISK,
    EMPTIES,
    FORGETS,
    LISTENER,
    NETWORK,
    OFFSETS,
    QUEUES,
    ROLLS_BACK,
    ROTS,
    ROUTES,
    STALLS,
    STOPS,
    WRITES_FAIL,
)

# A broker that cannot serve, or whose copies cannot be made, for as long as that lasts.
_UNABLE = (STOPS, STALLS, DISK, NETWORK, CUTS)

_LOCKED = ("two_listeners", "overlapping_owners")
# A settled message (settled.py) explains none of these.
_GOES_BACK = ("duplicate_unexplained", "commit_rewound", "nonmonotonic_poll")


def _one_request(timings: Timings) -> float:
    return timings.request_s


def _two_requests(timings: Timings) -> float:
    return 2 * timings.request_s


def _half_a_rebalance(timings: Timings) -> float:
    return timings.rebalance_s / 2


def _routes_known(timings: Timings) -> float:
    return timings.register_s + timings.route_refresh_s


def _producers_known(timings: Timings) -> float:
    return _routes_known(timings) + timings.heartbeat_s


def _forgets_after_a_pause(timings: Timings) -> float:
    return timings.register_s + 20.0  # a failed registration, and the next look at who is silent


def _replicates_again(timings: Timings) -> float:
    return timings.replication_silence_s + 2 * timings.request_s


def _delivers_late(
    anomaly: str,
    *,
    what: str,
    who: str,
    after: Seconds,
    at_least: Seconds = at_once,
    across: tuple[Role, ...] = (Role.REPLICAS,),
) -> tuple[Excuse, ...]:
    """Why a message is late: its broker is unable, its consumer is away, or the two cannot reach each other.

    `what` the broker did not do; `who` should have got the message, and needs those `across`.
    """
    row = partial(Excuse, anomaly=anomaly, at_least=at_least, after=after)
    return (
        row(
            effects=_UNABLE,
            on=(Role.REPLICAS,),
            across=(Role.REPLICAS,),
            mechanism=f"the broker {what}",
        ),
        row(
            effects=(STOPS, STALLS, LISTENER),
            on=(Role.INVOLVED,),
            mechanism=f"{who} was away or slow",
        ),
        row(
            effects=(NETWORK, CUTS, ROUTES),
            on=(Role.INVOLVED,),
            across=across,
            mechanism=f"{who} could not reach the broker",
        ),
    )


_ROWS: tuple[Excuse, ...] = (
    # groups.py: what is shorter than half of a rebalance delays one of them at most, and the bound allows for that
    Excuse(
        anomaly="queue_unowned",
        effects=(STOPS, STALLS, EMPTIES),
        on=(Role.ALL_REPLICAS,),
        at_least=_half_a_rebalance,
        after=_two_requests,
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
        at_least=_half_a_rebalance,
        after=_two_requests,
        since=Since.ROUTES_FORGOTTEN,
        mechanism="a coordinator that starts learns the queues of a broker from its leader",
    ),
    Excuse(
        anomaly="queue_unlocked",
        effects=(STOPS, STALLS, EMPTIES, NETWORK, CUTS),
        on=(Role.LEADER,),
        across=(Role.INVOLVED,),
        at_least=_half_a_rebalance,
        after=_two_requests,
        mechanism="the leader gives no locks, and a follower gives none at all",
    ),
    Excuse(
        anomaly="queue_unowned",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        at_least=_half_a_rebalance,
        mechanism="a member that is away takes no share",
    ),
    Excuse(
        anomaly="queue_unowned",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        across=(Role.BROKERS, Role.COORDINATORS),
        at_least=_half_a_rebalance,
        after=_two_requests,
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
        at_least=_half_a_rebalance,
        after=_two_requests,
        since=Since.SHARED_ANEW,
        mechanism="a member that is cut off does not know that others have taken its queues",
    ),
    # committed.py: where the leader said what is committed
    Excuse(
        anomaly="offset_lost",
        effects=(FORGETS,),
        on=(Role.LEADER,),
        before=lambda t: t.offset_persist_s,
        after=_two_requests,
        mechanism="the leader ended before it had written the offset down",
    ),
    Excuse(
        anomaly="offset_lost",
        effects=(ROLLS_BACK,),
        on=(Role.LEADER,),
        before=lambda t: t.offset_persist_s + t.write_back_s,
        after=_two_requests,
        mechanism="the disk of the leader had not stored the offset",
    ),
    Excuse(
        anomaly="offset_lost",
        effects=(DISK,),
        on=(Role.LEADER,),
        before=lambda t: t.offset_persist_s,
        after=_two_requests,
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
        after=_two_requests,
        mechanism="the commit was lost on its way, or a follower took it",
    ),
    # ... unless it is known that it was sent there
    Excuse(
        anomaly="offset_at_follower",
        effects=(ROUTES,),
        on=(Role.LEADER,),
        before=lambda _: ON_ITS_WAY_S,
        after=_two_requests,
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
        after=_routes_known,
        mechanism="coordinators without routes learned only of the follower, and clients that asked committed there",
    ),
    # ... if it is known that it was sent to a follower
    Excuse(
        anomaly="offset_sent_to_follower",
        effects=(STOPS,),
        on=(Role.LEADER,),
        after=lambda t: t.route_refresh_s + t.request_s,
        mechanism="a client that asked for the route while the leader was away knows a follower until it asks again",
    ),
    # committed.py: where it is not known who said it, or a follower did
    Excuse(
        anomaly="offset_forgotten",
        effects=(FORGETS, ROLLS_BACK, DISK),
        on=(Role.REPLICAS,),
        before=lambda t: t.offset_persist_s + t.follower_sync_s,
        after=_two_requests,
        mechanism="an offset that was not yet written down, or not yet copied to a follower, is forgotten",
    ),
    Excuse(
        anomaly="offset_forgotten",
        effects=(STOPS, STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS, Role.INVOLVED),
        before=lambda t: t.follower_sync_s,
        after=_two_requests,
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
    # moved_copies.py: followers move nothing
    Excuse(
        anomaly="moved_twice",
        effects=(STOPS, FORGETS, ROLLS_BACK, EMPTIES),
        on=(Role.LEADER,),
        mechanism="a broker died before it had recorded that it had moved the message",
    ),
    # ... where no copy waits for a follower: a broker that stops gracefully has written that down
    Excuse(
        anomaly="moved_twice unreplicated",
        effects=(FORGETS, ROLLS_BACK, EMPTIES, DISK, WRITES_FAIL),
        on=(Role.LEADER,),
        mechanism="a broker died, or could not write, before it had recorded that it had moved the message",
    ),
    # ... for how long that may be
    Excuse(
        anomaly="progress_held",
        effects=(*_UNABLE, WRITES_FAIL),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=_replicates_again,
        mechanism="the copy could not become safe, so the broker could not record that it had moved the message",
    ),
    Excuse(
        anomaly="progress_held unreplicated",
        effects=(STOPS, STALLS, DISK, WRITES_FAIL),
        on=(Role.LEADER,),
        after=_one_request,
        mechanism="the broker could not record anything",
    ),
    Excuse(
        anomaly="check_held",
        effects=(*_UNABLE, ROUTES),
        on=(Role.REPLICAS, Role.INVOLVED),
        across=(Role.REPLICAS, Role.COORDINATORS),
        after=_routes_known,
        mechanism="producers could not be asked about the transaction",
    ),
    # duplication.py, rewinds.py, polls.py: the member that has the queue goes back
    *(
        Excuse(
            anomaly=anomaly,
            effects=(OFFSETS,),
            on=(Role.CLUSTER,),
            after=_one_request,
            mechanism="an operator reset the offsets",
            unproven=True,
            one_way=True,
        )
        for anomaly in (*_GOES_BACK, "sent_back")
    ),
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STOPS, STALLS, DISK, NETWORK, CUTS),
            on=(Role.LEADER_WITH_FOLLOWERS,),
            across=(Role.REPLICAS, Role.INVOLVED),
            after=lambda t: t.replication_silence_s,
            mechanism="a follower served messages that the leader does not serve until replication continues",
        )
        for anomaly in _GOES_BACK
    ),
    # settled.py: of a member that does not report its queues
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
    # late_deliveries.py: requests outlive what is shorter than they wait
    *_delivers_late(
        "late_delivery",
        what="could not move the message",
        who="a member of the group",
        at_least=_one_request,
        after=_one_request,
        across=(Role.REPLICAS, Role.COORDINATORS),  # a queue without an owner counts, too
    ),
    # transactions.py: followers check nothing, so what they forget is no reason
    Excuse(
        anomaly="checked_too_often",
        effects=(STOPS, FORGETS, ROLLS_BACK, EMPTIES),
        on=(Role.LEADER,),
        mechanism="a broker forgot that it had asked",
    ),
    # needless_checks.py: a question about what is over, or a second one in the same round
    Excuse(
        anomaly="asked_again",
        effects=_UNABLE,
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=_two_requests,
        mechanism="the broker did not learn how it ended, or refused that, or asked in time and was slow",
    ),
    Excuse(
        anomaly="asked_again",
        effects=(CLOCK,),
        on=(Role.LEADER,),
        after=_two_requests,
        mechanism="the clock of the broker was wrong, by which it takes the age of a transaction",
    ),
    # ... that it asked in time
    Excuse(
        anomaly="check_on_its_way",
        effects=(STALLS, CUTS),
        on=(Role.LEADER, Role.INVOLVED),
        across=(Role.LEADER,),
        after=_two_requests,
        mechanism="what the broker asked arrived when TCP repeated it",
    ),
    # ... that it asks about each copy of a half
    Excuse(
        anomaly="half_doubled",
        effects=(STOPS, FORGETS, ROLLS_BACK, EMPTIES, WRITES_FAIL),
        on=(Role.LEADER,),
        after=_two_requests,
        mechanism="the broker ended before it had recorded that it had put the half back, or that it was over",
    ),
    Excuse(
        anomaly="answer_on_its_way",
        effects=(STOPS, STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        across=(Role.REPLICAS,),
        after=_two_requests,
        mechanism="a producer answered late, or its answer did not arrive",
    ),
    # check_rounds.py
    Excuse(
        anomaly="producers_unknown",
        effects=(STOPS, STALLS, CUTS, ROUTES),
        on=(Role.LEADER, Role.INVOLVED),
        across=(Role.LEADER, Role.COORDINATORS),
        after=_producers_known,
        mechanism="the broker knows no producer before one announces itself again",
    ),
    Excuse(
        anomaly="producers_unknown",
        effects=(STOPS, STALLS),
        on=(Role.COORDINATORS,),
        after=_producers_known,
        mechanism="a producer that started knew no route to the broker",
    ),
    Excuse(
        anomaly="producers_unknown",
        effects=(ROTS,),
        on=(Role.LEADER,),
        after=_replicates_again,
        mechanism="a round ends at a damaged half, until it is repaired",
    ),
    # delivery_waits.py: who owns a queue knows the address of its broker
    *_delivers_late(
        "slow_delivery",
        what="could not answer a pull",
        who="the owner of the queue",
        after=_two_requests,
    ),
    # followers_behind.py: what is late, or slow, after the leader is gone for good
    Excuse(
        anomaly="slave_behind_slave",
        effects=_UNABLE,
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=_replicates_again,
        since=Since.LEADER_GONE,
        mechanism="a follower without a leader lacks what another one has before it asks for it",
    ),
    # followers_behind.py: what members read late from a follower that started in the meantime
    Excuse(
        anomaly="leader_unknown",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        mechanism="a follower that starts does not learn from this coordinator which node is its leader",
    ),
    Excuse(
        anomaly="leader_unknown",
        effects=(STOPS,),
        on=(Role.INVOLVED,),
        after=lambda t: t.register_s,
        mechanism="a coordinator that starts does not know the leader before it registers again",
    ),
    # followers_behind.py: what members get late from a follower that leaders send them to, or from a synchronous leader
    Excuse(
        anomaly="follower_link_broken",
        effects=(NETWORK, CUTS),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        mechanism="what a leader sends to its follower is under way until TCP repeats it",
    ),
    Excuse(
        anomaly="slow_delivery",
        effects=(OFFSETS,),
        on=(Role.CLUSTER,),
        after=_two_requests,
        mechanism="an operator moved the group's offsets",
        one_way=True,
    ),
    # send_status.py: after the heal until the broker answers a send with SEND_OK again, and no longer
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
        effects=(*_UNABLE, ROUTES),
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
        effects=(NETWORK,),
        on=(Role.REPLICAS,),
        at_least=lambda t: t.replication_silence_s,
        after=lambda t: t.replication_silence_s,
        mechanism="a follower that was in step was silent for so long that the leader counted it as gone",
    ),
    # recovery.py: what was deleted before its time
    Excuse(
        anomaly="lost_from_log",
        effects=(WRITES_FAIL,),
        on=(Role.REPLICAS,),
        after=lambda t: t.clean_s,
        mechanism="its disk was full, and a broker may then delete messages that every group has consumed",
    ),
    Excuse(
        anomaly="faithful lost_from_log",
        effects=(EMPTIES,),
        on=(Role.REPLICAS,),
        mechanism="RocketMQ copies to an empty follower only from the last file of its leader on",
    ),
    # stuck_producers.py
    Excuse(
        anomaly="overdue_send",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        after=_one_request,
        mechanism="the producer was held up",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(*_UNABLE, EMPTIES, FORGETS, ROLLS_BACK),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=_replicates_again,
        mechanism="the broker could not store the message, or not on as many replicas as asked",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(STOPS, STALLS),
        on=(Role.INVOLVED,),
        after=_two_requests,
        mechanism="the producer was away",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(STOPS, STALLS),
        on=(Role.COORDINATORS,),
        after=_routes_known,
        mechanism="a coordinator knew no route to the broker before it registered again",
    ),
    Excuse(
        anomaly="producer_stuck",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.COORDINATORS, Role.INVOLVED),
        across=(Role.COORDINATORS, Role.REPLICAS, Role.INVOLVED),
        after=_routes_known,
        mechanism="the producer could not reach the broker, or had no route to it",
    ),
    # refusals.py
    *(
        Excuse(
            anomaly=refusal,
            effects=(*_UNABLE, EMPTIES, FORGETS, ROLLS_BACK),
            on=(Role.REPLICAS,),
            across=(Role.REPLICAS,),
            after=lambda t: t.replication_silence_s,
            mechanism="the broker could not store anything or had not loaded its topics, and refused before any check",
        )
        for refusal in ("wrong_refusal", "needless_refusal")
    ),
    # ordered_keys.py
    Excuse(
        anomaly="key_moved",
        effects=(STOPS, STALLS, EMPTIES, DISK),
        on=(Role.BROKERS,),
        after=_routes_known,
        mechanism="a broker was not in the routes that producers saw",
    ),
    Excuse(
        anomaly="key_moved",
        effects=(NETWORK, CUTS, ROUTES),
        on=(Role.BROKERS, Role.INVOLVED),
        across=(Role.COORDINATORS, Role.INVOLVED),
        after=_routes_known,
        mechanism="producers saw different routes",
    ),
    Excuse(
        anomaly="key_moved",
        effects=(STOPS, STALLS),
        on=(Role.COORDINATORS,),
        after=_routes_known,
        mechanism="a coordinator knew fewer brokers than there are",
    ),
    Excuse(
        anomaly="queues_changed",
        effects=(QUEUES,),
        on=(Role.CLUSTER,),
        after=_routes_known,
        mechanism="the topic got more queues",
    ),
    Excuse(
        anomaly="queues_changed",
        effects=(EMPTIES,),
        on=(Role.LEADERS,),
        after=_routes_known,
        mechanism="a broker is gone for good",
    ),
    # routes.py
    *(
        Excuse(
            anomaly=anomaly,
            effects=(STOPS, STALLS, DISK, NETWORK, CUTS, ROUTES),
            on=(Role.INVOLVED,),
            after=_two_requests,
            mechanism="the broker and the coordinator could not communicate",
        )
        for anomaly in ("missing_route", "stale_route")
    ),
    # route_changes.py
    Excuse(
        anomaly="route_drift",
        effects=(STOPS, STALLS, DISK, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        after=_two_requests,
        mechanism="the leader could not register at the coordinator",
    ),
    Excuse(
        anomaly="departed_route",
        effects=(STALLS,),
        on=(Role.INVOLVED,),
        after=_forgets_after_a_pause,
        mechanism="a coordinator that stood still gives servers a registration period to come back",
    ),
    # ... where a process has ended and its connections with it
    Excuse(
        anomaly="goodbye_lost",
        effects=(STALLS, NETWORK, CUTS, ROUTES),
        on=(Role.INVOLVED,),
        after=_two_requests,
        mechanism="the end of a connection did not reach the coordinator",
    ),
    # node_exits.py
    Excuse(
        anomaly="node_died",
        effects=(WRITES_FAIL,),
        on=(Role.INVOLVED,),
        after=lambda t: t.follower_sync_s,
        mechanism="its disk failed: a page that could not be written back is noticed at the next fsync",
    ),
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
    Excuse(
        anomaly="clock",
        effects=(CLOCK,),
        on=(Role.REPLICAS,),
        mechanism="the clock of the broker was wrong",
    ),
)


def _by_anomaly(rows: tuple[Excuse, ...]) -> Mapping[str, tuple[Excuse, ...]]:
    found: dict[str, tuple[Excuse, ...]] = {}
    for row in rows:
        found[row.anomaly] = (*found.get(row.anomaly, ()), row)
    return MappingProxyType(found)


EXCUSES = _by_anomaly(_ROWS)
