"""A checker from outside of the project: acknowledgements that took long.

**slow_ack**: a send that was acknowledged with SEND_OK took at least half a second.
"""

from __future__ import annotations

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.guarantees.promises import NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Tally
from staticfire.checkers.model.columns import Columns, Outcome

SLOW_NS = NS_PER_S // 2


def tally_slow_acks(columns: Columns, context: Context) -> Tally:
    """Find sends that took long (partition key: log)."""
    sends = columns.sends
    took_ns = sends.time_ns - sends.invoke_ns
    rows = np.flatnonzero((sends.outcome == Outcome.OK) & (took_ns >= SLOW_NS))
    judgement = judge(context.facts.mode, "slow_ack")
    findings = tuple(
        finding_at(
            columns,
            sends,
            row,
            anomaly="slow_ack",
            judgement=judgement,
            detail=f"took {took_ns[row] / NS_PER_S:.1f} s",
        )
        for row in rows.tolist()
    )
    return Tally(counts={"slow_ack": len(rows)}, findings=findings)


SLOW_ACKS = Kernel(
    name="slow_acks",
    partition_by="log",
    anomalies=("slow_ack",),
    partial=tally_slow_acks,
    unknown_reason=nothing_missing,
)
