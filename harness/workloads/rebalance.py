"""Members come and go while they consume: every queue has one owner at a time, and none is forgotten."""

from __future__ import annotations

from staticfire.harness.generators.keyed_sends import KeyedSends
from staticfire.harness.workloads.workload import Workload

REBALANCE = Workload(
    name="rebalance",
    summary="members come and go all the time and are sent back: queues change hands, no message is forgotten",
    generator=KeyedSends,
    options={"consumers": 4},
    faults=("member-leaves",) * 6 + ("offsets-reset",),
)
