"""Recovery is stable: messages that were visible before a restart are visible after it, and no others.

**lost_from_log**: an acknowledged message is not in its queue after the drain, although retention cannot have deleted
it, or must not have deleted it because it is younger than `RunFacts.kept_s`. If the leader is lost for good, the
message must be missing in the queues of all followers (`only_on_another_replica` counts those that are not). `loss`
judges whether groups received their messages. This checker judges whether the log still has them, so only it finds a
message that was consumed and then lost. **read_beyond_recovery**: a broker without replicas recovered its log up to a
position, and later delivered a message from beyond it that had been acknowledged before. These are stale bytes, which
recovery must destroy.

A fault excuses `lost_from_log` like a loss. The loss of a tail never explains a missing message below the beginning of
its queue. A disk that was full after the message was stored explains it, if it is the disk of the leader. The disk of a
follower counts only if the leader still has the message, if the leader is gone or fetched its log from a follower, or
if a look-up does not name its node.

Cannot see: messages that were stored but not acknowledged; early deletions if `kept_s` is not known, or in a topic that
was created again; losses that a replica repaired. Without look-ups of messages (`look_up`), the checker has only the
ends of queues.

Source: the promise of the hardened broker that a power cut never removes a message that a group has consumed; the
recovery rules of CommitLog (recoverNormally, recoverAbnormally) of Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.derived.replica_copies import Copies, ReplicaCopies, judge_lost, loss_text
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, queue_of, unless_unread
from staticfire.checkers.guarantees.fault_effects import EMPTIES
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, LogKey, Mask, Outcome

BUFFERED_NS = 30 * NS_PER_S  # how long a consumer may buffer a message before it delivers it


def tally_recovery_stability(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: log)."""
    acked = (columns.sends.outcome == Outcome.OK) & (columns.sends.log != UNKNOWN)
    gone, elsewhere = _lost_from_log(columns, context, acked)
    early = _deleted_early(columns, context, acked)
    counts = {"only_on_another_replica": elsewhere} if elsewhere else {}
    return Tally.of([*gone, *early, *_from_beyond(columns, context, acked)], **counts)


def _lost_from_log(columns: Columns, context: Context, acked: Mask) -> tuple[list[Finding], int]:
    """Return findings for missing messages, and the number of messages that only a follower that does not serve has."""
    sends = columns.sends
    low, _, ends, drained_at = _ends(columns, context)
    beyond = (sends.queue_offset >= ends[sends.log]) & (sends.op_index < drained_at[sends.log])
    gone = acked & (beyond | _not_found(columns, context))
    deleted = sends.queue_offset < low[sends.log]  # by retention
    rows = np.flatnonzero(gone & ~deleted)
    if not len(rows):
        return [], 0
    replicas = ReplicaCopies(columns, context, sends.message[rows])
    copies = {row: replicas.of(columns, sends, row) for row in rows.tolist()}
    found = [
        _gone(columns, context, row, known)
        for row, known in copies.items()
        if not (known.survive and _has_lost_its_leader(columns, context, row))
    ]
    return found, len(copies) - len(found)


def _deleted_early(columns: Columns, context: Context, acked: Mask) -> Iterator[Finding]:
    """Yield findings for acknowledged messages below the beginning of their queue that are too young for retention."""
    facts, sends = context.facts, columns.sends
    if not facts.kept_s:
        return
    low, low_ns, _, _ = _ends(columns, context)
    young = low_ns[sends.log] - sends.time_ns < facts.kept_s * NS_PER_S
    deleted = acked & (sends.queue_offset != UNKNOWN) & (sends.queue_offset < low[sends.log])
    anew = {topic for group in facts.late_groups for topic in facts.groups[group]}
    for row in np.flatnonzero(deleted & young).tolist():
        if columns.names.topics[sends.topic[row]] not in anew:
            yield _early(columns, context, row, int(low_ns[sends.log[row]]))


