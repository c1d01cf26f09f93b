"""Times of commits: a member commits soon after it has finished messages, and before it gives up the queue or stops.

**commit_late**: the listener of a member had finished a message, and afterwards the member did not commit an offset of
the queue

* within the interval of commits and the time of a request, although it kept the queue;
* before it gave the queue up, and another member took it;
* until the end of its process after a request to stop.

If the member crashes or another one takes the queue, messages since its last commit come again. `offsets` judges which
offset it commits. Allowed while a fault keeps the member from the broker of the queue, and for two requests afterwards
(excuse_table.py). Until the member asks for routes again, it may not know that the broker is back (`broker_unknown`).
It knows that if it received a message that was sent after the fault, or if it has reported since that it sends commits
to the broker. A member of a broadcasting group need not know it, because it saves its offsets itself. A fault that may
leave the queue without an owner (`queue_unowned`) allows it in the same way for a member that gives the queue up, and
always for a member of an orderly group, because it may lack the lock. A member that gives up a queue of an orderly
group waits for its listener, and commits after its report.

Cannot see: members on nodes that never report to which brokers they commit (in a broadcasting group: that report no
commit of the queue); groups whose members choose their queues, because there the application commits; messages that a
member had finished when it was killed.

Source: MQClientInstance (persistAllConsumerOffset, every 5 s), RebalancePushImpl (removeUnnecessaryMessageQueue) and
DefaultMQPushConsumerImpl (shutdown) of Apache RocketMQ 4.9. Jepsen does not judge when a consumer commits.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from staticfire.checkers.engine.kernel import (
    Context,
    Kernel,
    Split,
    finding_at,
    nothing_missing,
    rows_by_id,
)
from staticfire.checkers.groups.groups import Owned, QueueOfGroup, owned_while_watched
from staticfire.checkers.guarantees.excuses.excuses import Window
from staticfire.checkers.guarantees.excuses.seconds import two_requests
from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.guarantees.fault_effects import FORGETS, STOPS
from staticfire.checkers.guarantees.fault_times import began_ns, healed_ns
from staticfire.checkers.guarantees.promises import FOREVER_NS, NS_PER_S, judge
from staticfire.checkers.guarantees.verdict import Finding, Tally, seconds
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Chunk,
    Columns,
    Commits,
    Ints,
    Mask,
    Outcome,
)
from staticfire.checkers.model.intervals import Span, joined
from staticfire.checkers.model.timeline import Ownership

# Names of rows in the table of excuses.
COMMIT_LATE = "commit_late"
UNKNOWN_BROKER = "broker_unknown"  # for a member that may not know that the broker is back
UNOWNED = "queue_unowned"  # for a member that may not know the broker, or may lack the lock
STOPPED_WITHIN_NS = 2 * NS_PER_S  # time in which a process commits after a request to stop


def tally_commit_times(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole queues (partition key: log)."""
    return Tally.of(_findings(columns, context, columns.commits))


def scan_commit_times(columns: Columns, context: Context, chunk: Chunk) -> Tally:
    """Judge the deliveries of a chunk of a queue by the commits of the whole queue."""
    return Tally.of(_findings(columns, context, chunk.commits))


def conclude_commit_times(state: Tally, _columns: Columns, _context: Context) -> Tally:
    return state


def _findings(columns: Columns, context: Context, commits: Commits) -> Iterator[Finding]:
    names, given = columns.names, columns.deliveries
    owned = owned_while_watched(context)
    finished = np.flatnonzero((given.outcome == Outcome.OK) & (given.log != UNKNOWN))
    streams = given.log[finished] * len(names.groups) + given.group[finished]
    for _, at in rows_by_id(streams):
        rows = finished[at]
        queue, group = int(given.log[rows[0]]), int(given.group[rows[0]])
        mine = commits.where(np.flatnonzero((commits.log == queue) & (commits.group == group)))
        pair = names.groups[group], names.logs[queue]
        if pair not in owned:
            continue
        stream, nodes = _Stream(columns, context, pair), _reporting(context, pair[0], mine)
        sent_ns = _sent_ns(columns, queue, rows)
        for processes, of_one in rows_by_id(given.process[rows]):
            if _node(context, int(processes[0])) in nodes:
                yield from stream.of_member(rows[of_one], sent_ns[of_one], mine)


