"""A row of the table of excuses: what a fault must do, to which nodes and when, to make an anomaly legal."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto

from staticfire.checkers.guarantees.facts import Timings

# The line of the policies by which consumers get what is neither flushed nor on a follower.
VISIBLE_END = "visible_end"


class Role(Enum):
    """Nodes, as the witness of an anomaly sees them."""

    LEADER = auto()  # of the queue's replica set
    LEADER_WITH_FOLLOWERS = (
        auto()
    )  # the same; nothing where only the leader serves, and what is safe
    REPLICAS = auto()  # of the queue's replica set, the leader, too
    ALL_REPLICAS = auto()  # struck only while faults have struck each of them
    BROKERS = auto()  # all brokers
    LEADERS = auto()  # of all replica sets
    COORDINATORS = auto()
    ALL_COORDINATORS = auto()  # struck only by a fault that leaves none out
    INVOLVED = auto()  # that the witness names: both owners, the producer, the members, ...
    CLUSTER = auto()  # no node in particular: what an operator changes


class Since(Enum):
    """What must happen in the time of a fault before it has its effect (the kernels that look at `since`)."""

    FAULT = auto()  # nothing else
    # a member comes or goes, the topic gets queues, a broker forgets who the members are
    SHARED_ANEW = auto()
    MEMBER_STARTS = auto()  # one that the witness names
    BROKER_STARTS = auto()  # any one
    ROUTES_FORGOTTEN = auto()  # a coordinator starts again
    LEADER_ENDS = auto()  # of the queue's replica set
    LEADER_GONE = auto()  # of the queue's replica set, for good


Seconds = Callable[[Timings], float]
ON_ITS_WAY_S = 1.0  # commits are sent one way: until a broker has one


def at_once(_: Timings) -> float:
    return 0.0


@dataclass(frozen=True, slots=True, kw_only=True)
class Excuse:
    """One mechanism.

    `across`: the other end of links that a partition must have cut, any role of `on` if empty. `unproven`: also a fault
    that was not seen to bite, because its request may have been carried out without an answer. `one_way`: the mechanism
    begins when a message arrives, and a network or node that fails at that time holds it up.
    """

    anomaly: str
    effects: tuple[str, ...]
    on: tuple[Role, ...]
    across: tuple[Role, ...] = ()
    at_least: Seconds = at_once  # how long the fault must last to have the effect
    before: Seconds = at_once  # how long before the fault it may have its effect
    after: Seconds = at_once  # how long after the heal
    since: Since = Since.FAULT
    mechanism: str
    unproven: bool = False
    one_way: bool = False
