"""Batches: the messages of one request are neighbours in one queue, in the order of the request.

**torn_batch**: two messages of an acknowledged request are in its order, but not as far apart as in the request:
another message lies between them, or one is missing. Or no way of storing a request with unknown outcome explains the
positions of two of its messages that were delivered. An attempt stores the request as a whole, or only its beginning if
a crash cuts the log. A later attempt stores it above the messages of an earlier one. Overlapping positions of several
attempts are allowed if the log may have lost its end between them, because the broker then used positions again.

A request is the sends of one process that began at one time and were in flight together, because a process has only one
request in flight at a time. The distance of two messages in a request is the difference of their key numbers. It must
equal the difference of their invocation indices, unless one op sent all of them.

Cannot see: missing first or last messages of a request with unknown outcome; a hole within such a request; requests
whose keys do not ascend one by one, or whose invocations are not consecutive.

Source: CommitLog.putMessages of Apache RocketMQ 4.9, which numbers and appends a batch under one lock.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from staticfire.checkers.engine.kernel import Checker, Context, finding_at, some_rows
from staticfire.checkers.engine.screening import is_among, with_deliveries
from staticfire.checkers.guarantees.promises import NS_PER_S, Damage, Judgement, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, Verdict
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask, MessageEvents, Outcome

ANOMALY = "torn_batch"


def batch_rows(columns: Columns, _context: Context) -> Columns:
    """Select the sends of requests that are torn, have an unknown outcome, or may continue in another chunk."""
    acked = _acked(columns.sends)
    lower, upper = _torn_pairs(columns.sends, acked)
    ends = acked[:0] if columns.chunk is None else _ends_of_processes(columns.sends, acked)
    rows = np.concatenate((lower, upper, ends, _of_unknown_batches(columns.sends)))
    return some_rows(columns, sends=np.unique(rows))


def batch_deliveries(columns: Columns, context: Context, gathered: Columns) -> Columns:
    """Select the same sends, with the deliveries of those with unknown outcome; `gathered` is the first selection."""
    sends = gathered.sends
    unknown = sends.message[_of_unknown_batches(sends)]
    return with_deliveries(batch_rows(columns, context), columns, unknown)


def check_batches(columns: Columns, context: Context) -> Verdict:
    """Judge acknowledged requests by their answers, and requests with unknown outcome by their deliveries."""
    tally = Tally.of([*_acked_apart(columns, context), *_unknown_apart(columns, context)])
    return Verdict(
        checker="batches",
        valid=ANOMALY not in tally.counts,
        counts=tally.counts,
        findings=tally.findings,
    )


def _acked(sends: MessageEvents) -> Ints:
    """Return rows of sends that a broker answered with a position, sorted by queue and request, in request order."""
    placed = (sends.outcome <= Outcome.WEAK) & (sends.log != UNKNOWN) & (sends.queue_offset >= 0)
    return _by_request(sends, np.flatnonzero(placed))


def _by_request(sends: MessageEvents, rows: Ints) -> Ints:
    names = ("message", "invoke_index", "invoke_ns", "process", "log")
    ordered: Ints = rows[np.lexsort([getattr(sends, name)[rows] for name in names])]
    return ordered


def _together(sends: MessageEvents, lower: Ints, upper: Ints) -> Mask:
    """Whether each pair of rows is of one request to one queue, and has consistent keys and invocations."""
    begun, ended = sends.invoke_index, sends.op_index
    never_ended = ended[lower] == begun[lower]
    together = never_ended | (begun[upper] < ended[lower])
    for name in ("log", "process", "invoke_ns"):
        together &= getattr(sends, name)[lower] == getattr(sends, name)[upper]
    invocations = begun[upper] - begun[lower]
    known: Mask = together & ((invocations == 0) | (invocations == _apart(sends, lower, upper)))
    return known


def _apart(sends: MessageEvents, lower: Ints, upper: Ints) -> Ints:
    """Return the distance of each pair of rows in their request."""
    return sends.message[upper] - sends.message[lower]


def _torn_pairs(sends: MessageEvents, acked: Ints) -> tuple[Ints, Ints]:
    """Return pairs of neighbours in a request whose offsets ascend by another distance than in the request."""
    lower, upper = acked[:-1], acked[1:]
    up = sends.queue_offset[upper] - sends.queue_offset[lower]
    torn = _together(sends, lower, upper) & (up > 0) & (up != _apart(sends, lower, upper))
    torn &= sends.time_ns[lower] == sends.time_ns[upper]
    return lower[torn], upper[torn]


def _ends_of_processes(sends: MessageEvents, acked: Ints) -> Ints:
    """Return the lowest and the highest message of each process, whose requests may continue in another chunk."""
    rows = acked[np.lexsort((sends.queue_offset[acked], sends.process[acked]))]
    process = sends.process[rows]
    first = np.diff(process, prepend=-2) != 0
    last = np.diff(process, append=-2) != 0
    ends: Ints = rows[first | last]
    return ends


def _of_unknown_batches(sends: MessageEvents) -> Ints:
    """Return rows of requests with several messages and unknown outcome, sorted by request, in request order."""
    rows = _by_request(sends, np.flatnonzero(sends.outcome == Outcome.UNKNOWN))
    pairs = _together(sends, rows[:-1], rows[1:])
    several = np.zeros(len(rows), np.bool_)
    several[:-1] |= pairs
    several[1:] |= pairs
    found: Ints = rows[several]
    return found


def _acked_apart(columns: Columns, context: Context) -> Iterator[Finding]:
    sends = columns.sends
    lower, upper = _torn_pairs(sends, _acked(sends))
    apart = _apart(sends, lower, upper)
    for one, other, positions in zip(lower.tolist(), upper.tolist(), apart.tolist(), strict=True):
        key, offset = columns.names.key(int(sends.message[one])), sends.queue_offset[one]
        yield finding_at(
            columns,
            sends,
            other,
            anomaly=ANOMALY,
            judgement=judge(context.facts.mode, ANOMALY),
            detail=f"in its request it was {positions} behind key {key}, which got offset {offset}",
            other=int(sends.message[one]),
        )


def _unknown_apart(columns: Columns, context: Context) -> Iterator[Finding]:
    """Yield one finding for each request and queue with positions that no attempts can have produced."""
    sends = columns.sends
    rows = _of_unknown_batches(sends)
    cuts = 1 + np.flatnonzero(~_together(sends, rows[:-1], rows[1:]))
    for request in np.split(rows, cuts) if len(rows) else ():
        first = np.full(len(request), request[0])
        numbers = dict(
            zip(
                sends.message[request].tolist(),
                _apart(sends, first, request).tolist(),
                strict=True,
            )
        )
        yield from _of_request(columns, context, int(request[0]), numbers)


def _of_request(
    columns: Columns, context: Context, row: int, numbers: dict[int, int]
) -> Iterator[Finding]:
    """Yield the findings of one request: `row` is its first send, `numbers` the place of each message id in it."""
    deliveries, sends = columns.deliveries, columns.sends
    theirs = is_among(deliveries.message, np.unique(np.array([*numbers], np.int64)))
    theirs &= (deliveries.topic == sends.topic[row]) & (deliveries.queue_offset >= 0)
    given = np.flatnonzero(theirs)
    number = np.array([numbers[of] for of in deliveries.message[given].tolist()], np.int64)
    begins = deliveries.queue_offset[given] - number
    order = np.lexsort((deliveries.op_index[given], deliveries.queue_offset[given], begins))
    order = order[np.argsort(deliveries.log[given][order], kind="stable")]
    given, begins = given[order], begins[order]
    for log in np.unique(deliveries.log[given]).tolist():
        here = np.flatnonzero(deliveries.log[given] == log)
        steps = 1 + np.flatnonzero(np.diff(begins[here]))
        # `at` is the first delivery of each attempt; the one before it is the last delivery of an earlier attempt.
        for at in steps.tolist():
            earlier, later = int(given[here[at - 1]]), int(given[here[at]])
            is_one = sends.tries[row] == 1
            if is_one or begins[here[at]] <= deliveries.queue_offset[earlier]:
                yield _overlapping(columns, context, row, earlier, later)
                break


def _overlapping(columns: Columns, context: Context, row: int, earlier: int, later: int) -> Finding:
    deliveries = columns.deliveries
    sends, broker = columns.sends, columns.names.logs[int(deliveries.log[later])].stream
    # The latest time at which an attempt can arrive.
    sent_ns = int(sends.time_ns[row] + context.facts.timings.request_s * NS_PER_S)
    lost = sends.tries[row] != 1 and context.promises.damaged(
        broker,
        at_least=Damage.WRITE_ERROR,
        since_ns=int(sends.invoke_ns[row]),
        until_ns=min(sent_ns, int(deliveries.invoke_ns[[earlier, later]].max())),
    )
    key = columns.names.key(int(deliveries.message[earlier]))
    return finding_at(
        columns,
        deliveries,
        later,
        anomaly=ANOMALY,
        judgement=Judgement.ALLOWED if lost else judge(context.facts.mode, ANOMALY),
        detail=(
            f"key {key} of the same request, at offset {deliveries.queue_offset[earlier]}, is not as far away as in it"
        ),
        group=columns.names.groups[deliveries.group[later]],
        at_invocation=True,
        other=int(deliveries.message[earlier]),
    )


BATCHES = Checker(
    name="batches",
    anomalies=(ANOMALY,),
    check=check_batches,
    rows=batch_rows,
    rows_again=batch_deliveries,
)