def _early(columns: Columns, context: Context, row: int, until_ns: int) -> Finding:
    queue = queue_of(columns, columns.sends, row)
    assert queue is not None
    since_ns = int(columns.sends.time_ns[row])
    nodes = _answer_for(context, queue, int(columns.sends.queue_offset[row]))
    why = _why_deleted(context, queue.stream, nodes, since_ns, until_ns)
    mode, anomaly = context.facts.mode, "lost_from_log"
    return finding_at(
        columns,
        columns.sends,
        row,
        anomaly=anomaly,
        judgement=judge(mode, anomaly) if why is None else Judgement.ALLOWED,
        detail=f"acknowledged, and deleted before its time; {why or 'nothing explains it'}",
    )


def _answer_for(context: Context, queue: LogKey, offset: int) -> set[str]:
    """Return the nodes whose full disk may explain why a queue begins above an offset.

    This is the leader if it lacks the offset, otherwise the followers that lacked it in a look-up. It is all replicas
    if the leader is gone or lost its disk, or if a look-up does not name its node.
    """
    facts = context.facts
    nodes = facts.replica_sets.get(queue.stream, ())
    asked = {
        look_up.node
        for look_up in context.timeline.look_ups
        if (look_up.topic, look_up.broker) == (queue.topic, queue.stream)
        and look_up.first_offsets.get(queue.partition, 0) > offset
    }
    fetched = any(
        fault.bitten_ns is not None
        and EMPTIES in fault.effects
        and not set(nodes[:1]).isdisjoint(fault.targets)
        for fault in facts.faults
    )
    if fetched or "" in asked or queue.stream not in facts.living_sets:
        return set(nodes)
    drains = context.timeline.drains.values()
    drained = any(queue in one.ends and one.ends[queue].min_offset > offset for one in drains)
    return set(nodes[:1]) if drained or not asked.isdisjoint(nodes[:1]) else asked


def _why_deleted(
    context: Context, broker: str, nodes: set[str], since_ns: int, until_ns: int
) -> str | None:
    """Return the fault that explains why a broker deleted a message from `since_ns` early; None if none does."""
    excuses = context.excuses
    if context.facts.mode == "faithful":
        window = excuses.find("faithful lost_from_log", since_ns, until_ns, broker)
        if window is not None:
            return window.words
    for window in excuses.windows("lost_from_log", broker, nodes):
        # A fault by which writes fail and that destroys nothing is a full disk.
        is_full = window.fault.damage == "none"
        if is_full and window.start_ns <= until_ns and window.end_ns >= since_ns:
            return window.words
    return None


def _has_lost_its_leader(columns: Columns, context: Context, row: int) -> bool:
    """Whether only followers serve the queue of a send: then a follower may have a message that another one lacks."""
    queue = queue_of(columns, columns.sends, row)
    return queue is not None and queue.stream not in context.facts.living_sets


def _gone(columns: Columns, context: Context, row: int, copies: Copies) -> Finding:
    rule = judge_lost(columns, context, columns.sends, row, copies)
    return finding_at(
        columns,
        columns.sends,
        row,
        anomaly="lost_from_log",
        judgement=rule.judgement,
        detail=f"acknowledged, and not in its queue after the run; {loss_text(context, rule, copies)}",
    )


def _not_found(columns: Columns, context: Context) -> Mask:
    """Whether a look-up did not find the message of each send at its position, shape (sends,)."""
    missing = {
        (look_up.topic, look_up.broker, found.queue, found.queue_offset, found.key)
        for look_up in context.timeline.look_ups
        for found in look_up.found
        if not found.in_queue
    }
    sends, names = columns.sends, columns.names
    gone = np.zeros(len(sends), np.bool_)
    if missing:
        offsets = np.array(sorted({position[3] for position in missing}), np.int64)
        candidates = np.isin(sends.queue_offset, offsets) & (sends.log != UNKNOWN)
        for row in np.flatnonzero(candidates).tolist():
            queue, key = names.logs[int(sends.log[row])], names.key(int(sends.message[row]))
            gone[row] = (*queue, int(sends.queue_offset[row]), key) in missing
    return gone


