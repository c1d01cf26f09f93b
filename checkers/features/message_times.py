"""Times in messages: the born time is within the send, and the store time is between the send and the delivery.

**wrong_born_time**: the born time of a message that was delivered from its own topic is outside its send. (A copy that
a client made for the retry topic has its own born time: `contents.py`.)

**wrong_store_time**: the store time of a message is

* before its send began, or after it was delivered;
* before it was due, for a delayed message, because a broker stores it in its queue when it is due;
* after the end of its send, if the send was acknowledged in one attempt and brokers do not first keep the message (for
  a delay, a transaction, or a retry);
* before any delivery of the previous try began, for a dead letter. A client that cannot send back a retry counts its
  tries itself, so the record of the retry is older;
* after the last answer to a send-back, for a dead letter, if each member that received the previous try got the answer
  that a broker has the message (`send_back`): a broker stores a dead letter at once. If a member had to send a copy
  of its own, the brokers that did not answer may execute its requests later: the one that holds the message, and the
  brokers of earlier attempts. So a copy counts only if it was the first attempt and is on another broker.

The kernel skips a message if a fault that bit had set the wall clock of its producer or broker wrong before the
delivery. A clock may stay wrong until its node starts again. A producer whose node is not known may be any client.

Cannot see: runs whose wall clock is not tied to the history (`RunFacts.wall_epoch_ms`); contents that a client does not
report; messages whose send is not in the history.

Source: bornTimestamp and storeTimestamp of Message in Apache RocketMQ 4.9.
"""

from __future__ import annotations

from collections import Counter

import numpy as np

from staticfire.checkers.derived.wall_clocks import brokers_stepped_ns, on_run_clock, stepped_ns
from staticfire.checkers.engine.kernel import Context, Kernel, finding_at, nothing_missing
from staticfire.checkers.engine.screening import is_among
from staticfire.checkers.features.contents import numbered
from staticfire.checkers.features.retries import DEAD
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, Outcome, Transaction
from staticfire.checkers.model.timeline import SentBack

# tolerance for times in whole milliseconds, and for differences between clocks of cores
ROUGHNESS_NS = NS_PER_S // 10
BORN, STORED = "wrong_born_time", "wrong_store_time"


def tally_message_times(columns: Columns, context: Context) -> Tally:
    """Judge the times in deliveries of whole messages (partition key: message)."""
    found = _wrong(columns, context)
    return Tally.of(
        _finding(columns, context, anomaly, row)
        for anomaly, rows in found.items()
        for row in np.flatnonzero(rows).tolist()
    )


def odd_times(columns: Columns, context: Context, _cleared: Mask) -> Ints:
    """Select the messages with wrong times."""
    message = columns.deliveries.message
    wrong = np.zeros(len(message), np.bool_)
    for rows in _wrong(columns, context).values():
        wrong |= rows
    found: Ints = np.unique(message[wrong])
    return found


def _wrong(columns: Columns, context: Context) -> dict[str, Mask]:
    """Return, by anomaly, whether each delivery has a wrong time; masks have shape (deliveries,)."""
    sends, given, epoch_ms = columns.sends, columns.deliveries, context.facts.wall_epoch_ms
    if epoch_ms is None or not len(sends) or not len(given):
        return {}
    order = np.argsort(sends.message, kind="stable")
    at = np.minimum(np.searchsorted(sends.message[order], given.message), len(order) - 1)
    send = order[at]
    is_sent = (sends.message[send] == given.message) & (given.message != UNKNOWN)
    began_ns, ended_ns = sends.invoke_ns[send], sends.time_ns[send]
    is_clear = is_sent & (sends.outcome[send] == Outcome.OK)
    stepped = stepped_ns(context)

    born_ns = on_run_clock(given.born_ms, epoch_ms)
    by_ns = np.where(is_clear, ended_ns, given.invoke_ns)
    of_producers = _of_producers(columns, context, stepped)[send]
    born = _outside(born_ns, began_ns, by_ns) & (given.invoke_ns < of_producers)

    kept_back = (sends.transaction[send] != Transaction.NONE) | (sends.due_ns[send] != UNKNOWN)
    first = is_clear & ~kept_back & (sends.tries[send] == 1)
    first &= (given.log == sends.log[send]) & (given.queue_offset == sends.queue_offset[send])
    stored_ns = on_run_clock(given.stored_ms, epoch_ms)
    by_ns = np.minimum(np.where(first, ended_ns, given.invoke_ns), _taken_back_ns(columns, context))
    of_brokers = brokers_stepped_ns(columns, context)[columns.names.stream_of_log[given.log]]
    since_ns = np.maximum.reduce([began_ns, sends.due_ns[send], _sent_back_ns(columns)])
    stored = _outside(stored_ns, since_ns, by_ns) & (given.invoke_ns < of_brokers)
    return {
        BORN: is_sent
        & (given.born_ms != UNKNOWN)
        & born
        & ~columns.names.internal_topic[given.topic],
        STORED: is_sent & (given.stored_ms != UNKNOWN) & stored,
    }


