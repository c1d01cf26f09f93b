"""The ends of client processes, derived from starts, exits and faults of their nodes."""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.fault_effects import AT_ONCE, FORGETS, STOPS
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S

# How long a process may run after the fault that ends it was fired: until a signal arrives, or until a graceful end.
KILLED_WITHIN_NS = 2 * NS_PER_S
STOPPED_WITHIN_NS = 10 * NS_PER_S
EXIT_NOTICED_NS = 2 * NS_PER_S


def ended_ns(context: Context, process: int) -> int:
    """Return the time in ns from which on `process` cannot run; FOREVER_NS if it is not known."""
    node = context.timeline.nodes.get(process)
    started = [one.time_ns for one in context.timeline.opens if one.process == process]
    if node is None or not started:
        return FOREVER_NS
    return min(_ends(context, process, node, started[-1]), default=FOREVER_NS)


def _ends(context: Context, process: int, node: str, started_ns: int) -> Iterator[int]:
    for opened in context.timeline.opens:
        if opened.node == node and opened.process != process and opened.time_ns > started_ns:
            yield opened.time_ns
    for ended in context.facts.exits:
        if ended.node == node and ended.time_ns > started_ns:
            yield ended.time_ns + EXIT_NOTICED_NS
    for fault in context.facts.faults:
        struck_ns = fault.bitten_ns if fault.fired_ns is None else fault.fired_ns
        if struck_ns is None or fault.bitten_ns is None or not _ends_at_once(fault):
            continue
        if node in fault.targets and struck_ns > started_ns:
            killed = FORGETS in fault.effects
            yield struck_ns + (KILLED_WITHIN_NS if killed else STOPPED_WITHIN_NS)


def _ends_at_once(fault: FaultFacts) -> bool:
    return STOPS in fault.effects and fault.strikes_when == AT_ONCE
