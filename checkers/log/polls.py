"""Polls: an owner receives the messages of a queue one after the other; it skips none and never goes back.

An owner is a process from one gain of the queue to its next gain. An assignment that leaves the queue with its process
does not end the ownership. The checker compares each delivery of an owner with its previous one, and its first delivery
with the offset that the group had committed by then.

**poll_skip**: the owner skipped a stored message between the two that its group had not received before. For the first
delivery of an owner, "the two" are the committed offset and that delivery. A message counts as stored if it was
acknowledged, or if any group received it, for any outcome of its send. Excused like the loss of an acknowledged
message, from the time of its send (without an acknowledgement: from its first delivery), and if retention deleted it.
An offset between two deliveries of one owner that its reader never received also counts, even if no known message has
it: a queue has no holes in its offsets, and a cut of the log removes only its end. Excused like the loss of a message
that a consumer had received by the earlier delivery, and if a fault changed a record of the broker between the two.
**nonmonotonic_poll**: the owner received an offset that is not above the previous one, although its listener had
finished the previous one. Allowed if the group had not committed it. Informational if excuse_table.py explains it and
the owner continued from there, as far as members report their queues: a member whose offset is set back also pulls the
following messages again. **int_poll_skip**, **int_nonmonotonic_poll**: the same within one call, where a member has no
reason to go back.

In a broadcasting group, and in one whose members choose their positions themselves, each member has its own position,
so deliveries to other members explain nothing. If members choose their positions, a poll that did not succeed leaves
the position unchanged.

A group with a filter may skip messages that it does not want. Before the first member can have subscribed with another
filter (fault `filter_change`), those are the messages that the first filter excludes.

Cannot see: other skips of messages that a group wanted under one of two filters; skips, at the start of an owner and in
queues that were not drained, of messages that were not acknowledged and that no group received; skips of groups that
need not read the topic; where a group without any committed offset should have started; where a member of a
broadcasting group starts, because it keeps its own offset. `loss` judges whether a skipped message never came.

Source: Jepsen (redpanda, workload/queue.clj: poll-skip, nonmonotonic-poll and their int- forms), which excuses all
groups; here commits and assignments are known.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from itertools import pairwise

import numpy as np

from staticfire.checkers.derived.own_positions import NONE_BEFORE, steps_of_members
from staticfire.checkers.derived.reset_returns import SENT_BACK
from staticfire.checkers.derived.settled import redelivered_only_after_reset, set_back_by
from staticfire.checkers.derived.stored_messages import StoredMessages
from staticfire.checkers.engine.kernel import Context, Kernel, Split, finding_at, nothing_missing
from staticfire.checkers.engine.position_index import (
    PositionIndex,
    index_of,
    number_runs,
    stream_id,
    stream_ids,
)
from staticfire.checkers.guarantees.promises import Judgement
from staticfire.checkers.guarantees.verdict import Finding, Tally
from staticfire.checkers.log.poll_cut_points import PollCutPoint, PollsInChunks, Question
from staticfire.checkers.log.poll_holes import (
    Gaps,
    Given,
    Hole,
    first_position,
    gaps_between,
    has_gap,
    judge_hole,
)
from staticfire.checkers.model.columns import Chunk, Columns, Ints, Mask, MessageEvents, Outcome

ANY_PROCESS = -1
BEFORE_ALL_NS = -(1 << 62)


def tally_polls(columns: Columns, context: Context) -> Tally:
    """Judge the deliveries of whole queues (partition key: log)."""
    polls = _Polls(columns, context)
    findings = (
        finding for at, before in polls.out_of_step() for finding in polls.judge(at, before)
    )
    return Tally.of(findings, polled=len(columns.deliveries))


def scan_polls(columns: Columns, context: Context, chunk: Chunk) -> PollsInChunks:
    """Judge the deliveries of a chunk of a queue; make questions of those that may depend on lower chunks."""
    polls = _Polls(replace(columns, commits=chunk.commits, cache=columns.cache), context)
    findings: list[Finding] = []
    questions: list[Question] = []
    for at, before in polls.out_of_step():
        if chunk.number and polls.reads_below(at, before, chunk):
            questions.append(polls.question(at, before, chunk))
        else:
            findings.extend(polls.judge(at, before))
    cut_point = PollCutPoint(
        number=chunk.number,
        questions=tuple(questions),
        last=polls.last_rows(),
        unread=polls.unread(chunk),
        given=polls.given(),
    )
    tally = Tally.of(findings, polled=len(columns.deliveries))
    return PollsInChunks(tally=tally, cut_points=(cut_point,))


def conclude_polls(state: PollsInChunks, columns: Columns, context: Context) -> Tally:
    """Judge the questions of all chunks of a queue, and return the tally of the queue."""
    findings = [
        skip_finding(columns, context, skip.given, skip.skipped, skip.what, skip.inside)
        for skip in state.skips(columns, context)
    ]
    findings += [hole_finding(columns, context, hole) for hole in state.holes(columns, context)]
    return state.tally.merge(Tally.of(findings))


class _Polls:
    """The deliveries of some queues, stream by stream in the order of calls.

    `at` and `before` are indices in this order, or NONE_BEFORE.
    """

    def __init__(self, columns: Columns, context: Context) -> None:
        self._columns, self._context = columns, context
        self._index: PositionIndex = index_of(columns)
        self._streams = self._index.streams
        self._stored = StoredMessages(columns, context)
        self._visits_of: dict[tuple[int, int], tuple[Ints, Ints]] = {}
        self._gaps_of: dict[tuple[int, int], Gaps] = {}

    def out_of_step(self) -> Iterator[tuple[int, int]]:
        """Yield (at, before) for deliveries that are not one offset above the previous one of the same process."""
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
        if not self._context.facts.assigned:
            yield 0, NONE_BEFORE
            yield from zip(odd.tolist(), before.tolist(), strict=True)
            return
        for at, last in ((0, NONE_BEFORE), *zip(odd.tolist(), before.tolist(), strict=True)):
            if self._group_of(at) not in self._context.facts.assigned:
                yield at, last
        yield from steps_of_members(self._columns, self._streams, self._context.facts.assigned)

    def _group_of(self, at: int) -> str:
        group: str = self._columns.names.groups[self._columns.deliveries.group[self._row(at)]]
        return group

    def _last_of_same(self, starts: Ints, process: Ints) -> Ints:
        """Return for each run of one process in a stream the end of its previous run or NONE_BEFORE, shape (runs,)."""
        ends = np.append(starts[1:], len(process)) - 1
        order = np.lexsort((starts, process[starts], self._streams.number[starts]))
        by_owner = starts[order]
        same = (process[by_owner[1:]] == process[by_owner[:-1]]) & (
            self._streams.number[by_owner[1:]] == self._streams.number[by_owner[:-1]]
        )
        last = np.full(len(starts), NONE_BEFORE, np.int64)
        last[order[1:][same]] = ends[order[:-1][same]]
        return last

    def judge(self, at: int, before: int) -> Iterator[Finding]:
        row = self._row(at)
        deliveries = self._columns.deliveries
        offset = int(deliveries.queue_offset[row])
        if before == NONE_BEFORE or not self._same_term(row, self._row(before)):
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
            return
        skips = list(self._skipped(at, last + 1, f"was given {offset} after {last}", inside))
        yield from skips or self._passed_over(at, before, inside)

    def reads_below(self, at: int, before: int, chunk: Chunk) -> bool:
        """Whether the judgement of a delivery may depend on offsets below the chunk."""
        if before == NONE_BEFORE:
            return True
        row = self._row(at)
        if self._same_term(row, self._row(before)):
            return False
        committed = self._committed(row)
        return committed is not None and committed < chunk.first_offset

    def question(self, at: int, before: int, chunk: Chunk) -> Question:
        row = self._row(at)
        given = self._columns.deliveries.row(row)
        return Question(
            given=given,
            begins=before != NONE_BEFORE,
            leads=at == int(self._streams.starts[self._streams.number[at]]),
            committed=self._committed(row),
            skipped=self.not_given(at, self._lowest_asked_for(chunk, int(given.group[0]))),
        )

    def _lowest_asked_for(self, chunk: Chunk, group: int) -> int:
        """Return the lowest offset that questions about a group may concern: its lowest received or committed one."""
        commits = self._columns.commits
        mine = commits.offset[(commits.log == chunk.queue) & (commits.group == group)]
        lowest = chunk.given[group][0]
        return min(lowest, int(mine.min())) if len(mine) else lowest

    def last_rows(self) -> Mapping[int, MessageEvents]:
        """Return by group the last delivery to each process, in the order of calls. The columns hold only one queue."""
        deliveries, streams = self._columns.deliveries, self._streams
        found = {}
        for start, stop in pairwise(streams.starts.tolist()):
            rows = streams.row(np.arange(start, stop))[::-1]
            _, last = np.unique(deliveries.process[rows], return_index=True)
            of_group = deliveries.where(rows[np.sort(last)[::-1]])
            found[int(of_group.group[0])] = of_group
        return found

    def unread(self, chunk: Chunk) -> Mapping[int, MessageEvents]:
        """Return by group the stored messages that it wants and never received, if questions may concern them."""
        return {
            group: self._stored.events(found)
            for group in chunk.given
            if len(found := self._unread_by(group, chunk))
        }

    def _unread_by(self, group: int, chunk: Chunk) -> Ints:
        low, high = self._lowest_asked_for(chunk, group), chunk.given[group][1]
        bounds = np.searchsorted(self._stored.offset, (low, high))
        # The messages that the first filter accepts include those that both accept.
        found = self._stored.matching(
            np.arange(*bounds), self._columns.names.groups[group], BEFORE_ALL_NS
        )
        stream = stream_id(self._columns, chunk.queue, group)
        given = np.zeros(self._index.size, np.bool_)
        given[self._index.delivery_position[self._streams.ended(stream)]] = True
        unread: Ints = found[~given[self._stored.position[found]]]
        return unread

    def _row(self, at: int) -> int:
        rows = self._streams.rows
        return at if rows is None else int(rows[at])

    def _same_term(self, row: int, earlier: int) -> bool:
        """Whether the process did not gain the queue again between two of its deliveries."""
        deliveries, names = self._columns.deliveries, self._columns.names
        return not self._context.timeline.gained_between(
            names.groups[deliveries.group[row]],
            names.logs[deliveries.log[row]],
            int(deliveries.process[row]),
            int(deliveries.invoke_index[earlier]),
            int(deliveries.invoke_index[row]),
        )

    def _committed(self, row: int) -> int | None:
        """Return the offset that the group had committed when this row's listener was called; None: none is known."""
        deliveries, commits = self._columns.deliveries, self._columns.commits
        queue, group = int(deliveries.log[row]), int(deliveries.group[row])
        rows = self._commit_rows.get((queue, group))
        facts = self._context.facts
        if rows is None or self._columns.names.groups[group] in (
            *facts.broadcasting,
            *facts.assigned,
        ):
            return None
        known = int(np.searchsorted(commits.op_index[rows], deliveries.invoke_index[row]))
        return int(commits.offset[rows[known - 1]]) if known else None

    @cached_property
    def _commit_rows(self) -> dict[tuple[int, int], Ints]:
        """Return rows of commits by queue and group, in the order of ops."""
        commits = self._columns.commits
        order = np.lexsort((commits.op_index, commits.group, commits.log))
        _, starts = number_runs(stream_ids(self._columns, commits)[order])
        runs = (order[start:stop] for start, stop in pairwise(starts.tolist()))
        return {(int(commits.log[run[0]]), int(commits.group[run[0]])): run for run in runs}

    def _skipped(
        self, at: int, first_offset: int, what: str, inside: bool = False
    ) -> Iterator[Finding]:
        """Yield a finding if the reader lacked stored messages from `first_offset` on, below this delivery."""
        skipped = self.not_given(at, first_offset)
        if len(skipped):
            given = self._columns.deliveries.row(self._row(at))
            yield skip_finding(self._columns, self._context, given, skipped, what, inside)

    def _passed_over(self, at: int, before: int, inside: bool) -> Iterator[Finding]:
        """Yield a finding if the reader never received an offset between two deliveries of an owner."""
        deliveries, row, earlier = self._columns.deliveries, self._row(at), self._row(before)
        last = int(deliveries.queue_offset[earlier])
        if not has_gap(self._gaps(at), last + 1, int(deliveries.queue_offset[row])):
            return
        hole = Hole(
            given=deliveries.row(row),
            last=last,
            last_ns=int(deliveries.invoke_ns[earlier]),
            last_position=int(deliveries.position[earlier]),
            inside=inside,
        )
        first = first_position(self._columns, self._context, hole.given, hole.last + 1)
        if first is not None and has_gap(self._gaps(at), first, int(hole.given.queue_offset[0])):
            yield hole_finding(self._columns, self._context, hole)

    def _gaps(self, at: int) -> Gaps:
        """Return the gaps in the offsets that the reader of a delivery received at any time."""
        stream = int(self._streams.number[at])
        reader = int(self._columns.deliveries.process[self._row(at)])
        if self._group_of(at) not in self._context.facts.broadcasting:
            reader = ANY_PROCESS
        if (stream, reader) not in self._gaps_of:
            _, visits = self._visits(at)
            offsets = self._columns.deliveries.queue_offset[self._streams.row(visits)]
            self._gaps_of[stream, reader] = gaps_between(offsets)
        return self._gaps_of[stream, reader]

    def given(self) -> Mapping[int, Given]:
        """Return by group the offsets that it received. The columns must be of one queue."""
        deliveries, streams = self._columns.deliveries, self._streams
        found = {}
        for start, stop in pairwise(streams.starts.tolist()):
            rows = streams.row(np.arange(start, stop))
            offsets = deliveries.queue_offset[rows]
            found[int(deliveries.group[rows[0]])] = Given(
                int(offsets.min()), int(offsets.max()), gaps_between(offsets)
            )
        return found

    def not_given(self, at: int, first_offset: int) -> MessageEvents:
        """Return the stored messages from `first_offset` on, below a delivery, that its reader wanted and lacked."""
        found = self._stored.due(self._row(at), first_offset)
        if len(found):
            found = found[~self._given_before(at, found)]
        return self._stored.events(found) if len(found) else self._nothing

    @cached_property
    def _nothing(self) -> MessageEvents:
        return self._columns.deliveries.where(slice(0))

    def _given_before(self, at: int, found: Ints) -> Mask:
        """Whether the reader had received each stored message in `found` from its position before a delivery."""
        position = self._stored.position[found]
        if position[0] > self._streams.highest[at]:
            return np.zeros(len(found), np.bool_)
        positions, visits = self._visits(at)
        first = np.minimum(np.searchsorted(positions, position), len(positions) - 1)
        given: Mask = (positions[first] == position) & (visits[first] < at)
        return given

    def _visits(self, at: int) -> tuple[Ints, Ints]:
        """Return the positions that the reader of a delivery received, ascending, and the index of each delivery.

        Indices of one position ascend. A reader is a group, or a member of a group that broadcasts or is in `assigned`.
        """
        stream, reader = int(self._streams.number[at]), ANY_PROCESS
        deliveries, row, facts = self._columns.deliveries, self._row(at), self._context.facts
        if self._group_of(at) in (*facts.broadcasting, *facts.assigned):
            reader = int(deliveries.process[row])
        if (stream, reader) not in self._visits_of:
            visits = np.arange(self._streams.starts[stream], self._streams.starts[stream + 1])
            if reader != ANY_PROCESS:
                visits = visits[deliveries.process[self._streams.row(visits)] == reader]
            if self._group_of(at) in facts.assigned:
                visits = visits[deliveries.outcome[self._streams.row(visits)] == Outcome.OK]
            positions = self._streams.position[visits]
            order = np.argsort(positions, kind="stable")
            self._visits_of[stream, reader] = positions[order], visits[order]
        return self._visits_of[stream, reader]

    def _went_back(self, at: int, before: int, inside: bool) -> Iterator[Finding]:
        deliveries = self._columns.deliveries
        row, last = self._row(at), self._row(before)
        earlier = self._last_given(at)
        attempts = earlier, self._last_given(at, by=int(deliveries.process[row]))
        if not inside and any(one is not None and self._retried(one, row) for one in attempts):
            return
        judgement, why = self._judge_back(row, last, earlier, inside)
        offset, last_offset = deliveries.queue_offset[row], deliveries.queue_offset[last]
        detail = f"process {deliveries.process[row]} was given {offset} after {last_offset}: {why}"
        yield self._finding(row, "nonmonotonic_poll", inside, judgement, detail)

    def _retried(self, earlier: int, row: int) -> bool:
        """Whether a delivery is a new attempt, because the listener did not finish the earlier one."""
        deliveries = self._columns.deliveries
        unfinished = deliveries.outcome[earlier] != Outcome.OK
        return bool(unfinished or deliveries.tries[row] > deliveries.tries[earlier])

    def _judge_back(
        self, row: int, last: int, earlier: int | None, inside: bool
    ) -> tuple[Judgement, str]:
        if inside:
            return Judgement.VIOLATION, "in one call"
        if earlier is None:
            return Judgement.VIOLATION, "its reader had not had it yet"
        if (
            self._columns.names.groups[self._columns.deliveries.group[row]]
            in self._context.facts.assigned
        ):
            return Judgement.VIOLATION, "its position was further"
        deliveries = self._columns.deliveries
        committed = self._committed(row)
        if committed is None or committed <= deliveries.queue_offset[row]:
            return Judgement.ALLOWED, "the group had not committed it"
        first_ns, last_ns = int(deliveries.invoke_ns[last]), int(deliveries.invoke_ns[row])
        queue = self._columns.names.logs[int(deliveries.log[row])]
        position = int(deliveries.log[row]), int(deliveries.queue_offset[row])
        given_ns = int(deliveries.invoke_ns[earlier])
        group = self._columns.names.groups[int(deliveries.group[row])]
        by_order = redelivered_only_after_reset(
            self._columns, self._context, group, position, given_ns
        )
        anomaly = SENT_BACK if by_order else "nonmonotonic_poll"
        times = first_ns, last_ns
        window = set_back_by(self._context, (group, queue), anomaly, times, offset=position[1])
        if window is None:
            return Judgement.VIOLATION, f"the group had committed {committed}"
        if (beyond := self._goes_on_beyond(row, last)) is not None:
            return Judgement.VIOLATION, f"and went on at {beyond}, not from there"
        return Judgement.INFORMATIONAL, window.words

    def _goes_on_beyond(self, row: int, last: int) -> int | None:
        """Return the offset to which an owner that went back jumped instead of continuing, or None.

        `row` is the delivery that goes back, `last` the owner's previous one. None also for members that do not report
        their queues: such a member may have lost the queue, and taken it over again where another member had left it.
        """
        deliveries, names = self._columns.deliveries, self._columns.names
        pair = names.groups[int(deliveries.group[row])], names.logs[int(deliveries.log[row])]
        if pair not in self._context.timeline.ownership:
            return None
        same = (deliveries.process == deliveries.process[row]) & (
            deliveries.group == deliveries.group[row]
        )
        rows = np.flatnonzero(same & (deliveries.log == deliveries.log[row]))
        rows = rows[np.argsort(deliveries.invoke_index[rows], kind="stable")]
        highest = int(deliveries.queue_offset[row])
        for later in rows[deliveries.invoke_index[rows] >= deliveries.invoke_index[row]].tolist():
            offset = int(deliveries.queue_offset[later])
            if not self._same_term(later, row):
                return None
            if offset > highest + 1:
                return offset if highest < deliveries.queue_offset[last] else None
            highest = max(highest, offset)
        return None

    def _last_given(self, at: int, *, by: int = ANY_PROCESS) -> int | None:
        """Return the row of the last earlier delivery of the same position to the reader, or only to process `by`."""
        position = self._streams.position[at]
        positions, visits = self._visits(at)
        start, stop = (
            np.searchsorted(positions, position),
            np.searchsorted(positions, position, side="right"),
        )
        before = int(np.searchsorted(visits[start:stop], at))
        rows = map(self._row, visits[start : start + before][::-1].tolist())
        process = self._columns.deliveries.process
        return next((row for row in rows if by in (ANY_PROCESS, int(process[row]))), None)

    def _finding(
        self, row: int, anomaly: str, inside: bool, judgement: Judgement, detail: str
    ) -> Finding:
        deliveries = self._columns.deliveries
        return _finding(self._columns, deliveries, row, anomaly, inside, judgement, detail)


