"""A row of the table of excuses: the effects, nodes and times with which a fault makes an anomaly legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from staticfire.checkers.guarantees.facts import Timings

# The policy with which consumers get messages that are neither flushed nor on a follower.
VISIBLE_END = "visible_end"


class Role(Enum):
    """The role of nodes for the witness of an anomaly."""

    LEADER = auto()  # of the queue's replica set
    # The leader if it has followers, or if consumers may get unsafe messages (VISIBLE_END); otherwise no node.
    LEADER_WITH_FOLLOWERS = auto()
    REPLICAS = auto()  # of the queue's replica set, including the leader
    # The leader. Also its followers if the leader waits for their copies or they serve members, or as in the next role.
    SERVING_REPLICAS = auto()
    # The leader. Also its followers around a fault of the leader or of a coordinator, when they may serve members in
    # its place, or when the leader starts and asks them for messages.
    STARTING_REPLICAS = auto()
    ALL_REPLICAS = auto()  # affected only while faults affect each of them
    BROKERS = auto()  # all brokers
    LEADERS = auto()  # of all replica sets
    COORDINATORS = auto()
    ALL_COORDINATORS = auto()  # affected only by a fault that has all of them as targets
    # the nodes that the witness names: both owners, the producer, the members, ...
    INVOLVED = auto()
    CLUSTER = auto()  # no particular node: changes by an operator


class Since(Enum):
    """The event that must happen during a fault before the excuse applies; only some kernels read it."""

    FAULT = auto()  # the fault itself is enough
    # a member starts or ends, the topic gets queues, or a broker forgets the members
    SHARED_ANEW = auto()
    MEMBER_STARTS = auto()  # a member that the witness names
    BROKER_STARTS = auto()  # any broker
    ROUTES_FORGOTTEN = auto()  # a coordinator starts again
    LEADER_ENDS = auto()  # of the queue's replica set
    LEADER_GONE = auto()  # of the queue's replica set, for good


Seconds = Callable[[Timings], float]
ON_ITS_WAY_S = 1.0  # until a broker has a commit, which is sent one way


def at_once(_: Timings) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """One mechanism by which a fault makes an anomaly legal.

    Attributes:
        effects: the fault must have one of these.
        on: the roles of the nodes that the fault must affect.
        across: the roles at the other end of the links that a partition must have cut; empty: those of `on`.
        held_up: how long a request must take to have the effect. A fault that only delays packets counts if DELAYS_MAX
            of its delays take longer.
        since: the event that must happen during the fault.
        mechanism: text for findings.
        unproven: a fault counts even if no effect was proven, because a broker may have executed its request without
            answering.
        one_way: the mechanism begins when a one-way message arrives. A fault of the network or of a node that delays
            the message lengthens the window.
    """

    anomaly: str
    effects: tuple[str, ...]
    on: tuple[Role, ...]
    across: tuple[Role, ...] = ()
    at_least: Seconds = at_once  # how long the fault must last to have the effect
    before: Seconds = at_once  # how long before the fault its effect may begin
    after: Seconds = at_once  # how long after the heal
    held_up: Seconds = at_once
    since: Since = Since.FAULT
    mechanism: str
    unproven: bool = False
    one_way: bool = False
