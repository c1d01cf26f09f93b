"""Polls: an owner is given the messages of a queue one after the other; it skips none and never goes back.

An owner is a process between two of its assignments. What it is given is compared with what it was given before; its
first delivery is compared with the offset that the group had committed by then.

**poll_skip**: an acknowledged message between the two, which its group had not been given before, was passed over; at
the start of an owner: between the committed offset and the first delivery. Excused as its loss would be, and where
retention deleted it. **nonmonotonic_poll**: the owner was given an offset that is not above the one before, and not
because its listener had not finished it. Allowed when the group had not committed it; a fault nearby makes it
informational. **int_poll_skip**, **int_nonmonotonic_poll**: the same within one call of the listener, where nothing
is a reason to go back.

Cannot see: skips of messages whose send was not acknowledged, or that the broker kept back, and of groups that need not
see the topic; where a group without any committed offset should have begun; what a broadcasting group starts with, as
its members keep their offsets. That a message was skipped for good is the business of `loss`.

Source: Jepsen (redpanda, workload/queue.clj: poll-skip, nonmonotonic-poll and their int- forms), which excuses all
groups; here commits and assignments are known.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Mask, Outcome, Transaction
from checkers.kernel import Context, Kernel, finding_at, nothing_missing
from checkers.place_index import PlaceIndex, index_of, number_runs, stream_ids
from checkers.promises import Judgement
from checkers.unrest import fault_near
from checkers.verdict import Finding, Tally

NOBODY = -1


def tally_polls(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole message queues (partition key: queue)."""
    polls = _Polls(columns, context)
    findings = (
        finding for at, before in polls.out_of_step() for finding in polls.judge(at, before)
    )
    return Tally.of(findings, polled=len(columns.deliveries))


