"""The intervals in which each client should have run, and the begin and end of the load."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.fault_effects import STOPS
from staticfire.checkers.guarantees.fault_times import began_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS
from staticfire.checkers.model.columns import Ints, MessageEvents


def load_end_ns(sends: MessageEvents, context: Context) -> int:
    """Return the invocation time in ns of the last send of a producer under load; 0 without a send."""
    begun = sends.invoke_ns[sends_by(sends, context, context.facts.producers)]
    return int(begun.max()) if len(begun) else 0


def load_start_ns(context: Context) -> int:
    """Return when the first client under load started, in ns; 0 if no start is known."""
    nodes = (*context.facts.producers, *context.facts.consumers)
    return min(
        (opened.time_ns for opened in context.timeline.opens if opened.node in nodes), default=0
    )


def sends_by(sends: MessageEvents, context: Context, nodes: tuple[str, ...]) -> Ints:
    """Return the rows of the sends of these nodes, in the order of their invocations."""
    node_of = context.timeline.nodes
    processes = [process for process, node in node_of.items() if node in nodes]
    rows = np.flatnonzero(np.isin(sends.process, processes))
    return rows[np.argsort(sends.invoke_ns[rows], kind="stable")]


def lives(context: Context, node: str, load_end_ns: int) -> Iterator[tuple[int, int]]:
    """Yield (start, end) in ns of the times in which a node should have run.

    They reach from its first start to the end of the load, without the times in which faults had stopped it.
    """
    opened = (opened.time_ns for opened in context.timeline.opens if opened.node == node)
    start_ns = next(opened, None)
    if start_ns is None:
        return
    for fired_ns, healed_ns in _crashes(context.facts, node):
        end_ns = min(fired_ns, load_end_ns)
        if start_ns < end_ns:
            yield start_ns, end_ns
        start_ns = max(start_ns, healed_ns)
    if start_ns < load_end_ns:
        yield start_ns, load_end_ns


def _crashes(facts: RunFacts, node: str) -> list[tuple[int, int]]:
    return sorted(
        (began_ns(fault), FOREVER_NS if fault.healed_ns is None else fault.healed_ns)
        for fault in facts.faults
        if STOPS in fault.effects and fault.bitten_ns is not None and node in fault.targets
    )
