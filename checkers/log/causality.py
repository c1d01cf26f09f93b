"""Causality: no message is delivered before it is sent.

**delivered_before_send**: a listener was called with a message whose send had not begun. The order of the history
decides, and wrong clocks cannot falsify it: the harness records a send before it requests it from a client, and a
client that sends on its own waits until the harness has recorded the send. So every consequence of a send comes later
in the history.

Cannot see: a message that no producer sent (`phantom`); a body that is not intact, because its key is not reliable.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask

NEVER = -1  # at a position to which no cleared message was sent


def tally_causality(columns: Columns, context: Context) -> Tally:
    """Judge whole messages (partition key: message)."""
    return Tally.of(list(_early(columns, context)))


def _early(columns: Columns, context: Context) -> Iterator[Finding]:
    """Yield a finding for the first early delivery of each message."""
    sends, deliveries = columns.sends, columns.deliveries
    order = np.argsort(sends.message, kind="stable")
    sent = sends.message[order]
    if not len(sent):
        return
    at = np.minimum(np.searchsorted(sent, deliveries.message), len(sent) - 1)
    source = order[at]
    known = (sent[at] == deliveries.message) & (deliveries.message != UNKNOWN) & deliveries.body_ok
    rows = np.flatnonzero(known & (deliveries.invoke_index < sends.invoke_index[source]))
    rows = rows[np.lexsort((rows, deliveries.invoke_index[rows]))]
    _, first = np.unique(deliveries.message[rows], return_index=True)
    for row in rows[np.sort(first)].tolist():
        send = int(source[row])
        yield finding_at(
            columns,
            deliveries,
            row,
            anomaly="delivered_before_send",
            judgement=judge(context.facts.mode, "delivered_before_send"),
            detail=f"its send began with op {sends.invoke_index[send]}, of process {sends.process[send]}",
            group=columns.names.groups[deliveries.group[row]],
            at_invocation=True,
        )


def early_candidates(columns: Columns, _context: Context, cleared: Mask) -> Ints:
    """Select cleared messages that were delivered from their position before their send began."""
    sends, deliveries, index = columns.sends, columns.deliveries, index_of(columns)
    rows = np.flatnonzero(cleared & index.placed)
    began = np.full(index.size, NEVER, np.int64)
    began[index.send_position[rows]] = sends.invoke_index[rows]
    early = deliveries.invoke_index < began[index.delivery_position]
    return np.unique(deliveries.message[early])


CAUSALITY = Kernel(
    name="causality",
    partition_by="message",
    screened=True,
    anomalies=("delivered_before_send",),
    partial=tally_causality,
    unknown_reason=nothing_missing,
    more_candidates=early_candidates,
)