class _Polls:
    """The deliveries of some queues, stream by stream in the order of calls. Positions are in that order."""

    def __init__(self, columns: Columns, context: Context) -> None:
        self._columns, self._context = columns, context
        self._index: PlaceIndex = index_of(columns)
        self._streams = self._index.streams
        self._visits_of: dict[int, tuple[Ints, Ints]] = {}

    def out_of_step(self) -> Iterator[tuple[int, int]]:
        """Positions that do not follow the one before by one, and the one that the same process had before."""
        deliveries, streams = self._columns.deliveries, self._streams
        if not len(deliveries):
            return
        rows = slice(None) if streams.rows is None else streams.rows
        offset, process = deliveries.queue_offset[rows], deliveries.process[rows]
        new_run = (process[1:] != process[:-1]) | (streams.number[1:] != streams.number[:-1])
        odd = np.flatnonzero(new_run | (offset[1:] != offset[:-1] + 1)) + 1
        before = odd - 1
        starts = np.concatenate(([0], np.flatnonzero(new_run) + 1))
        before[new_run[odd - 1]] = self._last_of_same(starts, process)[1:]
        yield 0, NOBODY
        yield from zip(odd.tolist(), before.tolist(), strict=True)

    def _last_of_same(self, starts: Ints, process: Ints) -> Ints:
        """For each run of one process in one stream: where the process's run before that ended, or NOBODY."""
        ends = np.append(starts[1:], len(process)) - 1
        order = np.lexsort((starts, process[starts], self._streams.number[starts]))
        by_owner = starts[order]
        same = (process[by_owner[1:]] == process[by_owner[:-1]]) & (
            self._streams.number[by_owner[1:]] == self._streams.number[by_owner[:-1]]
        )
        last = np.full(len(starts), NOBODY, np.int64)
        last[order[1:][same]] = ends[order[:-1][same]]
        return last

    def judge(self, at: int, before: int) -> Iterator[Finding]:
        row = self._row(at)
        deliveries = self._columns.deliveries
        offset = int(deliveries.queue_offset[row])
        if before == NOBODY or not self._same_term(row, self._row(before)):
            committed = self._committed(row)
            if committed is not None and committed < offset:
                yield from self._skipped(
                    at, committed, f"began at {offset}; the group's offset was {committed}"
                )
            return
        last = int(deliveries.queue_offset[self._row(before)])
        inside = deliveries.invoke_index[row] == deliveries.invoke_index[self._row(before)]
        if offset <= last:
            yield from self._went_back(at, before, inside)
        else:
            yield from self._skipped(at, last + 1, f"was given {offset} after {last}", inside)

    def _row(self, at: int) -> int:
        rows = self._streams.rows
        return at if rows is None else int(rows[at])

    def _same_term(self, row: int, earlier: int) -> bool:
        """Whether the process was not assigned anew between two of its deliveries."""
        called = self._columns.deliveries.invoke_index
        process = int(self._columns.deliveries.process[row])
        assigned = self._context.timeline.assignments.get(process, ())
        return bisect_right(assigned, called[earlier]) == bisect_right(assigned, called[row])

    def _committed(self, row: int) -> int | None:
        """The offset that the group had committed when this row's listener was called."""
        deliveries, commits = self._columns.deliveries, self._columns.commits
        queue, group = int(deliveries.queue[row]), int(deliveries.group[row])
        rows = self._commit_rows.get((queue, group))
        if rows is None or self._columns.names.groups[group] in self._context.facts.broadcasting:
            return None
        known = int(np.searchsorted(commits.op_index[rows], deliveries.invoke_index[row]))
        return int(commits.offset[rows[known - 1]]) if known else None

    @cached_property
    def _commit_rows(self) -> dict[tuple[int, int], Ints]:
        """Rows of commits by queue and group, in the order of ops."""
        commits = self._columns.commits
        order = np.lexsort((commits.op_index, commits.group, commits.queue))
        _, starts = number_runs(stream_ids(self._columns, commits)[order])
        runs = (order[start:stop] for start, stop in pairwise(starts.tolist()))
        return {(int(commits.queue[run[0]]), int(commits.group[run[0]])): run for run in runs}

    def _skipped(
        self, at: int, first_offset: int, what: str, inside: bool = False
    ) -> Iterator[Finding]:
        """Report acknowledged messages from `first_offset` on, below this position, that the group did not have."""
        row = self._row(at)
        sends = self._columns.sends
        skipped = self._acked_between(row, first_offset)
        group = self._columns.names.groups[self._columns.deliveries.group[row]]
        if len(skipped) and group in self._context.facts.wanted_tags:
            matching = self._context.matches(self._columns, sends.where(skipped), group)
            skipped = skipped[matching]
        if len(skipped):
            skipped = skipped[~self._given_before(at, skipped)]
        if not len(skipped):
            return
        key = self._columns.names.key(int(sends.message[skipped[0]]))
        detail = (
            f"process {self._columns.deliveries.process[row]} {what}: {len(skipped)} skipped, first key {key} "
            f"at offset {sends.queue_offset[skipped[0]]}"
        )
        yield self._finding(row, "poll_skip", inside, self._judge_skip(skipped), detail)

    def _acked_between(self, row: int, first_offset: int) -> Ints:
        """Rows of acknowledged sends below a delivery, from an offset on, that its group must see."""
        deliveries, names = self._columns.deliveries, self._columns.names
        group, topic = names.groups[deliveries.group[row]], names.topics[deliveries.topic[row]]
        facts = self._context.facts
        if topic not in facts.groups.get(group, ()) or group in facts.broadcasting:
            return np.zeros(0, np.int64)
        queue = int(deliveries.queue[row])
        drain = self._context.timeline.drains_of(group, topic)
        end = None if drain is None else drain.ends.get(names.queues[queue])
        if end is not None:
            first_offset = max(first_offset, end.min_offset)
        rows, queues, offsets = self._acked
        start = int(np.searchsorted(queues, queue))
        stop = int(np.searchsorted(queues, queue, side="right"))
        of_queue = offsets[start:stop]
        bounds = np.searchsorted(of_queue, (first_offset, deliveries.queue_offset[row]))
        return rows[start + bounds[0] : start + bounds[1]]

    @cached_property
    def _acked(self) -> tuple[Ints, Ints, Ints]:
        """Rows of placed acknowledged sends by place, their queues and their offsets."""
        sends = self._columns.sends
        visible = (sends.outcome == Outcome.OK) & (sends.transaction == Transaction.NONE)
        rows = np.flatnonzero(visible & (sends.due_ns == UNKNOWN) & self._index.placed)
        rows = rows[np.argsort(self._index.send_place[rows], kind="stable")]
        return rows, sends.queue[rows], sends.queue_offset[rows]

    def _given_before(self, at: int, sends: Ints) -> Mask:
        """Which of some sends the group had been given, from where they were acknowledged, before a position."""
        place = self._index.send_place[sends]
        if place[0] > self._streams.highest[at]:
            return np.zeros(len(sends), np.bool_)
        places, visits = self._visits(int(self._streams.number[at]))
        found = np.minimum(np.searchsorted(places, place), len(places) - 1)
        given: Mask = (places[found] == place) & (visits[found] < at)
        return given

    def _visits(self, stream: int) -> tuple[Ints, Ints]:
        """The places that a stream was given, ascending, and at which positions: those of one place ascend."""
        if stream not in self._visits_of:
            start, stop = self._streams.starts[stream], self._streams.starts[stream + 1]
            places = self._streams.place[start:stop]
            order = np.argsort(places, kind="stable")
            self._visits_of[stream] = places[order], order + start
        return self._visits_of[stream]

    def _judge_skip(self, skipped: Ints) -> Judgement:
        """The strictest of what the loss of each of these messages would be."""
        sends = self._columns.sends
        broker = self._columns.names.queues[int(sends.queue[skipped[0]])].broker
        return self._context.promises.strictest(broker, sends.invoke_ns[skipped])

    def _went_back(self, at: int, before: int, inside: bool) -> Iterator[Finding]:
        deliveries = self._columns.deliveries
        row, last = self._row(at), self._row(before)
        earlier = self._last_given(at)
        if not inside and earlier is not None and self._retried(earlier, row):
            return
        judgement, why = self._judge_back(row, last, earlier, inside)
        offset, last_offset = deliveries.queue_offset[row], deliveries.queue_offset[last]
        detail = f"process {deliveries.process[row]} was given {offset} after {last_offset}: {why}"
        yield self._finding(row, "nonmonotonic_poll", inside, judgement, detail)

    def _retried(self, earlier: int, row: int) -> bool:
        """Whether a delivery is another attempt, because the listener did not finish the earlier one."""
        deliveries = self._columns.deliveries
        unfinished = deliveries.outcome[earlier] != Outcome.OK
        return bool(unfinished or deliveries.tries[row] > deliveries.tries[earlier])

    def _judge_back(
        self, row: int, last: int, earlier: int | None, inside: bool
    ) -> tuple[Judgement, str]:
        if inside:
            return Judgement.VIOLATION, "in one call"
        if earlier is None:
            return Judgement.VIOLATION, "the group had not had it yet"
        deliveries = self._columns.deliveries
        committed = self._committed(row)
        if committed is None or committed <= deliveries.queue_offset[row]:
            return Judgement.ALLOWED, "the group had not committed it"
        first_ns, last_ns = int(deliveries.invoke_ns[last]), int(deliveries.invoke_ns[row])
        fault = fault_near(self._context.facts.faults, first_ns, last_ns)
        if fault is not None:
            return Judgement.INFORMATIONAL, f"fault {fault.fault_id} ({fault.kind})"
        return Judgement.VIOLATION, f"the group had committed {committed}"

    def _last_given(self, at: int) -> int | None:
        """The row by which the group was given the same place before a position."""
        place = self._streams.place[at]
        places, visits = self._visits(int(self._streams.number[at]))
        start, stop = np.searchsorted(places, place), np.searchsorted(places, place, side="right")
        before = int(np.searchsorted(visits[start:stop], at))
        return self._row(int(visits[start + before - 1])) if before else None

    def _finding(
        self, row: int, anomaly: str, inside: bool, judgement: Judgement, detail: str
    ) -> Finding:
        columns = self._columns
        return finding_at(
            columns,
            columns.deliveries,
            row,
            anomaly=f"int_{anomaly}" if inside else anomaly,
            judgement=judgement,
            detail=detail,
            group=columns.names.groups[columns.deliveries.group[row]],
            at_invocation=True,
        )


POLLS = Kernel(
    name="polls",
    partition_by="queue",
    anomalies=("poll_skip", "int_poll_skip", "nonmonotonic_poll", "int_nonmonotonic_poll"),
    partial=tally_polls,
    unknown_reason=nothing_missing,
)
