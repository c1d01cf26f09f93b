"""Exits of nodes: a broker may end by itself only when its disk has failed.

**node_died**: a process of the cluster ended without a stop request, and no fault of its disk explains it. A broker
ends itself on purpose after a failed write or fsync (fail-stop). Any other end of a node is a bug of the system, even
if a supervisor starts the node again and no data is lost.
"""

from __future__ import annotations

from collections.abc import Iterator

from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns


def check_exits(_columns: Columns, context: Context) -> Verdict:
    exits = context.facts.exits
    findings = list(_unexplained(context))
    tally = Tally.of(findings, exits=len(exits))
    return Verdict(
        checker="node_exits", valid=not findings, counts=tally.counts, findings=tally.findings
    )


def _unexplained(context: Context) -> Iterator[Finding]:
    for ended in context.facts.exits:
        at_ns = ended.time_ns
        if context.excuses.find("node_died", at_ns, at_ns, None, (ended.node,)) is None:
            yield Finding(
                anomaly="node_died",
                judgement=judge(context.facts.mode, "node_died"),
                op_index=-1,
                time_ns=ended.time_ns,
                detail=f"{ended.node} ended by itself: {ended.error}",
            )


NODE_EXITS = Checker(
    name="node_exits",
    anomalies=("node_died",),
    check=check_exits,
    rows=no_rows,
)