def _sent_ns(columns: Columns, queue: int, rows: Ints) -> Ints:
    """Return the invocation time of the send of each delivery of a queue, or UNKNOWN; shape of `rows`."""
    sends, given = columns.sends, columns.deliveries
    stored = np.flatnonzero((sends.log == queue) & (sends.queue_offset != UNKNOWN))
    if not len(stored):
        return np.full(len(rows), UNKNOWN, np.int64)
    stored = stored[np.lexsort((sends.invoke_ns[stored], sends.queue_offset[stored]))]
    at = np.searchsorted(sends.queue_offset[stored], given.queue_offset[rows])
    row = stored[np.minimum(at, len(stored) - 1)]
    is_sent = sends.queue_offset[row] == given.queue_offset[rows]
    is_sent &= sends.message[row] == given.message[rows]
    return np.where(is_sent, sends.invoke_ns[row], UNKNOWN)


def _reporting(context: Context, group: str, commits: Commits) -> Collection[str | int]:
    """Return the nodes on which members of a group commit on their own, and report that they do.

    `commits` are those of the group to a queue. If the node of a process is not known, its number stands for it.
    """
    if group in context.facts.assigned:
        return ()
    if group in context.facts.broadcasting:
        processes = np.unique(commits.process).tolist()
    else:
        processes = [process for name, _, process in context.timeline.commits_to if name == group]
    return {_node(context, process) for process in processes}


def _node(context: Context, process: int) -> str | int:
    return context.timeline.nodes.get(process, process)


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class _Finished:
    """The messages of a queue that one process finished; arrays have shape (messages,)."""

    process: int
    row: Ints
    op_index: Ints
    time_ns: Ints
    sent_ns: Ints  # invocation of the send; UNKNOWN: no send is known
    # op index and time of the next commit of the process; FOREVER_NS: there is none
    next_index: Ints
    next_ns: Ints


