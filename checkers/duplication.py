"""Duplication: a group got a message more than once. At-least-once allows it, but not without a reason.

An extra delivery is either another *copy* (another place in a log: the message was stored again) or a
*redelivery* of the same place. A copy is explained by an ambiguous, weakly acknowledged or retried send,
up to the number of attempts. A redelivery is explained by a listener that did not finish, by the retry
count, by a change of owner, or by a fault nearby: offsets are persisted every few seconds only.

**duplicate_unexplained** is a violation; **duplicate** (explained) is allowed and only counted. An owner
that starts again below an offset that was committed and safely persisted is never explained.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Outcome, QueueKey, Touches, Transaction
from checkers.kernel import Context, Kernel, finding_at, nothing_missing
from checkers.message_ids import dense_numbers
from checkers.place_index import number_runs
from checkers.promises import NS_PER_S, Damage, Judgement, judge
from checkers.unrest import fault_active, fault_near, is_sent_back
from checkers.verdict import Finding, Tally

# Consumers persist offsets every 5 s, brokers write them every 5 s, slaves copy them every 10 s.
PERSISTED_AFTER_NS = 25 * NS_PER_S
FINISHED = Outcome.OK.value


class Given(NamedTuple):
    """A delivery of what was delivered more than once."""

    row: int
    topic: int
    queue: int
    queue_offset: int
    group: int
    process: int
    outcome: int
    tries: int
    invoke_index: int
    invoke_ns: int

    @property
    def place(self) -> tuple[int, int]:
        return self.queue, self.queue_offset


def tally_duplication(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole messages (partition key: message)."""
    rows, starts = _repeated(columns, context, columns.deliveries)
    repeats = columns.deliveries.where(rows)
    source = first_sends(columns, repeats.message[starts[:-1]]).tolist()
    lists = (getattr(repeats, name).tolist() for name in Given._fields[1:])
    given = list(map(Given, rows.tolist(), *lists))
    findings = (
        _judge_repeats(columns, context, given[start:stop], sent)
        for (start, stop), sent in zip(pairwise(starts.tolist()), source, strict=True)
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


def _repeated(columns: Columns, context: Context, deliveries: Touches) -> tuple[Ints, Ints]:
    """Rows of what one reader got of one message, in delivery order, when that is more than one row.

    The second array tells where among them each such pair starts, and the end.
    """
    readers, reader = _readers(columns, context, deliveries)
    _, (message,) = dense_numbers(deliveries.message)
    cell = message * readers + reader
    cell[message == UNKNOWN] = -1  # bodies without a key are not one message
    times = np.bincount(cell + 1, minlength=1)
    times[0] = 0
    rows = np.flatnonzero(times[cell + 1] > 1)
    rows = rows[np.lexsort((rows, deliveries.invoke_index[rows], cell[rows]))]
    return rows, number_runs(cell[rows])[1]


def first_sends(columns: Columns, messages: Ints) -> Ints:
    """The row of the first send of each message, UNKNOWN if there is none, shape (messages,)."""
    distinct, first = np.unique(columns.sends.message, return_index=True)
    if not len(distinct):
        return np.full(len(messages), UNKNOWN, np.int64)
    at = np.minimum(np.searchsorted(distinct, messages), len(distinct) - 1)
    return np.where(distinct[at] == messages, first[at], UNKNOWN)


def _judge_repeats(
    columns: Columns, context: Context, repeats: Sequence[Given], sent: int
) -> Finding:
    reasons = [*_copies(columns, context, repeats, sent), *_redeliveries(columns, context, repeats)]
    unexplained = [reason for reason, explained in reasons if not explained]
    anomaly = "duplicate_unexplained" if unexplained else "duplicate"
    told = unexplained or [reason for reason, _ in reasons]
    mode = context.facts.mode
    return finding_at(
        columns,
        columns.deliveries,
        repeats[-1].row,
        anomaly=anomaly,
        judgement=judge(mode, anomaly) if unexplained else Judgement.ALLOWED,
        detail=f"delivered {len(repeats)} times: {'; '.join(dict.fromkeys(told))}",
        group=columns.names.groups[repeats[0].group],
        at_invocation=True,
    )


def _copies(
    columns: Columns, context: Context, repeats: Sequence[Given], sent: int
) -> Iterator[tuple[str, bool]]:
    """Judge how often the message was stored, if that is more than once."""
    internal = columns.names.internal_topic
    places = {of.place for of in repeats if not internal[of.topic]}
    if len(places) < 2:
        return
    sends = columns.sends
    if sent == UNKNOWN:
        # It is a phantom, and reported there.
        yield (f"{len(places)} copies of a message that nobody sent", True)
    elif sends.due_ns[sent] != UNKNOWN or sends.transaction[sent] != Transaction.NONE:
        yield _judge_moves(context, sends, sent, repeats[-1].invoke_ns, len(places))
    else:
        attempts, outcome = int(sends.tries[sent]), Outcome(int(sends.outcome[sent]))
        yield _judge_copies(len(places), attempts, outcome)


def _judge_moves(
    context: Context, sends: Touches, row: int, last_ns: int, copies: int
) -> tuple[str, bool]:
    """What a broker kept back at first it may store more than once, when it dies before it writes down that it did."""
    fault = fault_near(context.facts.faults, int(sends.invoke_ns[row]), last_ns)
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
    columns: Columns, context: Context, repeats: Sequence[Given]
) -> Iterator[tuple[str, bool]]:
    """Compare each delivery of a place with the one before it."""
    last: dict[tuple[int, int], Given] = {}
    for of in repeats:
        if of.place in last:
            yield _judge_redelivery(columns, context, last[of.place], of)
        last[of.place] = of


def _judge_redelivery(
    columns: Columns, context: Context, before: Given, again: Given
) -> tuple[str, bool]:
    if before.outcome != FINISHED:
        return "the listener did not finish", True
    if again.tries > before.tries:
        return "retried by the consumer", True
    committed = _safe_commit(columns, context, again)
    if committed is not None:
        return f"owner began below offset {committed}, persisted long before", False
    if again.process != before.process:
        return "the queue changed its owner", True
    group, queue = columns.names.groups[again.group], columns.names.queues[again.queue]
    if context.timeline.ownership_between(group, queue, before.invoke_index, again.invoke_index):
        return "the queue was assigned anew", True
    fault = fault_near(context.facts.faults, before.invoke_ns, again.invoke_ns)
    if fault is not None:
        return f"offset not persisted: fault {fault.fault_id} ({fault.kind})", True
    return "the same owner got it again, with no rebalance and no fault nearby", False


def _safe_commit(columns: Columns, context: Context, given: Given) -> int | None:
    """Return a committed offset beyond the message that the owner must have known when it took the queue."""
    names, commits = columns.names, columns.commits
    queue = names.queues[given.queue]
    gain = context.timeline.gained_before(
        names.groups[given.group], queue, given.process, given.invoke_index
    )
    if gain is None:
        return None
    rows = _commits_of(columns, given.queue, given.group)
    persisted = commits.time_ns[rows] + PERSISTED_AFTER_NS < gain.time_ns
    for commit in rows[persisted & (commits.offset[rows] > given.queue_offset)].tolist():
        committed_ns = int(commits.time_ns[commit])
        if is_sent_back(context.facts.faults, committed_ns, given.invoke_ns):
            continue
        if _stays(context, queue, committed_ns, gain.time_ns):
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
