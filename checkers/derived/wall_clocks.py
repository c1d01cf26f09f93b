"""Converts wall-clock times to the clock of a run, and finds when faults set wall clocks wrong."""

from __future__ import annotations

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.fault_effects import CLOCK
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, began_ns
from staticfire.checkers.model.columns import Columns, Ints

NS_PER_MS = 1_000_000


def on_run_clock(wall_ms: Ints, epoch_ms: int) -> Ints:
    """Return wall-clock times on the clock of the run in ns, same shape; times out of range are clipped."""
    far_ms = FOREVER_NS // NS_PER_MS
    return np.clip(wall_ms - epoch_ms, -far_ms, far_ms) * NS_PER_MS


def brokers_stepped_ns(columns: Columns, context: Context) -> Ints:
    """Return when a fault first set the clock of a replica of each stream wrong in ns, shape (streams,)."""
    stepped, brokers = stepped_ns(context), context.facts.replica_sets
    return np.array(
        [
            min(
                (stepped.get(node, FOREVER_NS) for node in brokers.get(name, ())),
                default=FOREVER_NS,
            )
            for name in columns.names.streams
        ],
        np.int64,
    )


def stepped_ns(context: Context) -> dict[str, int]:
    """Return, by node, when a fault first set its wall clock wrong in ns; other nodes are missing."""
    found: dict[str, int] = {}
    for fault in context.facts.faults:
        if CLOCK in fault.effects and fault.bitten_ns is not None:
            for node in fault.targets:
                found[node] = min(began_ns(fault), found.get(node, FOREVER_NS))
    return found
