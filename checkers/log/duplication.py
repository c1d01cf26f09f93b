"""Duplication: a group received a message more than once. At-least-once delivery allows that only for a reason.

An extra delivery is another *copy* (another position in a log: the broker stored the message again) or a *redelivery*
of the same position. A retried send explains as many copies as it had attempts. A weakly acknowledged send explains any
number of copies, and so does a send without an acknowledgement whose client does not report the number of attempts. If
the client of an acknowledged send does not report that number, copies make the verdict unknown. moved_copies.py
explains second copies of delayed messages and transactions. A delayed message has one copy more for each copy that the
leader's disk changed (bit rot) before the next one was delivered: if no replica has the record, the broker delivers the
message again (the checker does not ask whether one has it). These explain a redelivery:

* a listener that did not finish, or a higher retry count;
* a change of owner (members report the queues that they own), or two owners at once, for as long as a rebalance may
  take. A member that does not report its queues may have lost a queue and regained it when another member of its group
  started or ended, for as long as a rebalance takes;
* a reason of excuse_table.py for an owner to go back without losing the queue;
* a reset of offsets, for one return of a process (`reset_returns.py`), and only if nothing else explains it.

**duplicate_unexplained** is a violation; **duplicate** (explained) is allowed and only counted. If an owner starts
again below an offset that was surely committed (committed.py), only a reset explains it. If a member reports the offset
that a broker gave it at the start (`begin`), a change of owner explains nothing below that offset. There, only a reset
or a reason of excuse_table.py does. If the broker knew no offset, the member starts where its options say.

`polls` judges redeliveries to groups whose members choose their positions themselves (`RunFacts.assigned`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np

from staticfire.checkers.derived.committed import lowest_answer, surely_committed
from staticfire.checkers.derived.moved_copies import Copy, Kept, kept_messages
from staticfire.checkers.derived.process_ends import ended_ns
from staticfire.checkers.derived.rebalances import (
    bound_ns,
    excused_spans,
    least_bound_ns,
    rebalanced_ns,
)
from staticfire.checkers.derived.reset_returns import ResetReturns
from staticfire.checkers.derived.settled import redelivered_only_after_reset, set_back_by
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at
from staticfire.checkers.engine.position_index import number_runs
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, seconds
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    LogKey,
    MessageEvents,
    Outcome,
    Transaction,
)
from staticfire.checkers.model.intervals import Span, without
from staticfire.checkers.model.message_ids import dense_numbers
from staticfire.checkers.model.timeline import Ownership

FINISHED = Outcome.OK.value
# How long before the due time or the first delivery a broker may have moved a delayed message: clocks are inexact.
MOVED_WITHIN_NS = 2 * NS_PER_S
CELLS_A_ROW = 8  # most cells of a table of messages and readers, per delivery
UNREPORTED = "whose client does not say how often it tried"


class Given(NamedTuple):
    """A delivery of a message that was delivered more than once; the fields are those of MessageEvents."""

    row: int
    topic: int
    log: int
    queue_offset: int
    group: int
    process: int
    outcome: int
    tries: int
    invoke_index: int
    invoke_ns: int

    @property
    def position(self) -> tuple[int, int]:
        return self.log, self.queue_offset


def tally_duplication(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole messages (partition key: message)."""
    rows, starts = _repeated(columns, context, columns.deliveries)
    repeats = columns.deliveries.where(rows)
    source = first_sends(columns, repeats.message[starts[:-1]]).tolist()
    lists = (getattr(repeats, name).tolist() for name in Given._fields[1:])
    given = list(map(Given, rows.tolist(), *lists))
    findings = [
        _judge_repeats(columns, context, given[start:stop], sent)
        for (start, stop), sent in zip(pairwise(starts.tolist()), source, strict=True)
    ]
    return Tally.of(findings, **_unreported(findings))


def _unreported(findings: Sequence[Finding]) -> dict[str, int]:
    """Count the messages whose copies are excused only because the number of attempts was not reported."""
    count = sum(
        finding.judgement is Judgement.ALLOWED and UNREPORTED in finding.detail
        for finding in findings
    )
    return {"attempts_unknown": count} if count else {}


