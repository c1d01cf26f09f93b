"""Finds facts that cannot belong to a history; without checksums, no other check shows that both are of one run.

The checker compares the names of brokers, topics, groups and clients, and the kinds, targets and times of faults. It
does not compare a history with checksums, because the harness that recorded it also wrote its facts.
"""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.model.columns import INTERNAL_TOPICS, Names
from staticfire.checkers.model.timeline import FaultOp, Timeline

HARNESS_NODES = frozenset({"admin", "probe"})  # clients of the harness itself
WRITTEN_WITHIN_NS = 1_000_000_000  # time until the history has the end of a fault
PROBE_SUFFIX = "-probe"  # ends the name of the topic to which the harness sends probes


def contradictions(facts: RunFacts, timeline: Timeline, names: Names) -> Iterator[str]:
    """Yield a sentence for each kind of difference between the facts and the history."""
    yield from _unknown("broker", set(names.streams), set(facts.replica_sets))
    yield from _unknown("group", {*names.groups, *_groups(timeline)}, set(facts.groups))
    yield from _unknown("topic", set(filter(_is_plain, names.topics)), _topics(facts))
    yield from _clients(facts, set(timeline.nodes.values()))
    yield from _faults(facts, timeline)


def _unknown(what: str, seen: set[str], known: set[str]) -> Iterator[str]:
    if strangers := sorted(seen - known):
        yield f"the history has the {what} {strangers[0]}, the facts have not: they are of another run"


def _groups(timeline: Timeline) -> set[str]:
    return {group for group, _ in timeline.drains} | {of.group for of in timeline.subscriptions}


def _is_plain(topic: str) -> bool:
    return not topic.startswith(INTERNAL_TOPICS)


def _topics(facts: RunFacts) -> set[str]:
    topics = {*facts.topics, *(topic for of in facts.groups.values() for topic in of)}
    return topics.union(facts.refused_topics, (f"{topic}{PROBE_SUFFIX}" for topic in topics))


def _clients(facts: RunFacts, seen: set[str]) -> Iterator[str]:
    clients = {*facts.producers, *facts.consumers}
    if not clients:  # the facts do not name them
        return
    yield from _unknown("client", seen - HARNESS_NODES, clients)
    if seen and (absent := sorted(set(facts.producers) - seen)):
        yield f"the facts have the producer {absent[0]}, which never appears in the history"


def _faults(facts: RunFacts, timeline: Timeline) -> Iterator[str]:
    for fault in facts.faults:
        if why := _implausible(fault):
            yield f"the facts say of fault {fault.fault_id} ({fault.kind}) that it {why}"
            break
    fired = [fault for fault in facts.faults if fault.fired_ns is not None]
    for op in timeline.faults:
        if not any(_is_of(op, fault) for fault in fired):
            verb, at_s = op.verb, op.time_ns / 1e9
            yield (
                f"the history has {verb}_{op.kind} of {', '.join(op.targets) or 'no node'} at {at_s:.3f} s, and the "
                "facts have no such fault: they are of another run"
            )
            break
    begun = [op for op in timeline.faults if op.verb == "start"]
    for fault in fired:
        if fault.error is None and not any(_is_of(op, fault) for op in begun):
            yield (
                f"the facts have fault {fault.fault_id} ({fault.kind}), which never begins in the history: they are of "
                "another run"
            )
            break


def _implausible(fault: FaultFacts) -> str:
    """Return why the times of a fault are impossible; empty if they are possible."""
    if fault.fired_ns is None:
        came_later = fault.bitten_ns is not None or fault.healed_ns is not None
        return "had an effect or was healed, and was never fired" if came_later else ""
    if fault.healed_ns is not None and fault.healed_ns < fault.fired_ns:
        return "was healed before it was fired"
    is_early = fault.bitten_ns is not None and fault.bitten_ns < fault.fired_ns
    return "had an effect before it was fired" if is_early else ""


def _is_of(op: FaultOp, fault: FaultFacts) -> bool:
    """Whether an op of the fault injector may be the begin or the end of a fault that was fired."""
    if op.kind.replace("-", "_") != fault.kind.replace("-", "_"):
        return False
    if set(op.targets) != set(fault.targets):
        return False
    # the op may be of another fault of this kind, so its times are not compared
    if op.fault_id is None:
        return True
    if op.fault_id != fault.fault_id or fault.fired_ns is None or op.time_ns < fault.fired_ns:
        return False
    if op.bitten is not None and op.bitten != (fault.bitten_ns is not None):
        return False
    healed_ns = fault.healed_ns
    if healed_ns is None:
        return True
    if op.verb == "start":
        return op.time_ns <= healed_ns
    return 0 <= op.time_ns - healed_ns < WRITTEN_WITHIN_NS