def skip_finding(
    columns: Columns,
    context: Context,
    given: MessageEvents,
    skipped: MessageEvents,
    what: str,
    inside: bool,
) -> Finding:
    """Make the finding of the delivery `given` (one row), before which its owner skipped messages.

    The function reads only the names of `columns`. `skipped` has at least one message, and is sorted by offset.
    """
    names = columns.names
    broker = names.logs[int(skipped.log[0])].stream
    detail = (
        f"process {given.process[0]} {what}: {len(skipped)} skipped, first key "
        f"{names.key(int(skipped.message[0]))} at offset {skipped.queue_offset[0]}"
    )
    # All of these messages must be excused, so the strictest judgement of a loss decides.
    judgement = context.promises.strictest(
        broker, skipped.invoke_ns, lambda row: names.key(int(skipped.message[row]))
    )
    found = _finding(columns, given, 0, "poll_skip", inside, judgement, detail)
    return replace(found, other_key=names.key(int(skipped.message[0])))


def hole_finding(columns: Columns, context: Context, hole: Hole) -> Finding:
    """Make the finding of a delivery before which its owner skipped offsets.

    The function reads only the names of `columns`.
    """
    detail = (
        f"process {hole.given.process[0]} was given {hole.given.queue_offset[0]} after {hole.last}, "
        "and a position between them never came"
    )
    judgement = judge_hole(columns, context, hole)
    return _finding(columns, hole.given, 0, "poll_skip", hole.inside, judgement, detail)


def _finding(
    columns: Columns,
    deliveries: MessageEvents,
    row: int,
    anomaly: str,
    inside: bool,
    judgement: Judgement,
    detail: str,
) -> Finding:
    return finding_at(
        columns,
        deliveries,
        row,
        anomaly=f"int_{anomaly}" if inside else anomaly,
        judgement=judgement,
        detail=detail,
        group=columns.names.groups[deliveries.group[row]],
        at_invocation=True,
    )


POLLS = Kernel(
    name="polls",
    partition_by="log",
    anomalies=("poll_skip", "int_poll_skip", "nonmonotonic_poll", "int_nonmonotonic_poll"),
    partial=tally_polls,
    unknown_reason=nothing_missing,
    split=Split(scan_polls, conclude_polls),
)
