"""Computes which messages the followers of a leader may lack at a time.

An asynchronous leader acknowledges a message before it sends it to its followers, and a synchronous one when the first
of several followers has it. Without faults, each follower has it a flush and two packets later; one more request covers
a link that carries many messages. While a replica or a link between them fails, and until they have connected again, no
copy is certain. A follower that connects again first asks a coordinator for its leader, so a coordinator that fails at
that time prolongs this.

This holds only for hardened brokers: followers of Apache RocketMQ may begin at the last file of their leader.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence

from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.guarantees.fault_effects import (
    CUTS,
    DISK,
    NETWORK,
    ROTS,
    STALLS,
    STOPS,
    WRITES_FAIL,
)
from staticfire.checkers.guarantees.fault_times import (
    began_ns,
    by_target,
    cuts_between,
    healed_ns,
)
from staticfire.checkers.model.intervals import Span

NS_PER_S = 1_000_000_000
RESTARTED_NS = 10 * NS_PER_S  # time until a node that ended by itself has started again
# In a new cluster followers learn of their leader from a registration, and connect every few seconds.
STARTED_NS = 10 * NS_PER_S
_OF_NODES = frozenset({STOPS, STALLS, DISK, WRITES_FAIL, NETWORK, ROTS})
_OF_COORDINATORS = frozenset({STOPS, STALLS, NETWORK, CUTS})


def uncopied_since_ns(facts: RunFacts, nodes: Sequence[str], at_ns: int) -> int:
    """Return the time of the earliest write that a follower may lack at `at_ns`; `nodes`: the leader, its followers."""
    troubles = list(_troubles(facts, nodes))
    times = range(max(at_ns, 0))
    return bisect_left(times, True, key=lambda at: _copied_by_ns(facts, troubles, at) >= at_ns)


def stops_of(facts: RunFacts, node: str) -> list[Span]:
    """Return the times in which the process of a node did not run: ended by a fault that bit, or by itself."""
    ended = (one.time_ns for one in facts.exits if one.node == node)
    return [
        *(
            Span(began_ns(one), healed_ns(one))
            for fault in facts.faults
            if fault.bitten_ns is not None
            for one in by_target(fault)
            if STOPS in one.effects and node in one.targets
        ),
        *(Span(at_ns, at_ns + RESTARTED_NS) for at_ns in ended),
    ]


def _copied_by_ns(facts: RunFacts, troubles: Sequence[tuple[Span, bool]], written_ns: int) -> int:
    """Return the time from which on all followers have what the leader had written by `written_ns`."""
    timings = facts.timings
    copied_ns = round((timings.flush_s + 2 * timings.packet_s + timings.request_s) * NS_PER_S)
    connected_ns = round((timings.replication_silence_s + 2 * timings.request_s) * NS_PER_S)
    by_ns, connects = max(written_ns, STARTED_NS) + copied_ns, written_ns < STARTED_NS
    for span, of_replicas in troubles:
        until_ns = span.end_ns + connected_ns
        if until_ns >= written_ns and span.start_ns <= by_ns and (of_replicas or connects):
            by_ns, connects = max(by_ns, until_ns + copied_ns), True
    return by_ns


def _troubles(facts: RunFacts, nodes: Sequence[str]) -> Iterator[tuple[Span, bool]]:
    """Yield the times in which a fault hindered copies, sorted, and whether it was of a replica, not a coordinator."""
    found = [
        (Span(ended.time_ns, ended.time_ns + RESTARTED_NS), True)
        for ended in facts.exits
        if ended.node in nodes
    ]
    for fault in facts.faults:
        if fault.bitten_ns is None:
            continue
        for one in by_target(fault):
            span = Span(began_ns(one), healed_ns(one))
            if _hinders(one, nodes):
                found.append((span, True))
            elif not _OF_COORDINATORS.isdisjoint(one.effects) and _meets(one, facts.coordinators):
                found.append((span, False))
    yield from sorted(found)


def _hinders(fault: FaultFacts, nodes: Sequence[str]) -> bool:
    of_nodes = not _OF_NODES.isdisjoint(fault.effects) and not set(nodes).isdisjoint(fault.targets)
    return of_nodes or (
        CUTS in fault.effects and cuts_between(fault, frozenset(nodes[:1]), frozenset(nodes[1:]))
    )


def _meets(fault: FaultFacts, nodes: Sequence[str]) -> bool:
    links = {node for link in fault.links for node in link}
    return not set(nodes).isdisjoint({*fault.targets, *links})
