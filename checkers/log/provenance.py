"""Provenance: the origin of a delivered message, and whether it arrived as sent.

**phantom**: a message was delivered that no producer sent. **aborted_read**: any consumer received a message, with any
result, although its send definitely failed. **misrouted**: a message was delivered from another topic than it was sent
to; or from another queue or offset than the acknowledged one, after a single attempt (a retried send may leave a copy
elsewhere); or from the retry or dead-letter topic of another group. **corrupt**: the body differs from the sent one, or
holds no readable key.

The key in a corrupt body is not reliable, so such a message is never a phantom. Messages in retry and dead-letter
topics are not misrouted there, because brokers move them to these topics.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.features.retries import DEAD, RETRY
from staticfire.checkers.guarantees.promises import judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, MessageEvents, Outcome
from staticfire.checkers.model.message_ids import dense_numbers

NEVER_SENT = -1


def tally_provenance(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole messages (partition key: message)."""
    delivered = columns.deliveries
    corrupt = ~delivered.body_ok | (delivered.message == UNKNOWN)
    readable = np.flatnonzero(~corrupt)
    source = _source(columns, delivered.message[readable])
    outcome = _of_source(columns.sends.outcome, source, NEVER_SENT)
    findings = [
        *_findings(columns, context, np.flatnonzero(corrupt), "corrupt"),
        *_first_findings(columns, context, readable[outcome == NEVER_SENT], "phantom"),
        *_first_findings(columns, context, readable[outcome == Outcome.FAILED], "aborted_read"),
        *_first_findings(
            columns, context, _misrouted(columns, readable, source, outcome), "misrouted"
        ),
    ]
    return Tally.of(findings, deliveries=len(delivered))


def _source(columns: Columns, delivered: Ints) -> Ints:
    """Return the row of the send of each delivered message, or NEVER_SENT; shape (delivered,)."""
    size, (sent, got) = dense_numbers(columns.sends.message, delivered)
    row_of = np.full(size, NEVER_SENT, np.int64)
    row_of[sent] = np.arange(len(sent))
    return row_of[got]


def _of_source(values: Ints, source: Ints, missing: int) -> Ints:
    """Return the value of a column of sends for each delivery, `missing` without a send; shape of `source`."""
    spare = np.append(values, missing)  # NEVER_SENT is -1: the last element
    found: Ints = spare[source]
    return found


def _misrouted(columns: Columns, readable: Ints, source: Ints, outcome: Ints) -> Ints:
    delivered, sends = columns.deliveries, columns.sends
    topic = delivered.topic[readable]
    sent_to = _of_source(sends.topic, source, UNKNOWN)
    wrong_topic = (sent_to != topic) & (outcome != NEVER_SENT)
    attempts = _of_source(sends.tries, source, 0)
    acked_by = _of_source(sends.log, source, UNKNOWN)
    placed = (acked_by != UNKNOWN) & (attempts == 1)
    acked_at = _of_source(sends.queue_offset, source, UNKNOWN)
    wrong_offset = (acked_at != UNKNOWN) & (acked_at != delivered.queue_offset[readable])
    wrong_place = placed & ((acked_by != delivered.log[readable]) | wrong_offset)
    moved_by_broker = columns.names.internal_topic[topic]
    group = delivered.group[readable]
    wrong: Mask = np.where(
        moved_by_broker,
        _is_of_others(columns)[group, topic] & (outcome != NEVER_SENT),
        wrong_topic | wrong_place,
    )
    found: Ints = readable[wrong & (outcome != Outcome.FAILED)]
    return found


def _is_of_others(columns: Columns) -> Mask:
    """Whether each topic is for the retries or dead letters of another group, shape (groups, topics)."""
    groups, topics = columns.names.groups, columns.names.topics
    found = np.zeros((len(groups), len(topics)), np.bool_)
    for number, topic in enumerate(topics):
        if topic.startswith((RETRY, DEAD)):
            of_group = topic.removeprefix(RETRY).removeprefix(DEAD)
            found[:, number] = [group != of_group for group in groups]
    return found


def _first_findings(
    columns: Columns, context: Context, rows: Ints, anomaly: str
) -> Iterator[Finding]:
    """Yield one finding for each message, at its first such delivery."""
    _, first = np.unique(columns.deliveries.message[rows], return_index=True)
    return _findings(columns, context, rows[first], anomaly)


def _findings(columns: Columns, context: Context, rows: Ints, anomaly: str) -> Iterator[Finding]:
    delivered = columns.deliveries
    for row in rows.tolist():
        yield finding_at(
            columns,
            delivered,
            row,
            anomaly=anomaly,
            judgement=judge(context.facts.mode, anomaly),
            detail=_detail(columns, delivered, row, anomaly),
            group=columns.names.groups[delivered.group[row]],
            at_invocation=True,
        )


def _detail(columns: Columns, delivered: MessageEvents, row: int, anomaly: str) -> str:
    if anomaly == "misrouted":
        sent = np.flatnonzero(columns.sends.message == delivered.message[row])[0]
        came_from = columns.names.topics[delivered.topic[row]]
        if came_from.startswith((RETRY, DEAD)):
            return f"delivered from {came_from}, which is for another group"
        queue, offset = columns.sends.log[sent], columns.sends.queue_offset[sent]
        if queue != UNKNOWN and queue == delivered.log[row]:
            return f"acknowledged at offset {offset} of this queue"
        topic = columns.names.topics[columns.sends.topic[sent]]
        return f"sent to {columns.names.logs[queue] if queue != UNKNOWN else topic}"
    return _DETAIL[anomaly]


_DETAIL = {
    "corrupt": "the delivered body is not the one that was sent",
    "phantom": "delivered, but no producer sent it",
    "aborted_read": "delivered, although its send failed for certain",
}

PROVENANCE = Kernel(
    name="provenance",
    partition_by="message",
    screened=True,
    anomalies=("phantom", "aborted_read", "misrouted", "corrupt"),
    partial=tally_provenance,
    unknown_reason=nothing_missing,
    counts_of_screened_out=lambda counts: {"deliveries": counts.deliveries},
)
