"""Wall clocks on the clock of a run, and from when on faults had set them wrong."""

from __future__ import annotations

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.fault_effects import CLOCK
from staticfire.checkers.guarantees.fault_times import FOREVER_NS, began_ns
from staticfire.checkers.model.columns import Columns, Ints

NS_PER_MS = 1_000_000


def on_run_clock(wall_ms: Ints, epoch_ms: int) -> Ints:
    """Wall times on the clock of the run, in ns; what no clock can show is as good as any wrong time."""
    far_ms = FOREVER_NS // NS_PER_MS
    return np.clip(wall_ms - epoch_ms, -far_ms, far_ms) * NS_PER_MS


def brokers_stepped_ns(columns: Columns, context: Context) -> Ints:
    """When a fault first set the wall clock of a replica of each replica set wrong, shape (replica sets,)."""
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
    """When a fault first set the wall clock of a node wrong, by node."""
    found: dict[str, int] = {}
    for fault in context.facts.faults:
        if CLOCK in fault.effects and fault.bitten_ns is not None:
            for node in fault.targets:
                found[node] = min(began_ns(fault), found.get(node, FOREVER_NS))
    return found
