"""Nodes that end by themselves, with and without a reason."""

from __future__ import annotations

import pytest

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit, RunFacts
from staticfire.checkers.verdicts.compose import check_run

S = 1_000_000_000
EXIT = NodeExit(node="b-0", time_ns=10 * S, error="StoreFailed: EIO")


def fault(kind: str, node: str = "b-0", fired_s: int = 9, healed_s: int = 12) -> FaultFacts:
    return FaultFacts(
        fault_id="1",
        kind=kind,
        targets=(node,),
        fired_ns=fired_s * S,
        bitten_ns=fired_s * S,
        healed_ns=healed_s * S,
    )


@pytest.mark.parametrize(
    ("exits", "faults", "died"),
    [
        ((), (), 0),
        ((EXIT,), (), 1),
        ((EXIT,), (fault("failing_disk"),), 0),
        ((EXIT,), (fault("disk_full"),), 0),
        ((EXIT,), (fault("failing_disk", fired_s=1, healed_s=2),), 0),  # noticed at the next fsync
        ((EXIT,), (fault("failing_disk", node="b-1"),), 1),
        ((EXIT,), (fault("failing_disk", fired_s=11),), 1),
        ((EXIT,), (fault("kill"),), 1),
        ((EXIT, EXIT), (), 2),
    ],
)
def test_exits(exits: tuple[NodeExit, ...], faults: tuple[FaultFacts, ...], died: int) -> None:
    facts = RunFacts(
        flush="sync",
        replication="none",
        groups={"g": ("t",)},
        topics=("t",),
        replica_sets={"b": ("b-0", "b-1")},
        faults=faults,
        exits=exits,
    )
    verdict = next(v for v in check_run([], [], facts).verdicts if v.checker == "node_exits")
    assert (verdict.valid, verdict.counts.get("node_died", 0)) == (died == 0, died)
    assert RunFacts.from_json(facts.to_json()) == facts
