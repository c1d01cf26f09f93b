"""A row of the table of excuses: what a fault must do, to which nodes and when, to make an anomaly legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from staticfire.checkers.guarantees.facts import Timings

# The policy by which consumers get messages that are neither flushed nor on a follower.
VISIBLE_END = "visible_end"


class Role(Enum):
    """Nodes in their relation to the witness of an anomaly."""

    LEADER = auto()  # of the queue's replica set
    LEADER_WITH_FOLLOWERS = (
        auto()
    )  # the same; no node where only the leader serves, and only safe messages
    REPLICAS = auto()  # of the queue's replica set, including the leader
    # the leader; its followers while messages or members may wait for them, or while they may stand in for it
    SERVING_REPLICAS = auto()
    # the leader; its followers only around a fault of the leader, which they may stand in for, or which asks them for
    # messages when it starts
    STARTING_REPLICAS = auto()
    ALL_REPLICAS = auto()  # struck only while faults have struck each of them
    BROKERS = auto()  # all brokers
    LEADERS = auto()  # of all replica sets
    COORDINATORS = auto()
    ALL_COORDINATORS = auto()  # struck only by a fault that strikes all of them
    INVOLVED = auto()  # those that the witness names: both owners, the producer, the members, ...
    CLUSTER = auto()  # no node in particular: an operator's changes


class Since(Enum):
    """The event that must happen during a fault before it has its effect (for kernels that look at `since`)."""

    FAULT = auto()  # nothing else
    # a member comes or goes, the topic gets queues, a broker forgets who the members are
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
    """One mechanism.

    `across`: the other end of the links that a partition must have cut; if empty, any role of `on`. `unproven`: a fault
    also counts that was not seen to bite, because its request may have been carried out without an answer. `one_way`:
    the mechanism begins when a message arrives, and a network or node that fails at that time holds it up. `held_up`:
    how long a request must take to have the effect; a fault that only delays packets counts if a request may then.
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
