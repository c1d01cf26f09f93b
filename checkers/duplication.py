"""Duplication: a group got a message more than once. At-least-once allows it, but not without a reason.

An extra delivery is either another *copy* (another place in a log: the message was stored again) or a
*redelivery* of the same place. A copy is explained by an ambiguous, weakly acknowledged or retried send,
up to the number of attempts. A redelivery is explained by a listener that did not finish, by the retry
count, by a change of owner, or by a fault nearby: offsets are persisted every few seconds only.

**duplicate_unexplained** is a violation; **duplicate** (explained) is allowed and only counted. An owner
that starts again below an offset that was committed and safely persisted is never explained.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Outcome, QueueKey, Touches, Transaction
from checkers.kernel import Context, Kernel, finding_at, nothing_missing
from checkers.message_ids import dense_numbers
from checkers.promises import NS_PER_S, Damage, Judgement, judge
from checkers.unrest import fault_active, fault_near
from checkers.verdict import Finding, Tally

# Consumers persist offsets every 5 s, brokers write them every 5 s, slaves copy them every 10 s.
PERSISTED_AFTER_NS = 25 * NS_PER_S


def tally_duplication(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole messages (partition key: message)."""
    repeated = list(_repeated(columns, context, columns.deliveries))
    source = first_sends(columns, np.array([of.message[0] for of in repeated], np.int64))
    findings = (
        _judge_repeats(columns, context, touches, sent)
        for touches, sent in zip(repeated, source.tolist(), strict=True)
    )
    return Tally.of(findings)


def _readers(columns: Columns, context: Context, deliveries: Touches) -> tuple[int, Ints]:
    """How many readers there are, and which one got each delivery: a group, or a member of one that broadcasts."""
    groups = len(columns.names.groups)
    if not context.facts.broadcasting:
        return groups, deliveries.group
    nodes = context.timeline.nodes
    names = {name: number for number, name in enumerate(sorted(set(nodes.values())), start=1)}
    processes, which = np.unique(deliveries.process, return_inverse=True)
    number = np.array([names.get(nodes.get(p, ""), 0) for p in processes.tolist()], np.int64)
    shared = np.array([group not in context.facts.broadcasting for group in columns.names.groups])
    member = np.where(shared[deliveries.group], 0, number[which])
    return groups * (len(names) + 1), deliveries.group * (len(names) + 1) + member


def _repeated(columns: Columns, context: Context, deliveries: Touches) -> Iterator[Touches]:
    """Yield, in delivery order, what one reader got of one message, when that is more than one row."""
    readers, reader = _readers(columns, context, deliveries)
    _, (message,) = dense_numbers(deliveries.message)
    cell = message * readers + reader
    cell[message == UNKNOWN] = -1  # bodies without a key are not one message
    times = np.bincount(cell + 1, minlength=1)
    times[0] = 0
    rows = np.flatnonzero(times[cell + 1] > 1)
    if not len(rows):
        return
    rows = rows[np.lexsort((rows, deliveries.invoke_index[rows], cell[rows]))]
    cuts = np.flatnonzero(np.diff(cell[rows])) + 1
    repeats = deliveries.where(rows)
    bounds = [0, *cuts.tolist(), len(rows)]
    for start, stop in pairwise(bounds):
        yield repeats.where(slice(start, stop))


def first_sends(columns: Columns, messages: Ints) -> Ints:
    """The row of the first send of each message, UNKNOWN if there is none, shape (messages,)."""
    distinct, first = np.unique(columns.sends.message, return_index=True)
    if not len(distinct):
        return np.full(len(messages), UNKNOWN, np.int64)
    at = np.minimum(np.searchsorted(distinct, messages), len(distinct) - 1)
    return np.where(distinct[at] == messages, first[at], UNKNOWN)


def _judge_repeats(columns: Columns, context: Context, repeats: Touches, sent: int) -> Finding:
    reasons = [*_copies(columns, context, repeats, sent), *_redeliveries(columns, context, repeats)]
    unexplained = [reason for reason, explained in reasons if not explained]
    anomaly = "duplicate_unexplained" if unexplained else "duplicate"
    told = unexplained or [reason for reason, _ in reasons]
    mode = context.facts.mode
    return finding_at(
        columns,
        repeats,
        len(repeats) - 1,
        anomaly=anomaly,
        judgement=judge(mode, anomaly) if unexplained else Judgement.ALLOWED,
        detail=f"delivered {len(repeats)} times: {'; '.join(dict.fromkeys(told))}",
        group=columns.names.groups[repeats.group[0]],
        at_invocation=True,
    )


def _copies(
    columns: Columns, context: Context, repeats: Touches, sent: int
) -> Iterator[tuple[str, bool]]:
    """Judge how often the message was stored, if that is more than once."""
    internal = columns.names.internal_topic[repeats.topic].tolist()
    queues, offsets = repeats.queue.tolist(), repeats.queue_offset.tolist()
    places = {
        (queue, offset)
        for queue, offset, moved in zip(queues, offsets, internal, strict=True)
        if not moved
    }
    if len(places) < 2:
        return
    sends = columns.sends
    if sent == UNKNOWN:
        # It is a phantom, and reported there.
        yield (f"{len(places)} copies of a message that nobody sent", True)
    elif sends.due_ns[sent] != UNKNOWN or sends.transaction[sent] != Transaction.NONE:
        yield _judge_moves(context, sends, sent, repeats, len(places))
    else:
        attempts, outcome = int(sends.tries[sent]), Outcome(int(sends.outcome[sent]))
        yield _judge_copies(len(places), attempts, outcome)