def _attempts_unknown(tally: Tally, _context: Context) -> str | None:
    if not (count := tally.counts.get("attempts_unknown", 0)):
        return None
    return f"{count} messages have copies, and nothing says how often their sends were tried"


def _readers(columns: Columns, context: Context, deliveries: MessageEvents) -> tuple[int, Ints]:
    """Return the number of readers, and the reader of each delivery: a group, or a member of a broadcasting group."""
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


def _repeated(columns: Columns, context: Context, deliveries: MessageEvents) -> tuple[Ints, Ints]:
    """Return the rows of messages that a reader received more than once, by message and reader, in delivery order.

    The second array holds the index at which each pair (message, reader) starts, and the number of rows.
    """
    readers, reader = _readers(columns, context, deliveries)
    _, (message,) = dense_numbers(deliveries.message)
    cell = message * readers + reader
    cell[message == UNKNOWN] = -1  # bodies without a key count as different messages
    if cell.max(initial=0) > CELLS_A_ROW * len(cell):  # few deliveries, many readers
        cell = np.unique(np.append(-1, cell), return_inverse=True)[1][1:] - 1
    times = np.bincount(cell + 1, minlength=1)
    times[0] = 0
    rows = np.flatnonzero(times[cell + 1] > 1)
    rows = rows[np.lexsort((rows, deliveries.invoke_index[rows], cell[rows]))]
    return rows, number_runs(cell[rows])[1]


def first_sends(columns: Columns, messages: Ints) -> Ints:
    """Return the row of the first send of each message, UNKNOWN if there is none, shape (messages,)."""
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
    reported = unexplained or [reason for reason, _ in reasons]
    mode = context.facts.mode
    return finding_at(
        columns,
        columns.deliveries,
        repeats[-1].row,
        anomaly=anomaly,
        judgement=judge(mode, anomaly) if unexplained else Judgement.ALLOWED,
        detail=f"delivered {len(repeats)} times: {'; '.join(dict.fromkeys(reported))}",
        group=columns.names.groups[repeats[0].group],
        at_invocation=True,
    )


def _copies(
    columns: Columns, context: Context, repeats: Sequence[Given], sent: int
) -> Iterator[tuple[str, bool]]:
    """Judge the copies of a message that was stored more than once."""
    internal = columns.names.internal_topic
    positions = {of.position for of in repeats if not internal[of.topic]}
    if len(positions) < 2:
        return
    sends = columns.sends
    if sent == UNKNOWN:
        # The message is a phantom, and `provenance` reports it.
        yield (f"{len(positions)} copies of a message that no producer sent", True)
    elif sends.due_ns[sent] != UNKNOWN or sends.transaction[sent] != Transaction.NONE:
        is_delayed = bool(sends.transaction[sent] == Transaction.NONE)
        since_ns = int(sends.invoke_ns[sent])
        if is_delayed:  # no copy was visible before its due time
            first_ns = min(int(sends.due_ns[sent]), repeats[0].invoke_ns)
            since_ns = max(since_ns, first_ns - MOVED_WITHIN_NS)
        stored = _stored(columns, repeats)
        changed = _changed_copies(columns, context, repeats) if is_delayed else 0
        yield _judge_moves(context, sends, sent, stored, Kept(since_ns, is_delayed), changed)
    else:
        attempts, outcome = int(sends.tries[sent]), Outcome(int(sends.outcome[sent]))
        yield _judge_copies(len(positions), attempts, outcome)


def _stored(columns: Columns, repeats: Sequence[Given]) -> dict[str, list[Copy]]:
    """Return the copies of a message outside retry and dead-letter topics, by broker."""
    names, found = columns.names, dict[tuple[int, int], Copy]()
    for of in repeats:
        if not names.internal_topic[of.topic]:
            stored_ms = int(columns.deliveries.stored_ms[of.row])
            found.setdefault(of.position, Copy(of.invoke_ns, stored_ms))
    by_broker: dict[str, list[Copy]] = {}
    for (log, _), copy in found.items():
        by_broker.setdefault(names.logs[log].stream, []).append(copy)
    return by_broker


