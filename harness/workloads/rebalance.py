"""Members join and leave while they consume: every queue always has exactly one owner."""

from __future__ import annotations

from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.workload import Workload

REBALANCE = Workload(
    name="rebalance",
    summary="members join and leave constantly: queues change owners, and no message is left unconsumed",
    generator=KeyedSends,
    options={"consumers": 4},
    faults=("member-leaves",) * 6 + ("offsets-reset",),
)