class _Stream:
    """A queue as one group consumes it."""

    def __init__(self, columns: Columns, context: Context, pair: QueueOfGroup) -> None:
        self._columns, self._context, self._pair = columns, context, pair
        timings = context.facts.timings
        self._bound_ns = int((timings.commit_s + timings.request_s) * NS_PER_S)
        self._settled_ns = int(two_requests(timings) * NS_PER_S)  # after a fault
        self._changes = context.timeline.ownership[pair]

    def of_member(self, rows: Ints, sent_ns: Ints, commits: Commits) -> Iterator[Finding]:
        """Judge the messages that one process finished; `commits` are those of the group to the queue."""
        given = self._columns.deliveries
        process = int(given.process[rows[0]])
        own = commits.where(np.flatnonzero(commits.process == process))
        own = own.where(np.argsort(own.op_index, kind="stable"))
        following = np.searchsorted(own.op_index, given.op_index[rows], side="right")
        finished = _Finished(
            process=process,
            row=rows,
            op_index=given.op_index[rows],
            time_ns=given.time_ns[rows],
            sent_ns=sent_ns,
            next_index=np.append(own.op_index, FOREVER_NS)[following],
            next_ns=np.append(own.time_ns, FOREVER_NS)[following],
        )
        for one in owned_while_watched(self._context)[self._pair]:
            if one.process == process:
                yield from self._of_tenure(finished, one)

    def _of_tenure(self, finished: _Finished, tenure: Owned) -> Iterator[Finding]:
        """Judge the messages that a process finished while it owned the queue."""
        span = tenure.span
        within = (finished.time_ns >= span.start_ns) & (finished.time_ns <= span.end_ns)
        due_ns = finished.time_ns + self._bound_ns
        late = within & (due_ns < span.end_ns) & (finished.next_ns > due_ns)
        late &= ~self._excused(finished, finished.time_ns, due_ns)
        what = f"committed nothing of the queue for {seconds(self._bound_ns)}"
        yield from self._report(finished, late, what)
        loss, stop = self._loss(tenure), self._stop(tenure)
        if loss is not None:
            left = within & ~late & (finished.op_index < loss.op_index)
            left &= finished.next_index > loss.op_index
            at_ns = np.full(len(left), loss.time_ns, np.int64)
            left &= ~self._excused(finished, at_ns, at_ns, leaves=True)
            yield from self._report(finished, left, "gave the queue up without a commit")
        elif stop is not None:
            asked_ns = began_ns(stop)
            left = within & ~late & (finished.time_ns < asked_ns) & (finished.next_ns == FOREVER_NS)
            at_ns = np.full(len(left), asked_ns, np.int64)
            until_ns = at_ns + STOPPED_WITHIN_NS
            left &= ~self._excused(finished, at_ns, until_ns, but=stop)
            yield from self._report(finished, left, "stopped without a commit")

    def _loss(self, tenure: Owned) -> Ownership | None:
        """Return the change by which a process gave the queue up to another member; None if it need not commit then."""
        group, facts = self._pair[0], self._context.facts
        if group in facts.orderly or group in facts.broadcasting:
            return None
        lost = next(
            (
                of
                for of in self._changes
                if of.process == tenure.process and of.op_index > tenure.op_index
            ),
            None,
        )
        if lost is None or lost.change != "lost" or lost.time_ns > tenure.span.end_ns:
            return None
        near_ns = int(facts.timings.rebalance_s * NS_PER_S)
        is_taken = any(
            of.change == "gained"
            and of.process != tenure.process
            and abs(of.time_ns - lost.time_ns) < near_ns
            for of in self._changes
        )
        return lost if is_taken else None

    def _stop(self, tenure: Owned) -> FaultFacts | None:
        """Return the request to stop by which a tenure ended; None if it was a kill, or also stopped a replica."""
        node = self._context.timeline.nodes.get(tenure.process)
        stops = (
            fault
            for fault in self._context.facts.faults
            if node in fault.targets and STOPS in fault.effects and fault.bitten_ns is not None
            if tenure.span.start_ns < began_ns(fault) == tenure.span.end_ns
        )
        stop = next(stops, None)
        replicas = self._context.facts.replica_sets.get(self._pair[1].stream, ())
        if stop is None or FORGETS in stop.effects or not set(replicas).isdisjoint(stop.targets):
            return None
        return stop

    def _excused(
        self,
        finished: _Finished,
        since_ns: Ints,
        until_ns: Ints,
        *,
        leaves: bool = False,
        but: FaultFacts | None = None,
    ) -> Mask:
        """Whether a fault may keep a process from committing in a part of each time, shape (messages,).

        Args:
            finished: the messages.
            since_ns: the begin of each time.
            until_ns: the end of each time.
            leaves: the process gives the queue up at this time.
            but: a fault that does not count.
        """
        group, facts = self._pair[0], self._context.facts
        rows = [COMMIT_LATE, *([UNOWNED] if group in facts.orderly else [])]
        known = [UNKNOWN_BROKER, *([UNOWNED] if leaves else [])]
        spans = joined(
            Span(window.start_ns, window.end_ns)
            for window in self._windows(finished.process, rows, but)
        )
        starts = np.array([span.start_ns for span in spans] + [FOREVER_NS], np.int64)
        ends = np.array([span.end_ns for span in spans], np.int64)
        found: Mask = starts[np.searchsorted(ends, since_ns)] <= until_ns
        if group in facts.broadcasting:
            return found
        for window in self._windows(finished.process, known, but):
            near = (window.start_ns <= until_ns) & (window.end_ns >= since_ns)
            found |= near & ~self._used_since(finished, healed_ns(window.fault), since_ns)
        return found

    def _windows(
        self, process: int, rows: Collection[str], but: FaultFacts | None
    ) -> Iterator[Window]:
        """Yield the windows of faults, except `but`, for a process and the broker of the queue."""
        node, broker = self._context.timeline.nodes.get(process), self._pair[1].stream
        for anomaly in rows:
            for window in self._context.excuses.windows(anomaly, broker, (node,)):
                if but is None or window.fault.fault_id != but.fault_id:
                    yield window

    def _used_since(self, finished: _Finished, healed_at_ns: int, until_ns: Ints) -> Mask:
        """Whether the history shows that a process used the broker between the end of a fault and each time.

        It does so for each message that was sent after the fault, because the process fetched it from the broker.
        """
        after_ns = healed_at_ns + self._settled_ns
        pair = self._pair[0], self._pair[1].stream, finished.process
        sent_to = self._context.timeline.commits_to.get(pair, ())
        first_ns = min((one.time_ns for one in sent_to if one.time_ns > after_ns), default=None)
        received: Mask = finished.sent_ns > after_ns
        return received if first_ns is None else received | (until_ns >= first_ns)

    def _report(self, finished: _Finished, which: Mask, what: str) -> Iterator[Finding]:
        for row in finished.row[which].tolist():
            yield finding_at(
                self._columns,
                self._columns.deliveries,
                row,
                anomaly=COMMIT_LATE,
                judgement=judge(self._context.facts.mode, COMMIT_LATE),
                detail=f"process {finished.process} had finished it, and {what}",
                group=self._pair[0],
            )


COMMIT_TIMES = Kernel(
    name="commit_times",
    partition_by="log",
    anomalies=(COMMIT_LATE,),
    partial=tally_commit_times,
    unknown_reason=nothing_missing,
    split=Split(scan_commit_times, conclude_commit_times),
)
