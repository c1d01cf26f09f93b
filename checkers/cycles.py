"""Cycles: transactions of which each must come before the next, and the last before the first.

**G0** (dirty write): a cycle of ww edges. **G1c** (circular information flow): ww and wr edges, at least one of them
wr. **G-single** (read skew): exactly one rw edge. **G2** (anti-dependency cycle): an rw edge that no path without
another rw edge leads back from. With `-process` the cycle needs the order within a process, with `-realtime` that one
transaction had ended before another began. `cycle_graph.py` defines the edges.

Logs do not isolate writers from each other, so G0, and what needs a ww edge, is allowed. A G1c of wr edges alone (with
or without process and real time) is a violation. A poll may stop anywhere, so an rw edge only says what was not polled:
G-single and G2 are informational. One cycle a component and anomaly is told, step by step.

Cannot see: order among messages without a known offset, and cycles through transactions whose outcome stays unknown.

Source: Adya's phenomena; Elle (inference from observed versions); the edges are those of Jepsen's Kafka workload, and
rw.
"""

from __future__ import annotations

from collections.abc import Sequence

from checkers.columns import Columns
from checkers.cycle_graph import Edge, data_edges, segments
from checkers.cycle_words import told
from checkers.kernel import Checker, Context
from checkers.promises import Judgement, judge
from checkers.txn_log import TxnLog
from checkers.verdict import Finding, Tally, Verdict

NAMES = tuple(
    f"{phenomenon}{order}"
    for phenomenon in ("G0", "G1c", "G-single", "G2")
    for order in ("", "-process", "-realtime")
)


def check_cycles(_columns: Columns, context: Context) -> Verdict:
    """Look for cycles among the transactions of a history."""
    from checkers.cycle_search import cycles_in  # networkx takes a tenth of a second to import

    log = TxnLog(context.timeline.txns)
    edges = list(data_edges(log))
    findings = [
        _finding(context, log, name, cycle)
        for segment in segments(edges)
        for name, cycle in cycles_in(log, segment)
    ]
    tally = Tally.of(findings, transactions=len(log.txns), edges=len(edges))
    return Verdict(
        checker="cycles",
        valid=not any(finding.judgement is Judgement.VIOLATION for finding in findings),
        counts=tally.counts,
        findings=tally.findings,
    )


def _finding(context: Context, log: TxnLog, name: str, cycle: Sequence[Edge]) -> Finding:
    last = log.txns[max(edge.before for edge in cycle)]
    judgement = judge(context.facts.mode, name)
    if judgement is Judgement.VIOLATION and any(edge.kind == "ww" for edge in cycle):
        judgement = Judgement.ALLOWED
    return Finding(
        anomaly=name,
        judgement=judgement,
        op_index=last.op_index,
        time_ns=last.time_ns,
        detail=told(log, cycle),
    )


CYCLES = Checker(
    name="cycles",
    anomalies=NAMES,
    check=check_cycles,
    applies=lambda context: bool(context.timeline.txns),
)
