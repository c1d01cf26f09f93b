"""Loss: an acknowledged message that no consumer received, or a stored one that one group never received.

**lost**: the message was acknowledged with SEND_OK, and no group received it, although some group has passed its
position. **unseen**: some group received it, but this group never consumed it, although it has passed its position. A
message does not count as consumed if the listener failed or its process died.

A send with another outcome than SEND_OK is never lost: after a weak status the message may disappear. If a message
appears although the outcome of its send is unknown, it is *recovered*. In a group whose members choose their positions
themselves (`RunFacts.assigned`) no message is unseen. Once any consumer has received a message it is proven to be
stored, and every group must consume it (`checkers/derived/proven.py`).

Cannot see: a loss that another copy of a retried send hides (`log_hole` judges copies); messages above the committed
offset of an undrained queue. These are *pending*, and the verdict is unknown. The verdict is also unknown if a message
used up its retries at a broker whose dead letters the harness could not read to their end (`try_read`), because it may
be one of them.

A finding names the replicas that hold the message after the run and, in faithful mode, the behaviour of RocketMQ 4.9
that explains the loss (checkers/guarantees/promises.py). Not every explanation is an excuse. If a hardened broker lost
a message with the tail of its log, the loss is excused only if the message was unflushed
(checkers/guarantees/unflushed.py). For the copy of a message that a broker took back for a retry, this holds in both
modes. A broker copies a delayed message or a half later, so any later loss of a tail excuses its loss.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.proven import ProvenSends, proven_sends
from staticfire.checkers.derived.replica_copies import ReplicaCopies, judge_lost, loss_text
from staticfire.checkers.engine.kernel import (
    Context,
    Kernel,
    ScreenedCounts,
    finding_at,
    queue_of,
    undrained,
)
from staticfire.checkers.features.retries import DEAD, retry_delay_ns
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.guarantees.promises import LossRule
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    Mask,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.message_ids import dense_numbers


def tally_loss(columns: Columns, context: Context) -> Tally:
    """Judge the messages that were acknowledged or are proven to be stored (partition key: message)."""
    sends = columns.sends
    is_acked = sends.outcome == Outcome.OK
    acked = sends.where(is_acked)
    proven = proven_sends(columns)
    size, (sent, got, stored) = dense_numbers(
        sends.message, columns.deliveries.message, proven.sends.message
    )
    delivered = _flags(size, got)
    message = sent[is_acked]
    seen = delivered[message]
    pending, passed_by_any = np.zeros((2, len(acked)), np.bool_)
    unread = 0
    findings: list[Finding] = []
    for group in context.facts.groups:
        wanted = context.wants(columns, acked, group)
        gets_once = group in context.facts.broadcasting
        consumed = _flags(size, got[_consumed(columns, group, gets_once=gets_once)])
        may_be_dead = _flags(size, got[_used_up_unread(columns, context, group)]) & ~consumed
        unread += int(np.count_nonzero(may_be_dead))
        consumed |= may_be_dead
        chooses = group in context.facts.assigned
        missed = wanted & ~(seen if chooses else consumed[message])
        passed = wanted & context.resolved(columns, acked, group)
        passed_by_any |= passed
        pending |= missed & ~passed
        findings.extend(_unseen(columns, context, acked, seen & missed & passed, group))
        if not chooses:
            findings.extend(_unseen_proven(columns, context, proven, group, consumed[stored]))
    lost = ~seen & passed_by_any
    findings.extend(_lost(columns, context, acked, lost))
    pending &= ~lost
    return Tally.of(
        findings,
        pending=int(pending.sum()),
        **({"dead_letters_unread": unread} if unread else {}),
        **_outcome_counts(columns, sent, delivered),
    )


def _flags(size: int, messages: Ints) -> Mask:
    """Whether each message occurs in `messages`, shape (size,)."""
    flags = np.zeros(size + 1, np.bool_)
    flags[messages] = True  # UNKNOWN is -1: the spare last element
    return flags[:-1]


def _consumed(columns: Columns, group: str, *, gets_once: bool) -> Mask:
    """Whether this group has consumed each delivery, shape (deliveries,). With `gets_once`, failed ones count too."""
    groups, deliveries = columns.names.groups, columns.deliveries
    group_id = groups.index(group) if group in groups else UNKNOWN
    given: Mask = deliveries.group == group_id
    return given if gets_once else given & (deliveries.outcome == Outcome.OK)


def _used_up_unread(columns: Columns, context: Context, group: str) -> Ints:
    """Select deliveries that used up this group's retries at brokers whose dead letters were not read to their end."""
    brokers = [
        tried.broker
        for tried in context.timeline.tried_reads
        if tried.type == "info" and tried.topic == f"{DEAD}{group}"
    ]
    retries_max = context.facts.retries_max.get(group)
    if not brokers or retries_max is None or group not in columns.names.groups:
        return np.zeros(0, np.int64)
    names, deliveries = columns.names, columns.deliveries
    at_broker = np.isin(np.array(names.streams), brokers)[names.stream_of_log[deliveries.log]]
    used_up = (deliveries.tries >= retries_max) & (deliveries.outcome != Outcome.OK)
    of_group = deliveries.group == names.groups.index(group)
    return np.flatnonzero(used_up & of_group & at_broker & (deliveries.log != UNKNOWN))


def _lost(
    columns: Columns, context: Context, acked: MessageEvents, lost: Mask
) -> Iterator[Finding]:
    what = "acknowledged, delivered to no consumer"
    yield from _findings(columns, context, acked, lost, "lost", what)


def _unseen(
    columns: Columns, context: Context, acked: MessageEvents, unseen: Mask, group: str
) -> Iterator[Finding]:
    what = f"never consumed by {group}"
    yield from _findings(columns, context, acked, unseen, "unseen", what, group=group)


