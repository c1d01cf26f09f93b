"""Excuses for messages that members receive late."""

from __future__ import annotations

from functools import partial

from staticfire.checkers.guarantees.excuses.excuse import Excuse, Role, Seconds, Since, at_once
from staticfire.checkers.guarantees.excuses.seconds import (
    half_a_second,
    one_request,
    replicates_again,
    two_requests,
)
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    DISK,
    LISTENER,
    NETWORK,
    OFFSETS,
    ROLLS_BACK,
    ROUTES,
    STALLS,
    STOPS,
    SWALLOWS,
    UNABLE,
    WRITES_FAIL,
)


def _delivers_late(
    anomaly: str,
    *,
    what: str,
    who: str,
    after: Seconds,
    at_least: Seconds = at_once,
    across: tuple[Role, ...] = (Role.SERVING_REPLICAS,),
) -> tuple[Excuse, ...]:
    """Return the rows of a late message: its broker is unable, its consumer is away, or the two cannot communicate.

    Args:
        anomaly: the name in the table.
        what: what the broker could not do, for the mechanism.
        who: the consumer that should have received the message, for the mechanism.
        after: how long after the heal the fault still excuses.
        at_least: how long the fault must last.
        across: the roles of nodes that the consumer must reach.
    """
    row = partial(Excuse, anomaly=anomaly, at_least=at_least, after=after, held_up=half_a_second)
    return (
        row(
            effects=UNABLE,
            on=(Role.SERVING_REPLICAS,),
            across=(Role.SERVING_REPLICAS,),
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


ROWS: tuple[Excuse, ...] = (
    # late_deliveries.py: a request survives a fault that is shorter than its timeout
    *_delivers_late(
        "late_delivery",
        what="could not move the message",
        who="a member of the group",
        at_least=one_request,
        after=one_request,
        across=(Role.SERVING_REPLICAS, Role.COORDINATORS),  # a queue without an owner also counts
    ),
    # delivery_waits.py: the owner of a queue knows the address of its broker, so it needs no coordinator
    *_delivers_late(
        "slow_delivery",
        what="could not answer a pull",
        who="the owner of the queue",
        after=two_requests,
    ),
    # followers_behind.py: messages that arrive late after the leader is gone for good
    Excuse(
        anomaly="slave_behind_slave",
        effects=UNABLE,
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=replicates_again,
        since=Since.LEADER_GONE,
        mechanism="a follower without a leader lacks what another one has before it asks for it",
    ),
    # followers_behind.py: messages that members read late from a follower that started in the meantime
    Excuse(
        anomaly="coordinator_silent",
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
    # followers_behind.py: messages that a synchronous leader has stored and does not serve yet
    Excuse(
        anomaly="uncopied",
        effects=(STALLS, DISK, NETWORK, CUTS, ROLLS_BACK, WRITES_FAIL),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        after=replicates_again,
        held_up=half_a_second,
        mechanism="the leader waits for a follower until that has been silent for long enough",
    ),
    # followers_behind.py: messages that are late from a follower to which leaders send members, or from a sync leader
    Excuse(
        anomaly="follower_link_broken",
        effects=(NETWORK, CUTS, SWALLOWS),
        on=(Role.REPLICAS,),
        across=(Role.REPLICAS,),
        held_up=half_a_second,
        mechanism="what a leader sends to its follower is under way until TCP repeats it",
    ),
    Excuse(
        anomaly="slow_delivery",
        effects=(OFFSETS,),
        on=(Role.CLUSTER,),
        after=two_requests,
        mechanism="an operator moved the group's offsets",
        one_way=True,
    ),
)