def _judge_moves(
    context: Context,
    sends: MessageEvents,
    row: int,
    stored: Mapping[str, Sequence[Copy]],
    kept: Kept,
    changed: int,
) -> tuple[str, bool]:
    """Judge copies of a delayed or half message: a broker that dies before it records a move may move it twice.

    The bound is the number of messages that the brokers must have kept, because each attempt may have stored one.
    A broker also moves a delayed message again if the disk has changed the copy, which `changed` counts.
    """
    attempts, outcome = int(sends.tries[row]), Outcome(int(sends.outcome[row]))
    count, words = 0, ""
    for broker, copies in sorted(stored.items()):
        messages, window = kept_messages(context, broker, copies, kept)
        count += messages
        words = words if window is None else f"; {window.words}"
    if changed:
        count, words = count - changed, words or f"; the disk changed {changed} of them"
    if words and count <= max(attempts, 1):
        return f"{sum(map(len, stored.values()))} copies of what was kept back{words}", True
    return _judge_copies(count, attempts, outcome)


def _changed_copies(columns: Columns, context: Context, repeats: Sequence[Given]) -> int:
    """Return the number of copies that a fault changed on the leader's disk before a later one was delivered."""
    deliveries, facts, logs = columns.deliveries, context.facts, columns.names.logs
    last_ns = max(of.invoke_ns for of in repeats)
    copies = {
        (logs[of.log].stream, int(deliveries.position[of.row]))
        for of in repeats
        if of.invoke_ns < last_ns
    }
    changed = {
        (stream, record.start)
        for fault in facts.faults
        if fault.bitten_ns is not None and fault.bitten_ns < last_ns
        for stream, (leader, *_) in facts.replica_sets.items()
        if leader in fault.targets
        for record in fault.records
    }
    return len(copies & changed)


def _judge_copies(copies: int, attempts: int, outcome: Outcome) -> tuple[str, bool]:
    if attempts >= copies:
        return f"{copies} copies of a send with {attempts} attempts", True
    if outcome is Outcome.WEAK:
        return f"{copies} copies of a weakly acknowledged send", True
    if attempts == 0 and outcome is not Outcome.OK:
        return f"{copies} copies of a send whose outcome is unknown", True
    if attempts == 0:
        return f"{copies} copies of a send {UNREPORTED}", True
    return f"{copies} copies of a send with {attempts} attempt(s)", False


def _redeliveries(
    columns: Columns, context: Context, repeats: Sequence[Given]
) -> Iterator[tuple[str, bool]]:
    """Judge each delivery of a position by the previous delivery of it."""
    last: dict[tuple[int, int], Given] = {}
    resets: dict[tuple[int, int], ResetReturns] = {}
    group = columns.names.groups[repeats[0].group]
    if group in context.facts.assigned:  # `polls` judges whether a member went back
        return
    for of in repeats:
        if of.position in last:
            queue = columns.names.logs[of.log]
            left = resets.setdefault(of.position, ResetReturns(context, group, queue))
            yield _judge_redelivery(columns, context, last[of.position], of, left)
        last[of.position] = of


def _judge_redelivery(
    columns: Columns, context: Context, before: Given, again: Given, resets: ResetReturns
) -> tuple[str, bool]:
    """Return why a message came again, and whether that is legal. A reset of offsets is the last reason to try."""
    if before.outcome != FINISHED:
        return "the listener did not finish", True
    if again.tries > before.tries:
        return "retried by the consumer", True
    group, queue = columns.names.groups[again.group], columns.names.logs[again.log]
    since_ns = before.invoke_ns
    if (group, queue) not in context.timeline.ownership:
        why, explained = _judge_unreported(columns, context, before, again)
    else:
        gain = context.timeline.gained_before(group, queue, again.process, again.invoke_index)
        if gain is None:
            return f"process {again.process} never had the queue", False
        since_ns = max(since_ns, gain.time_ns)
        why, explained = _judge_owners(columns, context, gain, before, again)
    if explained:
        return why, True
    reset = resets.take(again.process, since_ns, again.invoke_ns, again.queue_offset)
    return (why, False) if reset is None else (reset.words, True)


