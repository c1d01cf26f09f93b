"""Broadcasting: every member of the group receives every message, independently of the others.

**member_missed**: a member of a broadcasting group never received a message that was acknowledged, or is proven to be
stored (`checkers/derived/proven.py`), although the group has passed it. A member is a node. It keeps its offsets on its
own disk, so after a crash it may receive messages twice, but misses none. It skips messages for which its listener
fails, as RocketMQ does. If damage to brokers excuses the loss of a message, it does so for all members.

Cannot see: a member that never started. `duplication` judges redeliveries to each member.

Source: the broadcasting mode of Apache RocketMQ 4.9 (LocalFileOffsetStore, no retries).
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.proven import ProvenSends, proven_sends
from staticfire.checkers.derived.replica_copies import stored_by_ns
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing, queue_of
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import Columns, Ints, Mask, MessageEvents, Outcome


def tally_broadcasting(columns: Columns, context: Context) -> Tally:
    """Judge whole messages (partition key: message)."""
    findings: list[Finding] = []
    given = 0
    for group in context.facts.broadcasting:
        sends = columns.sends.where(columns.sends.outcome == Outcome.OK)
        due = context.wants(columns, sends, group) & context.resolved(columns, sends, group)
        wanted = sends.where(due)
        proven = proven_sends(columns)
        for member in _members(context, group):
            had = _given_to(columns, context, group, member)
            missed = np.flatnonzero(~is_among(wanted.message, had))
            given += len(wanted) - len(missed)
            findings.extend(_missed(columns, context, group, member, wanted.where(missed)))
            findings.extend(_missed_proven(columns, context, group, member, proven, had))
    return Tally.of(findings, given=given)


def _members(context: Context, group: str) -> list[str]:
    """Return the nodes that subscribed for a group, sorted."""
    reported = context.timeline.subscriptions
    return sorted({one.node for one in reported if one.group == group})


def _given_to(columns: Columns, context: Context, group: str, member: str) -> Ints:
    """Return the ids of the messages that a member received, sorted."""
    deliveries, groups = columns.deliveries, columns.names.groups
    if group not in groups:
        return np.zeros(0, np.int64)
    nodes = context.timeline.nodes
    processes = [process for process, node in nodes.items() if node == member]
    given = (deliveries.group == groups.index(group)) & np.isin(deliveries.process, processes)
    return np.unique(deliveries.message[given])


def _missed(
    columns: Columns, context: Context, group: str, member: str, missed: MessageEvents
) -> Iterator[Finding]:
    for row in range(len(missed)):
        queue = queue_of(columns, missed, row)
        assert queue is not None  # the message was acknowledged
        key = columns.names.key(int(missed.message[row]))
        rule = context.promises.rule(
            queue.stream,
            int(missed.invoke_ns[row]),
            key=key,
            stored_ns=stored_by_ns(missed, row),
        )
        yield finding_at(
            columns,
            missed,
            row,
            anomaly="member_missed",
            judgement=rule.judgement,
            detail=f"{member} was never given it; {context.promises.text(rule)}",
            group=group,
        )


def _missed_proven(
    columns: Columns, context: Context, group: str, member: str, proven: ProvenSends, had: Ints
) -> Iterator[Finding]:
    given = is_among(proven.sends.message, had)
    for row in proven.missed(columns, context, group, given).tolist():
        rule, why = proven.rule(columns, context, row)
        yield finding_at(
            columns,
            proven.sends,
            row,
            anomaly="member_missed",
            judgement=rule.judgement,
            detail=f"{member} was never given it, and another consumer was; {why}",
            group=group,
        )


def _candidates(columns: Columns, context: Context, _cleared: Mask) -> Ints:
    """Select all messages that broadcasting groups want, because a delivery to one member does not clear a message."""
    wanted = np.zeros(len(columns.sends), np.bool_)
    for group in context.facts.broadcasting:
        wanted |= context.wants(columns, columns.sends, group)
    return np.unique(columns.sends.message[wanted])


BROADCASTING = Kernel(
    name="broadcasting",
    partition_by="message",
    screened=True,
    anomalies=("member_missed",),
    partial=tally_broadcasting,
    unknown_reason=nothing_missing,
    more_candidates=_candidates,
)
