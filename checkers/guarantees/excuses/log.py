"""Excuses for messages that a queue has twice or no longer has, and for members that go back in it."""

from __future__ import annotations

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role
from staticfire.checkers.guarantees.excuses.seconds import one_request, replicates_again
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    DISK,
    EMPTIES,
    FORGETS,
    NETWORK,
    OFFSETS,
    ROLLS_BACK,
    STALLS,
    STOPS,
    UNABLE,
    WRITES_FAIL,
)

# Anomalies of a member that goes back although no message was settled (settled.py).
_GOES_BACK = ("duplicate_unexplained", "commit_rewound", "nonmonotonic_poll")


ROWS: tuple[Excuse, ...] = (
    # moved_copies.py: only leaders move messages
    Excuse(
        anomaly="moved_twice",
        effects=(STOPS, FORGETS, ROLLS_BACK, EMPTIES),
        on=(Role.LEADER,),
        mechanism="a broker died before it had recorded that it had moved the message",
    ),
    # ... without synchronous replication: a broker that stops gracefully has recorded the move
    Excuse(
        anomaly="moved_twice unreplicated",
        effects=(FORGETS, ROLLS_BACK, EMPTIES, DISK, WRITES_FAIL),
        on=(Role.LEADER,),
        mechanism="a broker died, or could not write, before it had recorded that it had moved the message",
    ),
    # ... the time in which the broker could not record it
    Excuse(
        anomaly="progress_held",
        effects=(*UNABLE, WRITES_FAIL),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=replicates_again,
        mechanism="the copy could not become safe, so the broker could not record that it had moved the message",
    ),
    Excuse(
        anomaly="progress_held unreplicated",
        effects=(STOPS, STALLS, DISK, WRITES_FAIL),
        on=(Role.LEADER,),
        after=one_request,
        mechanism="the broker could not record anything",
    ),
    # duplication.py, rewinds.py, polls.py: the member that owns the queue goes back
    *(
        Excuse(
            anomaly=anomaly,
            effects=(OFFSETS,),
            on=(Role.CLUSTER,),
            after=one_request,
            mechanism="an operator reset the offsets",
            unproven=True,
            one_way=True,
        )
        for anomaly in ("nonmonotonic_poll", "sent_back")
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
    # recovery.py: messages that a node of their replica set deleted before their retention time
    Excuse(
        anomaly="lost_from_log",
        effects=(WRITES_FAIL,),
        on=(Role.INVOLVED,),
        after=lambda t: t.clean_s,
        mechanism="its disk was full, and a broker may then delete messages that every group has consumed",
    ),
    Excuse(
        anomaly="faithful lost_from_log",
        effects=(EMPTIES,),
        on=(Role.REPLICAS,),
        mechanism="RocketMQ copies to an empty follower only from the last file of its leader on",
    ),
)
