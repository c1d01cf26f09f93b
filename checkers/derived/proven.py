"""Messages without SEND_OK that are proven to be stored, because a consumer received them.

A send without an answer, or with a weak status, promises nothing. Once one consumer has received the message from its
topic, the broker holds it like any other, and every group that wants it must consume it. Only damage to the broker
after the proof may excuse its loss (`LossPromises.visible`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.promises import NS_PER_S, LossRule
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, MessageEvents, Outcome

BUFFERED_NS = 30 * NS_PER_S  # how long a consumer may buffer a message before it delivers it


@dataclass(frozen=True, slots=True, kw_only=True)
class ProvenSends:
    """One row for each message; arrays have shape (messages,)."""

    sends: MessageEvents  # with the position from which the message was first delivered
    seen: MessageEvents  # the same, with the op_index of the proof, and the begin of the send as time_ns
    since_ns: Ints  # the earliest time at which the broker may have had it
    proven_ns: Ints  # the time by which the broker surely had it

    def missed(self, columns: Columns, context: Context, group: str, consumed: Mask) -> Ints:
        """Return the rows that `group` wants and has passed, and that are not `consumed` (shape (rows,))."""
        due = context.wants(columns, self.sends, group) & context.resolved(
            columns, self.seen, group
        )
        return np.flatnonzero(due & ~consumed)

    def rule(self, columns: Columns, context: Context, row: int) -> tuple[LossRule, str]:
        """Return the loss that one of the messages may suffer, and the promise as a text."""
        visible = context.promises.visible
        broker = columns.names.logs[int(self.sends.log[row])].stream
        key = columns.names.key(int(self.sends.message[row]))
        rule = visible.rule(
            broker,
            int(self.since_ns[row]),
            key=key,
            stored_ns=int(self.proven_ns[row]),
        )
        return rule, visible.text(rule)


def proven_sends(columns: Columns) -> ProvenSends:
    """Return the weak and unknown sends of whole messages that were delivered, intact, from their own topic."""
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
    """Join rows of sends with the deliveries that prove them."""
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
        proven_ns=proof.invoke_ns,
    )