def _ends(columns: Columns, context: Context) -> tuple[Ints, Ints, Ints, Ints]:
    """Return columns of shape (queues + 1,): first offset, its time, end, and op index of the queue's last drain.

    The last element, with zeros, is for sends without a queue.
    """
    table = np.zeros((4, len(columns.names.logs) + 1), np.int64)  # the last column: no queue
    numbers = {queue: number for number, queue in enumerate(columns.names.logs)}
    for drain in context.timeline.drains.values():
        for queue, end in drain.ends.items():
            number = numbers.get(queue)
            if number is not None and drain.complete and drain.op_index > table[3, number]:
                table[:, number] = (end.min_offset, drain.time_ns, end.max_offset, drain.op_index)
    for look_up in context.timeline.look_ups:  # retention continues after the drain
        for queue_id, first in look_up.first_offsets.items():
            number = numbers.get(LogKey(look_up.topic, look_up.broker, queue_id))
            if number is not None and first > table[0, number]:
                table[:2, number] = (first, look_up.time_ns)
    return table[0], table[1], table[2], table[3]


def _from_beyond(columns: Columns, context: Context, acked: Mask) -> Iterator[Finding]:
    """Yield findings for deliveries, after a recovery, of messages beyond its end that were acknowledged before it."""
    ends: dict[int, int] = {}  # row of such a delivery -> the end of the recovered log
    for seen in context.observations:
        if seen["kind"] != "recovery" or "end_offset" not in seen:
            continue
        broker = next(
            (
                name
                for name, nodes in context.facts.replica_sets.items()
                if nodes == (seen["node"],)
            ),
            None,
        )
        if broker is not None and broker in columns.names.streams:
            number = columns.names.streams.index(broker)
            late = _read_after(columns, acked, number, seen["time_ns"], seen["end_offset"])
            for row in late.tolist():
                ends.setdefault(row, seen["end_offset"])
    delivered = columns.deliveries
    for row, end_offset in sorted(ends.items()):
        yield finding_at(
            columns,
            delivered,
            row,
            anomaly="read_beyond_recovery",
            judgement=judge(context.facts.mode, "read_beyond_recovery"),
            detail=f"the log was recovered up to {end_offset}, and this was acknowledged before that",
            group=columns.names.groups[delivered.group[row]],
            at_invocation=True,
        )


def _read_after(columns: Columns, acked: Mask, broker: int, at_ns: int, end_offset: int) -> Ints:
    """Return rows of deliveries after a recovery from positions beyond its end that were acknowledged before it.

    A delivery counts if it comes more than BUFFERED_NS after `at_ns`, and from the acknowledged queue and position.
    """
    sends = columns.sends
    candidates = np.flatnonzero(acked & (sends.position >= end_offset) & (sends.time_ns < at_ns))
    of_broker = columns.names.stream_of_log[sends.log[candidates]] == broker
    before = sends.where(candidates[of_broker])
    if not len(before):
        return np.zeros(0, np.int64)
    delivered = columns.deliveries
    late = np.flatnonzero(
        (delivered.invoke_ns > at_ns + BUFFERED_NS)
        & (delivered.position >= end_offset)
        & np.isin(delivered.message, before.message)
    )
    order = np.argsort(before.message, kind="stable")
    sent = before.where(order[np.searchsorted(before.message[order], delivered.message[late])])
    same = sent.position == delivered.position[late]
    found: Ints = late[same & (sent.log == delivered.log[late])]
    return found


RECOVERY = Kernel(
    name="recovery",
    partition_by="log",
    anomalies=("lost_from_log", "read_beyond_recovery"),
    partial=tally_recovery_stability,
    unknown_reason=unless_unread,
)