def _sent_back_ns(columns: Columns) -> Ints:
    """Return the earliest time in ns at which a member may have sent each dead letter back, shape (deliveries,).

    This is the time at which the first delivery to the same group with one try less began. It is -1 for deliveries that
    are not dead letters.
    """
    given = columns.deliveries
    found: Ints = np.full(len(given), -1, np.int64)
    is_dead = np.array([topic.startswith(DEAD) for topic in columns.names.topics], np.bool_)
    copies = np.flatnonzero(is_dead[given.topic] & (given.tries > 0))
    if not len(copies):
        return found
    rows = np.flatnonzero(is_among(given.message, np.unique(given.message[copies])))
    steps = given.message[rows], given.group[rows], given.tries[rows]
    made_of = given.message[copies], given.group[copies], given.tries[copies] - 1
    numbers = numbered(*(np.concatenate(pair) for pair in zip(steps, made_of, strict=True)))
    first_ns = np.full(int(numbers.max()) + 1, FOREVER_NS)
    np.minimum.at(first_ns, numbers[: len(rows)], given.invoke_ns[rows])
    earliest_ns = first_ns[numbers[len(rows) :]]
    found[copies] = np.where(earliest_ns == FOREVER_NS, -1, earliest_ns)
    return found


def _taken_back_ns(columns: Columns, context: Context) -> Ints:
    """Return the time in ns by which brokers had confirmed that they have each dead letter, shape (deliveries,).

    It is FOREVER_NS for other deliveries, and if a member that received the previous try reports no such answer.
    """
    given, names = columns.deliveries, columns.names
    found: Ints = np.full(len(given), FOREVER_NS, np.int64)
    home = [log.home for log in names.logs]
    is_dead = np.array([topic.startswith(DEAD) for topic in names.topics], np.bool_)
    copies = np.flatnonzero(is_dead[given.topic] & (given.tries > 0))
    rows = np.flatnonzero(is_among(given.message, np.unique(given.message[copies])))
    columns_of_step = (given.message[rows], given.group[rows], given.tries[rows])
    steps = Counter(zip(*(column.tolist() for column in columns_of_step), strict=True))
    for row in copies.tolist():
        message, group, tries = (
            int(of[row]) for of in (given.message, given.group, given.tries - 1)
        )
        reported = [
            of
            for of in context.timeline.sent_back.get(names.key(message) or "", ())
            if (of.group, of.tries) == (names.groups[group], tries)
        ]
        if (
            reported
            and len(reported) == steps[message, group, tries]
            and all(of.is_clear and _is_at_once(of, home[given.log[row]]) for of in reported)
        ):
            found[row] = max(of.time_ns for of in reported)
    return found


def _is_at_once(sent_back: SentBack, home: str) -> bool:
    """Whether no request of this send-back can reach the broker `home` after the answer to it."""
    is_elsewhere = home not in ("", sent_back.broker)
    return sent_back.by_broker or (is_elsewhere and sent_back.attempts == 1)


def _outside(at_ns: Ints, since_ns: Ints, until_ns: Ints) -> Mask:
    found: Mask = (at_ns < since_ns - ROUGHNESS_NS) | (at_ns > until_ns + ROUGHNESS_NS)
    return found


def _of_producers(columns: Columns, context: Context, stepped: dict[str, int]) -> Ints:
    """Return the time in ns from which on the clock of the producer of each send may be wrong, shape (sends,)."""
    processes, which = np.unique(columns.sends.process, return_inverse=True)
    servers = {node for nodes in context.facts.replica_sets.values() for node in nodes}
    of_any = min(
        (at_ns for node, at_ns in stepped.items() if node not in servers), default=FOREVER_NS
    )
    nodes = (context.timeline.nodes.get(process) for process in processes.tolist())
    by_process = [of_any if node is None else stepped.get(node, FOREVER_NS) for node in nodes]
    found: Ints = np.array(by_process, np.int64)[which]
    return found


def _finding(columns: Columns, context: Context, anomaly: str, row: int) -> Finding:
    given, epoch_ms = columns.deliveries, context.facts.wall_epoch_ms
    assert epoch_ms is not None
    what, at_ms = ("born", given.born_ms) if anomaly == BORN else ("stored", given.stored_ms)
    at_s = (int(at_ms[row]) - epoch_ms) / 1000
    return finding_at(
        columns,
        given,
        row,
        anomaly=anomaly,
        judgement=judge(context.facts.mode, anomaly),
        detail=f"{what} at t={at_s:.3f}s by its contents, which its send and its delivery rule out",
        group=columns.names.groups[given.group[row]],
        at_invocation=True,
    )


MESSAGE_TIMES = Kernel(
    name="message_times",
    partition_by="message",
    screened=True,
    anomalies=(BORN, STORED),
    partial=tally_message_times,
    unknown_reason=nothing_missing,
    more_candidates=odd_times,
)
