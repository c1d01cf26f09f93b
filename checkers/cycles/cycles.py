"""Cycles of transactions: each must precede the next, and the last must precede the first.

**G0** (dirty write): a cycle of ww edges. **G1c** (circular information flow): ww and wr edges, at least one of them
wr. **G-single** (read skew): exactly one rw edge. **G2** (anti-dependency cycle): a cycle with an rw edge from which
every path back has another rw edge. With `-process` the cycle needs the order within a process, with `-realtime` it
needs that one transaction had ended before another began. `cycle_graph.py` defines the edges.

Logs do not isolate writers from each other, so G0, and every cycle that needs a ww edge, is allowed. A G1c of wr edges
only (with or without process and real time) is a violation. A poll may stop anywhere, so an rw edge shows only what was
not polled: G-single and G2 are informational. One cycle of each component and anomaly is reported, step by step.

The search runs in one process, and on Spark in the driver, because few transactions can be on a cycle. Its memory is
about 1 kB for each transaction, 570 bytes for each message sent or polled (each makes at most three edges), and 1.8 kB
for each edge of the largest segment of the cut graph. Above MESSAGES_MAX it searches nothing, and it skips a segment
above SEGMENT_EDGES_MAX. The verdict is then unknown with the reason, unless another segment holds a violation.

Cannot see: order among messages without a known offset, and cycles through transactions whose outcome stays unknown.

Source: Adya's phenomena; Elle (inference from observed versions); the edges are those of Jepsen's Kafka workload, and
rw.
"""

from __future__ import annotations

from collections.abc import Sequence

from staticfire.checkers.cycles.cycle_explainer import reported
from staticfire.checkers.cycles.cycle_graph import Edge, data_edges, segments
from staticfire.checkers.cycles.txn_log import TxnLog, reads_of, sends_of
from staticfire.checkers.engine.kernel import Checker, Context, no_rows
from staticfire.checkers.guarantees.promises import Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import Columns
from staticfire.checkers.model.timeline import Txn

MESSAGES_MAX = 2_000_000  # about 1.2 GB
SEGMENT_EDGES_MAX = 300_000  # about 550 MB
NAMES = tuple(
    f"{phenomenon}{order}"
    for phenomenon in ("G0", "G1c", "G-single", "G2")
    for order in ("", "-process", "-realtime")
)


def check_cycles(_columns: Columns, context: Context) -> Verdict:
    """Search for cycles among the transactions of a history."""
    from staticfire.checkers.cycles.cycle_search import (
        cycles_in,  # networkx takes a tenth of a second to import
    )

    messages = sum(map(_messages, context.timeline.txns))
    if messages > MESSAGES_MAX:
        too_many = f"{messages} messages in transactions; at most {MESSAGES_MAX} are searched"
        return Verdict(checker="cycles", valid="unknown", reason=too_many)
    log = TxnLog(context.timeline.txns)
    edges = list(data_edges(log))
    candidates = segments(edges)
    findings = [
        _finding(context, log, name, cycle)
        for segment in candidates
        if len(segment.edges) <= SEGMENT_EDGES_MAX
        for name, cycle in cycles_in(log, segment)
    ]
    tally = Tally.of(findings, transactions=len(log.txns), edges=len(edges))
    violated = any(finding.judgement is Judgement.VIOLATION for finding in findings)
    reason = _left_out([len(of.edges) for of in candidates if len(of.edges) > SEGMENT_EDGES_MAX])
    return Verdict(
        checker="cycles",
        valid=False if violated else ("unknown" if reason else True),
        counts=tally.counts,
        findings=tally.findings,
        reason=reason,
    )


def _messages(txn: Txn) -> int:
    return sum(1 for _ in sends_of(txn)) + sum(1 for _ in reads_of(txn))


def _left_out(edges: Sequence[int]) -> str | None:
    if not edges:
        return None
    return (
        f"{len(edges)} sets of transactions that ran at the same time were not searched: the largest has {max(edges)} "
        f"edges, at most {SEGMENT_EDGES_MAX} are searched"
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
        detail=reported(log, cycle),
    )


CYCLES = Checker(
    name="cycles",
    anomalies=NAMES,
    check=check_cycles,
    rows=no_rows,
    applies=lambda context: bool(context.timeline.txns),
)
