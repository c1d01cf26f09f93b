"""Members come and go while they consume: every queue has one owner at a time, and none is forgotten."""

from __future__ import annotations

from harness.generators.keyed_sends import KeyedSends
from harness.workloads.workload import Workload

REBALANCE = Workload(
    name="rebalance",
    summary="members of a group come and go all the time: queues change hands, no message is forgotten",
    generator=KeyedSends,
    options={"consumers": 4},
    faults=("member-leaves",) * 6,
)