def _judge_moves(
    context: Context, sends: Touches, row: int, repeats: Touches, copies: int
) -> tuple[str, bool]:
    """What a broker kept back at first it may store more than once, when it dies before it writes down that it did."""
    first, last = int(sends.invoke_ns[row]), int(repeats.invoke_ns[-1])
    fault = fault_near(context.facts.faults, first, last)
    attempts = int(sends.tries[row])
    if fault is not None:
        what = f"{copies} copies of what was kept back: fault {fault.fault_id} ({fault.kind})"
        return what, True
    return f"{copies} copies of what was kept back, with {attempts} attempt(s)", attempts >= copies


def _judge_copies(copies: int, attempts: int, outcome: Outcome) -> tuple[str, bool]:
    if attempts >= copies:
        return f"{copies} copies of a send with {attempts} attempts", True
    if outcome is Outcome.WEAK:
        return f"{copies} copies of a weakly acknowledged send", True
    if attempts == 0 and outcome is not Outcome.OK:
        return f"{copies} copies of a send whose outcome is unknown", True
    return f"{copies} copies of a send with {attempts or 'one'} attempt(s)", False


def _redeliveries(
    columns: Columns, context: Context, repeats: Touches
) -> Iterator[tuple[str, bool]]:
    """Compare each delivery of a place with the one before it."""
    last: dict[tuple[int, int], int] = {}
    for row, place in enumerate(
        zip(repeats.queue.tolist(), repeats.queue_offset.tolist(), strict=True)
    ):
        if place in last:
            queue = columns.names.queues[place[0]]
            yield _judge_redelivery(columns, context, repeats, queue, last[place], row)
        last[place] = row


def _judge_redelivery(
    columns: Columns, context: Context, repeats: Touches, queue: QueueKey, before: int, row: int
) -> tuple[str, bool]:
    group = columns.names.groups[repeats.group[row]]
    if repeats.outcome[before] != Outcome.OK:
        return "the listener did not finish", True
    if repeats.tries[row] > repeats.tries[before]:
        return "retried by the consumer", True
    committed = _safe_commit(columns, context, repeats, row)
    if committed is not None:
        return f"owner began below offset {committed}, persisted long before", False
    if repeats.process[row] != repeats.process[before]:
        return "the queue changed its owner", True
    first, last = int(repeats.invoke_index[before]), int(repeats.invoke_index[row])
    if context.timeline.ownership_between(group, queue, first, last):
        return "the queue was assigned anew", True
    fault = fault_near(
        context.facts.faults, int(repeats.invoke_ns[before]), int(repeats.invoke_ns[row])
    )
    if fault is not None:
        return f"offset not persisted: fault {fault.fault_id} ({fault.kind})", True
    return "the same owner got it again, with no rebalance and no fault nearby", False


def _safe_commit(columns: Columns, context: Context, repeats: Touches, row: int) -> int | None:
    """Return a committed offset beyond the message that the owner must have known when it took the queue."""
    names, commits = columns.names, columns.commits
    group, queue = names.groups[repeats.group[row]], names.queues[repeats.queue[row]]
    process, at = int(repeats.process[row]), int(repeats.invoke_index[row])
    gain = context.timeline.gained_before(group, queue, process, at)
    if gain is None:
        return None
    rows = _commits_of(columns, int(repeats.queue[row]), int(repeats.group[row]))
    for commit in rows[commits.offset[rows] > repeats.queue_offset[row]].tolist():
        time_ns = int(commits.time_ns[commit])
        persisted = time_ns + PERSISTED_AFTER_NS < gain.time_ns
        if persisted and _stays(context, queue, time_ns, gain.time_ns):
            return int(commits.offset[commit])
    return None


def _commits_of(columns: Columns, queue: int, group: int) -> Ints:
    """The rows of what a group committed for a queue, found once for each."""
    known = columns.cache.setdefault("commits of streams", {})
    assert isinstance(known, dict)
    if (queue, group) not in known:
        commits = columns.commits
        known[queue, group] = np.flatnonzero((commits.queue == queue) & (commits.group == group))
    rows: Ints = known[queue, group]
    return rows


def _stays(context: Context, queue: QueueKey, committed_ns: int, until_ns: int) -> bool:
    """Whether nothing hindered persisting an offset, and no disk was lost with it afterwards."""
    hindered = fault_active(context.facts.faults, committed_ns, committed_ns + PERSISTED_AFTER_NS)
    destroyed = context.promises.damaged(
        queue.broker, at_least=Damage.DISK, since_ns=committed_ns, until_ns=until_ns
    )
    return hindered is None and not destroyed


DUPLICATION = Kernel(
    name="duplication",
    partition_by="message",
    anomalies=("duplicate_unexplained", "duplicate"),
    partial=tally_duplication,
    unknown_reason=nothing_missing,
)