def _judge_unreported(
    columns: Columns, context: Context, before: Given, again: Given
) -> tuple[str, bool]:
    """Judge a redelivery from a queue whose owners are not reported."""
    if again.process != before.process:
        return "the group does not say who owns the queue", True
    if _may_have_rebalanced(context, columns.names.groups[again.group], before, again):
        return "the group does not say who owns the queue, and a member came or went", True
    return _judge_same_owner(columns, context, before, again)


def _judge_owners(
    columns: Columns, context: Context, gain: Ownership, before: Given, again: Given
) -> tuple[str, bool]:
    """Judge a redelivery to a process that had gained the queue."""
    committed = surely_committed(columns, context, (again.log, again.group), gain)
    if committed > again.queue_offset:
        return f"owner began below offset {committed}, which was committed before", False
    pair = columns.names.groups[again.group], columns.names.logs[again.log]
    answer = lowest_answer(context, pair, gain, again.invoke_index)
    if answer is not None and again.queue_offset < answer:
        why, explained = _judge_same_owner(columns, context, before, again)
        began = f"owner went below offset {answer}, where it began"
        return (why, True) if explained else (began, False)
    if gain.op_index > before.invoke_index:
        return "the queue changed its owner, or was assigned anew", True
    if again.process == before.process:
        return _judge_same_owner(columns, context, before, again)
    return _judge_overlap(context, pair, gain, before, again)


def _may_have_rebalanced(context: Context, group: str, before: Given, again: Given) -> bool:
    """Whether the group may have rebalanced between both deliveries, because another member started or ended."""
    others = {
        (opened.process, opened.time_ns)
        for opened in context.timeline.subscriptions
        if opened.group == group and opened.process != again.process
    }
    since_ns = before.invoke_ns - rebalanced_ns(context.facts.timings)
    return any(
        since_ns <= changed_ns <= again.invoke_ns
        for process, opened_ns in others
        for changed_ns in (opened_ns, ended_ns(context, process))
    )


def _judge_same_owner(
    columns: Columns, context: Context, before: Given, again: Given
) -> tuple[str, bool]:
    """Judge a redelivery to one owner: it is wrong unless the owner's position in the queue was set back."""
    pair = columns.names.groups[again.group], columns.names.logs[again.log]
    times, nodes = (before.invoke_ns, again.invoke_ns), (context.timeline.nodes.get(again.process),)
    window = None
    if not redelivered_only_after_reset(
        columns, context, pair[0], again.position, before.invoke_ns
    ):
        window = set_back_by(context, pair, "duplicate_unexplained", times, nodes)
    if window is not None:
        return window.words, True
    return "the same owner got it again, with no rebalance", False


def _judge_overlap(
    context: Context, pair: tuple[str, LogKey], gain: Ownership, before: Given, again: Given
) -> tuple[str, bool]:
    """Judge two owners at once: as long as `double_ownership` allows both, each may receive messages of the other."""
    first = context.timeline.gained_before(*pair, before.process, before.invoke_index)
    if first is None:
        return f"process {before.process} never had the queue", False
    both = Span(max(first.time_ns, gain.time_ns), again.invoke_ns)
    what = f"processes {before.process} and {again.process} had the queue together"
    if both.length_ns > least_bound_ns(context.facts.timings):
        nodes = map(context.timeline.nodes.get, (before.process, again.process))
        excused = excused_spans(context, "double_ownership", pair[0], pair[1].stream, nodes)
        both_ns = sum(span.length_ns for span in without([both], excused))
        if both_ns > bound_ns(context, pair[0], both):
            return f"{what} for {seconds(both_ns)}", False
    return f"{what} during a rebalance", True


DUPLICATION = Kernel(
    name="duplication",
    partition_by="message",
    screened=True,
    anomalies=("duplicate_unexplained", "duplicate"),
    partial=tally_duplication,
    unknown_reason=_attempts_unknown,
)