def _findings(
    columns: Columns,
    context: Context,
    acked: MessageEvents,
    missing: Mask,
    anomaly: str,
    what: str,
    *,
    group: str | None = None,
) -> Iterator[Finding]:
    rows = np.flatnonzero(missing)
    if len(rows):
        copies = ReplicaCopies(columns, context, acked.message[rows])
        for row in rows.tolist():
            yield _finding(columns, context, acked, row, copies, anomaly, what, group)


def _unseen_proven(
    columns: Columns, context: Context, proven: ProvenSends, group: str, consumed: Mask
) -> Iterator[Finding]:
    for row in proven.missed(columns, context, group, consumed).tolist():
        rule, why = proven.rule(columns, context, row)
        yield finding_at(
            columns,
            proven.sends,
            row,
            anomaly="unseen",
            judgement=rule.judgement,
            detail=f"not acknowledged, but delivered, so it was stored; never consumed by {group}; {why}",
            group=group,
        )


def _finding(
    columns: Columns,
    context: Context,
    acked: MessageEvents,
    row: int,
    replicas: ReplicaCopies,
    anomaly: str,
    what: str,
    group: str | None,
) -> Finding:
    queue = queue_of(columns, acked, row)
    assert queue is not None  # build_columns refuses an acknowledged send without one
    copies = replicas.of(columns, acked, row)
    rule = judge_lost(columns, context, acked, row, copies)
    judgement, why = rule.judgement, loss_text(context, rule, copies)
    kept_back = acked.due_ns[row] != UNKNOWN or acked.transaction[row] != Transaction.NONE
    if kept_back and queue.stream not in context.facts.living_sets:
        # Only a leader moves such a message to its queue, and no follower becomes leader. The follower still holds it.
        judgement, why = Judgement.ALLOWED, "kept back by a leader that is gone for good"
    elif group is not None and judgement is Judgement.VIOLATION:
        copy = _copy_rule(columns, context, int(acked.message[row]), group)
        if copy is not None and copy.judgement is not Judgement.VIOLATION:
            judgement = copy.judgement
            why = f"its broker took it back for a retry, and of this copy: {context.promises.text(copy)}"
    return finding_at(
        columns,
        acked,
        row,
        anomaly=anomaly,
        judgement=judgement,
        detail=f"{what}; {why}",
        group=group,
    )


def _copy_rule(columns: Columns, context: Context, message: int, group: str) -> LossRule | None:
    """Return the loss that the copies may suffer that brokers made when the group's listener last failed for a message.

    The group has passed the message because of these copies. None: no report shows that a broker made one, a client
    made one itself, or the queue of a delivery is not known.
    """
    deliveries, names = columns.deliveries, columns.names
    sent_back = context.timeline.sent_back.get(names.key(message) or "", ())
    reports = [of for of in sent_back if of.group == group]
    if not reports or group not in names.groups:
        return None
    given = np.flatnonzero(
        (deliveries.message == message) & (deliveries.group == names.groups.index(group))
    )
    if not len(given):
        return None
    tries = int(deliveries.tries[given].max())
    last = [of for of in reports if of.tries == tries]
    if not last or not all(of.by_broker for of in last):
        return None
    answered_ns = {of.process: of.time_ns for of in sorted(last, key=lambda of: of.time_ns)}
    delay_ns = retry_delay_ns(context, tries + 1)
    rules = []
    for row in given.tolist():
        queue, process = queue_of(columns, deliveries, row), int(deliveries.process[row])
        if int(deliveries.tries[row]) == tries and process in answered_ns:
            if queue is None:
                return None
            given_ns = int(deliveries.time_ns[row])
            rules.append(
                context.promises.rule_of_retry(
                    queue.stream, given_ns, answered_ns[process], delay_ns
                )
            )
    strict = (rule for rule in rules if rule.judgement is Judgement.VIOLATION)
    return next(strict, rules[0] if rules else None)


def _outcome_counts(columns: Columns, sent: Ints, delivered: Mask) -> dict[str, int]:
    outcome = columns.sends.outcome
    by_outcome = np.bincount(outcome, minlength=len(Outcome)).tolist()
    recovered = (outcome == Outcome.UNKNOWN) & delivered[sent]
    return {
        "acked": by_outcome[Outcome.OK],
        "weak": by_outcome[Outcome.WEAK],
        "unknown": by_outcome[Outcome.UNKNOWN],
        "failed": by_outcome[Outcome.FAILED],
        "recovered": int(recovered.sum()),
        "delivered": int(delivered.sum()),
    }


def _counts_of_screened_out(counts: ScreenedCounts) -> dict[str, int]:
    acked, weak, unknown, failed = counts.sends.tolist()
    return {
        "acked": acked,
        "weak": weak,
        "unknown": unknown,
        "failed": failed,
        "recovered": 0,
        "delivered": counts.delivered,
        "pending": counts.pending,
    }


def _unknown_reason(tally: Tally, context: Context) -> str | None:
    if reason := undrained(context):
        return reason
    if not tally.counts.get("acked"):
        return "nothing was acknowledged"
    if unread := tally.counts.get("dead_letters_unread", 0):
        return f"{unread} messages may be dead letters that were not read"
    pending = tally.counts.get("pending", 0)
    if not pending:
        return None
    return f"{pending} messages were acknowledged after the drain, or retention took them unread"


LOSS = Kernel(
    name="loss",
    partition_by="message",
    screened=True,
    anomalies=("lost", "unseen"),
    partial=tally_loss,
    unknown_reason=_unknown_reason,
    counts_of_screened_out=_counts_of_screened_out,
)
