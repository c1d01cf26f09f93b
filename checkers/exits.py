"""Nodes that ended by themselves: a broker may only do so when its disk failed under it.

**node_died**: a process of the cluster ended without being told to, and no fault of its disk explains it.
A broker ends itself after a failed write or fsync, on purpose (fail-stop); whatever else ends a node is
a bug of the system, even if it is started again and nothing is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from checkers.columns import Columns
from checkers.facts import NodeExit, RunFacts
from checkers.kernel import Checker, Context
from checkers.promises import NS_PER_S, judge
from checkers.verdict import Finding, Tally, Verdict

DISK_FAULTS = frozenset({"failing_disk", "disk_full", "disk_lost"})
AFTERMATH_NS = 10 * NS_PER_S  # a page that could not be written back is noticed at the next fsync


def check_exits(_columns: Columns, context: Context) -> Verdict:
    exits = context.facts.exits
    findings = list(_unexplained(context))
    tally = Tally.of(findings, exits=len(exits))
    return Verdict(
        checker="node_exits", valid=not findings, counts=tally.counts, findings=tally.findings
    )


def _unexplained(context: Context) -> Iterator[Finding]:
    for ended in context.facts.exits:
        if not _disk_failed(context.facts, ended):
            yield Finding(
                anomaly="node_died",
                judgement=judge(context.facts.mode, "node_died"),
                op_index=-1,
                time_ns=ended.time_ns,
                detail=f"{ended.node} ended by itself: {ended.error}",
            )


def _disk_failed(facts: RunFacts, ended: NodeExit) -> bool:
    return any(
        fault.kind in DISK_FAULTS
        and ended.node in fault.targets
        and fault.fired_ns is not None
        and fault.fired_ns <= ended.time_ns
        and (fault.healed_ns is None or ended.time_ns <= fault.healed_ns + AFTERMATH_NS)
        for fault in facts.faults
    )


NODE_EXITS = Checker(
    name="node_exits",
    anomalies=("node_died",),
    check=check_exits,
    applies=lambda _context: True,
)
