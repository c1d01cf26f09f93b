"""Order by sharding key: one key stays in one queue, and an orderly group finishes one message before the next.

**order_violated**: an orderly group began to consume a message, successfully and for the first time, before it had
finished an earlier one of the queue. A listener that fails blocks its queue, and a member that takes the queue over
continues where the previous one stopped. The rule also applies to the messages that one owner receives from one gain of
the queue to its next gain: a reset of offsets sends the group back, but does not change the order. Allowed if the log
may have lost a suffix, because the broker then uses those offsets again.

**retry_uncounted**: the listener of an orderly group failed for a message, and the same owner's next call for it has no
higher retry count, although the owner did not gain the queue in between. The owner repeats the message itself, and
counts the attempts; it starts again from the stored count when it gains the queue. Without the count a message that
always fails blocks its queue forever, because it never becomes a dead letter. Judged only for members that report their
queues (`assign`).

**key_moved**: different queues acknowledged messages of one sharding key, so their order is no longer defined. Allowed,
if there are several leaders, while a fault may have changed the routes that the producers saw (excuse_table.py): a
producer that starts, or refreshes its route, while a leader is away sees other queues. A follower adds no queues to a
route. A move across a permanent change of the queues is also allowed. **hot_key** (informational): one sharding key has
most of the messages, and its queue lags behind the others.

Together with the order within a queue (`order`) these rules mean: a group consumes messages of one key in the order in
which brokers acknowledged them.

Cannot see: the order of messages that no broker acknowledged, or that are never consumed (`loss`). `listeners` finds
two members that consume a queue at the same time, each in order.

Source: SelectMessageQueueByHash and ConsumeMessageOrderlyService of Apache RocketMQ 4.9. RocketMQ moves keys while a
leader is away; this project's client does not.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.engine.kernel import (
    Checker,
    Context,
    Kernel,
    finding_at,
    nothing_missing,
    rows_by_id,
    some_rows,
)
from staticfire.checkers.engine.screening import is_among, with_deliveries
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, MessageEvents, Outcome

# The least 90th percentile of waits in the queue of a hot key, and the least ratio of it to that of other queues.
HOT_WAIT_NS, HOT_RATIO = NS_PER_S, 3


def tally_orderly(columns: Columns, context: Context) -> Tally:
    """Judge whole queues (partition key: log)."""
    groups, deliveries = columns.names.groups, columns.deliveries
    orderly = [groups.index(group) for group in context.facts.orderly if group in groups]
    if not orderly:
        return Tally()
    rows = np.flatnonzero(
        np.isin(deliveries.group, orderly) & ~columns.names.internal_topic[deliveries.topic]
    )
    findings: list[Finding] = []
    stream = deliveries.log[rows] * len(groups) + deliveries.group[rows]
    for _, of_stream in rows_by_id(stream):
        of_queue = rows[of_stream]
        consumed = of_queue[deliveries.outcome[of_queue] == Outcome.OK]
        held_up = _held_up(deliveries, consumed)
        for of_term in _terms(columns, context, of_queue):
            consumed = of_term[deliveries.outcome[of_term] == Outcome.OK]
            held_up = _held_up(deliveries, consumed) | held_up
            for row, before in _uncounted(deliveries, of_term):
                findings.append(_uncounted_retry(columns, context, row, before))
        findings.extend(_overtaking(columns, context, *pair) for pair in held_up.items())
    consumed_in_order = int(np.count_nonzero(deliveries.outcome[rows] == Outcome.OK))
    return Tally.of(findings, consumed_in_order=consumed_in_order)


def _terms(columns: Columns, context: Context, rows: Ints) -> Iterator[Ints]:
    """Yield the rows of each ownership of one queue, from one gain to the next; nothing if owners are not reported."""
    deliveries = columns.deliveries
    group = columns.names.groups[int(deliveries.group[rows[0]])]
    queue = columns.names.logs[int(deliveries.log[rows[0]])]
    if (group, queue) not in context.timeline.ownership:
        return
    for processes, of_process in rows_by_id(deliveries.process[rows]):
        gains = context.timeline.gains(group, queue, int(processes[0]))
        gained = [gain.op_index for gain in gains]
        mine = rows[of_process]
        for _, of_term in rows_by_id(np.searchsorted(gained, deliveries.invoke_index[mine])):
            yield mine[of_term]


def _held_up(deliveries: MessageEvents, rows: Ints) -> dict[int, int]:
    """Return each call that began before a call for a lower offset had ended, with the last such call (rows).

    For each offset of the queue, the first call that finished counts.
    """
    order = np.lexsort((deliveries.op_index[rows], deliveries.queue_offset[rows]))
    rows = rows[order]
    rows = rows[np.diff(deliveries.queue_offset[rows], prepend=-1) != 0]
    ended = deliveries.op_index[rows]
    before = _latest_of_others(ended)
    return {
        int(rows[at]): int(rows[np.flatnonzero(ended[:at] == before[at])[-1]])
        for at in np.flatnonzero(deliveries.invoke_index[rows] < before).tolist()
    }


def _latest_of_others(ended: Ints) -> Ints:
    """Return the last end of other calls for this or a lower offset (-1: none), shape of `ended`.

    This is the highest end so far or, if that is the end of the call itself, the highest one below it.
    """
    highest = np.concatenate(([-1], np.maximum.accumulate(ended)))
    before = highest[:-1]
    # The end that each call adds to the ends below the highest: its own, or the former highest that it replaces.
    lower = np.where(ended < before, ended, np.where(ended > before, before, -1))
    second = np.maximum.accumulate(np.concatenate(([-1], lower)))[:-1]
    return np.where(before != ended, before, second)


def _overtaking(columns: Columns, context: Context, row: int, held_up: int) -> Finding:
    deliveries = columns.deliveries
    broker = columns.names.logs[int(deliveries.log[row])].stream
    rule = context.promises.rule(broker, _sent_ns(columns, row, held_up))
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly="order_violated",
        judgement=rule.judgement,
        detail=(
            f"began before offset {deliveries.queue_offset[held_up]} (key "
            f"{columns.names.key(int(deliveries.message[held_up]))}) was consumed"
        ),
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
        other=int(deliveries.message[held_up]),
    )


def _uncounted(deliveries: MessageEvents, rows: Ints) -> Iterator[tuple[int, int]]:
    """Yield each call of one owner whose retry count is not above that of the failed call before it (rows of both)."""
    rows = rows[np.lexsort((deliveries.invoke_index[rows], deliveries.queue_offset[rows]))]
    earlier, later = rows[:-1], rows[1:]
    ended = deliveries.op_index[earlier]
    uncounted = (
        (deliveries.queue_offset[earlier] == deliveries.queue_offset[later])
        & (deliveries.outcome[earlier] != Outcome.OK)
        & (ended > deliveries.invoke_index[earlier])
        & (ended < deliveries.invoke_index[later])
        & (deliveries.tries[later] <= deliveries.tries[earlier])
    )
    for at in np.flatnonzero(uncounted).tolist():
        yield int(later[at]), int(earlier[at])


def _uncounted_retry(columns: Columns, context: Context, row: int, before: int) -> Finding:
    deliveries = columns.deliveries
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly="retry_uncounted",
        judgement=judge(context.facts.mode, "retry_uncounted"),
        detail=(
            f"the listener failed for it, with retry count {deliveries.tries[before]}, and its next call has "
            f"{deliveries.tries[row]}"
        ),
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
    )


def _sent_ns(columns: Columns, *rows: int) -> int:
    """Return the earliest invocation time of the sends and deliveries of the messages in these rows."""
    deliveries, sends = columns.deliveries, columns.sends
    sent = np.isin(sends.message, deliveries.message[list(rows)])
    times: list[int] = deliveries.invoke_ns[list(rows)].tolist() + sends.invoke_ns[sent].tolist()
    return min(times)


def keyed_sends(columns: Columns, _context: Context) -> Columns:
    """Select acknowledged messages with a sharding key."""
    sends = columns.sends
    keyed = (sends.sharding_key != UNKNOWN) & (sends.outcome == Outcome.OK)
    return some_rows(columns, sends=np.flatnonzero(keyed))


def keyed_deliveries(columns: Columns, context: Context, gathered: Columns) -> Columns:
    """Select the same sends and their deliveries; `gathered` has the `keyed_sends` of all queues."""
    return with_deliveries(keyed_sends(columns, context), columns, gathered.sends.message)


def keyed_rows(columns: Columns, _context: Context) -> Columns:
    """Select acknowledged messages with a sharding key, and deliveries from the queues that have such messages."""
    sends = columns.sends
    keyed = sends.where((sends.sharding_key != UNKNOWN) & (sends.outcome == Outcome.OK))
    there = is_among(columns.deliveries.log, np.unique(keyed.log))
    return Columns(
        names=columns.names,
        sends=keyed,
        deliveries=columns.deliveries.where(there),
        commits=columns.commits.where(np.zeros(0, np.int64)),
    )


def check_keys(columns: Columns, context: Context) -> Verdict:
    """Compare the queues of all messages of each sharding key."""
    columns = keyed_rows(columns, context)
    keyed = columns.sends
    findings = [*_moved(columns, context, keyed), *_hot(columns, context, keyed)]
    tally = Tally.of(findings, sharding_keys=len(np.unique(keyed.sharding_key)))
    return Verdict(
        checker="sharding_keys",
        valid="key_moved" not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _moved(columns: Columns, context: Context, keyed: MessageEvents) -> Iterator[Finding]:
    for _, rows in rows_by_id(keyed.sharding_key):
        of_key = keyed.where(rows[np.argsort(keyed.op_index[rows], kind="stable")])
        for row in (1 + np.flatnonzero(np.diff(of_key.log) != 0)).tolist():
            excuse = _excuse(context, of_key, row)
            before = columns.names.logs[int(of_key.log[row - 1])]
            key = columns.names.sharding_keys[int(of_key.sharding_key[row])]
            yield finding_at(
                columns,
                of_key,
                row,
                anomaly="key_moved",
                judgement=Judgement.ALLOWED if excuse else judge(context.facts.mode, "key_moved"),
                detail=f"sharding key {key} was in queue {before.partition} of {before.home}{excuse}",
            )


def _hot(columns: Columns, context: Context, keyed: MessageEvents) -> Iterator[Finding]:
    """Yield a finding for a key with more than half of the messages, if messages in its queue wait much longer."""
    if not len(keyed):
        return
    key = int(np.bincount(keyed.sharding_key).argmax())
    mine = keyed.sharding_key == key
    queue = _main_queue(columns, keyed.log[mine])
    waits_ns = _waits_ns(columns, keyed)
    here, elsewhere = waits_ns[keyed.log == queue], waits_ns[keyed.log != queue]
    here, elsewhere = here[here >= 0], elsewhere[elsewhere >= 0]
    if 2 * np.count_nonzero(mine) <= len(keyed) or not len(here) or not len(elsewhere):
        return
    slow_ns, quick_ns = _nine_of_ten(here), _nine_of_ten(elsewhere)
    if slow_ns < HOT_WAIT_NS or slow_ns < HOT_RATIO * quick_ns:
        return
    log_key = columns.names.logs[queue]
    name = columns.names.sharding_keys[key]
    others = np.unique(keyed.sharding_key[(keyed.log == queue) & ~mine])
    in_queue = np.flatnonzero(mine & (keyed.log == queue))
    yield finding_at(
        columns,
        keyed,
        int(in_queue[np.argmax(keyed.op_index[in_queue])]),
        anomaly="hot_key",
        judgement=judge(context.facts.mode, "hot_key"),
        detail=(
            f"sharding key {name} has {np.count_nonzero(mine)} of {len(keyed)} messages, in queue "
            f"{log_key.partition} of {log_key.home}, which one listener consumes one after the other: 9 of 10 wait up "
            f"to {slow_ns / NS_PER_S:.1f} s there, and {quick_ns / NS_PER_S:.1f} s in the other queues. {len(others)} "
            "other keys of that queue wait with it. More consumers or more queues do not help; spread the key, or "
            "order only what must be in order"
        ),
    )


def _main_queue(columns: Columns, queues: Ints) -> int:
    """Return the queue that occurs most often; the first by name, if several do."""
    of, counts = np.unique(queues, return_counts=True)
    most: list[int] = of[counts == counts.max()].tolist()
    return min(most, key=lambda queue: columns.names.logs[queue])


def _nine_of_ten(waits_ns: Ints) -> int:
    """Return the 90th percentile of the waits, by nearest rank."""
    return int(np.sort(waits_ns)[-(-9 * len(waits_ns) // 10) - 1])


def _waits_ns(columns: Columns, sends: MessageEvents) -> Ints:
    """Return the time in ns from each acknowledgement to the first listener call, -1 without a call; shape (sends,)."""
    deliveries = columns.deliveries
    order = np.argsort(deliveries.invoke_ns, kind="stable")
    messages, first = np.unique(deliveries.message[order], return_index=True)
    if not len(messages):
        return np.full(len(sends), -1, np.int64)
    at = np.minimum(np.searchsorted(messages, sends.message), len(messages) - 1)
    called_ns = deliveries.invoke_ns[order[first[at]]]
    waited_ns: Ints = np.maximum(called_ns - sends.time_ns, 0)
    return np.where(messages[at] == sends.message, waited_ns, -1)


def _excuse(context: Context, of_key: MessageEvents, row: int) -> str:
    """Return why producers may have seen different queues for a message and the previous one; empty if they cannot."""
    find = context.excuses.find
    since = int(of_key.invoke_ns[row - 1 : row + 1].min())
    window = find("queues_changed", since, int(of_key.time_ns[row]))
    has_others = (
        len(context.facts.replica_sets) > 1
    )  # with one replica set, every route has the same queues, or none
    for at in (row - 1, row) if has_others else ():
        node = context.timeline.nodes.get(int(of_key.process[at]))
        times = int(of_key.invoke_ns[at]), int(of_key.time_ns[at])
        window = window or find("key_moved", *times, None, (node,))
    return "" if window is None else f"; {window.words}"


ORDERLY = Kernel(
    name="orderly",
    partition_by="log",
    anomalies=("order_violated", "retry_uncounted"),
    partial=tally_orderly,
    unknown_reason=nothing_missing,
)
SHARDING_KEYS = Checker(
    name="sharding_keys",
    anomalies=("key_moved", "hot_key"),
    check=check_keys,
    rows=keyed_sends,
    rows_again=keyed_deliveries,
    applies=lambda context: bool(context.facts.orderly),
)
