"""Messages without SEND_OK that are proven to be stored: a consumer was given them.

A send that no broker answered, or that was acknowledged weakly, promises nothing by itself. Once one consumer was given
the message from its topic, the broker holds it like any other: every group that wants it is to consume it. What may
still excuse its loss is damage to the broker after it was proven (`LossPromises.visible`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.promises import NS_PER_S, LossRule
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, MessageEvents, Outcome

BUFFERED_NS = 30 * NS_PER_S  # how long a consumer may hold a message before it delivers it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSends:
    """One row a message, all of the same length."""

    sends: MessageEvents  # with the place from which the message was first delivered
    seen: MessageEvents  # the same; op_index and time_ns say when it was proven, and how old it may be at most
    since_ns: Ints  # the broker held it from then on

    def missed(self, columns: Columns, context: Context, group: str, consumed: Mask) -> Ints:
        """Rows that `group` wants and has passed, and that are not `consumed` (shape (rows,))."""
        due = context.wants(columns, self.sends, group) & context.resolved(
            columns, self.seen, group
        )
        return np.flatnonzero(due & ~consumed)

    def rule(self, columns: Columns, context: Context, row: int) -> tuple[LossRule, str]:
        """What one of them may suffer, and the promise in words."""
        visible = context.promises.visible
        broker = columns.names.logs[int(self.sends.log[row])].stream
        key = columns.names.key(int(self.sends.message[row]))
        rule = visible.rule(broker, int(self.since_ns[row]), key=key)
        return rule, visible.text(rule)


def proven_sends(columns: Columns) -> ProvenSends:
    """The weak and unknown sends of whole messages that were delivered, intact, from their own topic."""
    sends, deliveries = columns.sends, columns.deliveries
    unsure = np.flatnonzero((sends.outcome == Outcome.WEAK) | (sends.outcome == Outcome.UNKNOWN))
    unsure = unsure[np.argsort(sends.message[unsure], kind="stable")]
    if not len(unsure):
        return _proven(columns, unsure, unsure)
    sent = sends.message[unsure]
    at = np.minimum(np.searchsorted(sent, deliveries.message), len(unsure) - 1)
    source = unsure[at]
    proof = (sent[at] == deliveries.message) & (deliveries.message != UNKNOWN)
    proof &= deliveries.body_ok & (sends.topic[source] == deliveries.topic)
    given = np.flatnonzero(proof)
    given = given[np.lexsort((given, deliveries.invoke_index[given], at[given]))]
    _, first = np.unique(at[given], return_index=True)
    return _proven(columns, source[given[first]], given[first])


def _proven(columns: Columns, source: Ints, given: Ints) -> ProvenSends:
    """Rows of sends, and of the deliveries that prove them."""
    sends, proof = columns.sends.where(source), columns.deliveries.where(given)
    placed = replace(
        sends,
        log=proof.log,
        queue_offset=proof.queue_offset,
        position=proof.position,
    )
    return ProvenSends(
        sends=placed,
        seen=replace(placed, op_index=proof.invoke_index, time_ns=sends.invoke_ns),
        since_ns=np.maximum(sends.invoke_ns, proof.invoke_ns - BUFFERED_NS),
    )
