"""The two forms of a checker: a kernel over columns, and a rule over the other facts of a run.

A kernel maps columns that hold whole partitions (by its own partition key) to a Tally. Tallies merge, and `finish`
makes the verdict. So the same kernel runs over a whole history at once, over one queue at a time, or in many processes.
Tests check that every way to cut a history gives the same verdict.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from staticfire.checkers.guarantees.excuses.excuses import Excuses
from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.guarantees.promises import NS_PER_S, Judgement, LossPromises
from staticfire.checkers.guarantees.verdict import Finding, Tally, Validity, Verdict
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Chunk,
    Columns,
    Ints,
    LogKey,
    Mask,
    MessageEvents,
    PartitionKey,
)
from staticfire.checkers.model.timeline import Timeline


@dataclass(frozen=True, slots=True, kw_only=True)
class Context:
    """The data that kernels need besides columns. It is small, and the same for all partitions."""

    facts: RunFacts
    timeline: Timeline
    promises: LossPromises
    observations: Sequence[Mapping[str, Any]] = ()
    excuses: Excuses = field(init=False, repr=False, compare=False)
    # Results derived from these fields that several checkers need.
    cache: dict[Hashable, object] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        object.__setattr__(self, "excuses", Excuses(self.facts))

    def wants(self, columns: Columns, sends: MessageEvents, group: str) -> Mask:
        """Whether `group` must consume each send, shape (sends,).

        It depends on topic and tag; for a late group also on the first offset that its queue had at the drain.
        """
        topics = self.facts.groups[group]
        subscribed = np.array([topic in topics for topic in columns.names.topics], np.bool_)
        wanted: Mask = subscribed[sends.topic]
        if group in self.facts.wanted_tags:
            wanted &= self.matches(columns, sends, group)
        if group in self.facts.late_groups:
            low, *_ = _drain_columns(columns, self.timeline, group)
            wanted &= (sends.log == UNKNOWN) | (sends.queue_offset >= low[sends.log])
        return wanted

    def matches(
        self, columns: Columns, sends: MessageEvents, group: str, given_ns: int | None = None
    ) -> Mask:
        """Whether the filter of `group` accepts each send, whenever it is consumed; shape (sends,).

        Either filter may have applied to a message that was sent before all members had changed their filter. If the
        group received the next message of the queue (at `given_ns`) before any member could subscribe again, only the
        first filter applied.
        """
        now, before = self._filters(columns, sends, group)
        return before if self.is_unchanged(group, given_ns) else now & before

    def matched_at_first(self, columns: Columns, sends: MessageEvents, group: str) -> Mask:
        """Whether the filter that `group` had before it changed it accepts each send, shape (sends,)."""
        return self._filters(columns, sends, group)[1]

    def is_unchanged(self, group: str, at_ns: int | None) -> bool:
        """Whether a group that changes its filter had only the first filter at `at_ns`. False if that is not known."""
        begins_ns = self.facts.filter_change_begins_ns
        if at_ns is None or begins_ns is None or group not in self.facts.filters_changed_ns:
            return False
        return at_ns < begins_ns

    def may_match(self, columns: Columns, sends: MessageEvents, group: str) -> Mask:
        """Whether a filter of `group` may have accepted each send, shape (sends,)."""
        now, before = self._filters(columns, sends, group)
        return now | before

    def _filters(self, columns: Columns, sends: MessageEvents, group: str) -> tuple[Mask, Mask]:
        """Return two masks of shape (sends,): the last filter accepts the send, and the earliest possible one does."""
        now = _tagged(columns, sends, self.facts.wanted_tags.get(group))
        changed_ns = self.facts.filters_changed_ns.get(group)
        if changed_ns is None:
            return now, now
        before = _tagged(columns, sends, self.facts.wanted_before.get(group))
        return now, np.where(sends.invoke_ns < changed_ns, before, now)

    def resolved(self, columns: Columns, sends: MessageEvents, group: str) -> Mask:
        """Whether `group` must have consumed each send by now, shape (sends,).

        It need not have consumed a send from the committed offset up to the end of a queue, one that was acknowledged
        after the drain, or one below the queue's first offset that was old enough to be deleted unread.
        """
        low, end, committed, drained_at, drained_ns = _drain_columns(columns, self.timeline, group)
        queue, offset = sends.log, sends.queue_offset
        # The group has passed a message at an unknown offset if it has read the queue to its end.
        read = np.where(offset == UNKNOWN, (committed >= end)[queue], offset < committed[queue])
        passed = read | (offset >= end[queue])
        young = drained_ns[queue] - sends.time_ns < self.facts.reserved_s * NS_PER_S
        kept = young | (offset >= low[queue]) | (offset == UNKNOWN)
        found: Mask = passed & kept & (sends.op_index < drained_at[queue])
        return found


def _tagged(columns: Columns, sends: MessageEvents, tags: tuple[str, ...] | None) -> Mask:
    """Whether each send has one of the tags; True for None."""
    if tags is None:
        return np.ones(len(sends), np.bool_)
    named = np.array([tag in tags for tag in columns.names.tags] + [False], np.bool_)
    found: Mask = named[sends.tag]  # UNKNOWN is -1: the last element, no tag
    return found


def _drain_columns(columns: Columns, timeline: Timeline, group: str) -> tuple[Ints, ...]:
    """Return columns of shape (queues,): min, max and committed offset at the drain; its op index and time."""
    queues = columns.names.logs
    table = np.zeros((5, len(queues)), np.int64)
    for row, queue in enumerate(queues):
        drain = timeline.drains_of(group, queue.topic)
        if drain is None:
            continue
        end = drain.ends.get(queue)
        if end is not None:
            table[:, row] = (*end, drain.op_index, drain.time_ns)
        elif drain.complete:
            # The drain is complete without this queue: the queue was lost with all its messages.
            table[:, row] = (0, 0, 0, drain.op_index, drain.time_ns)
    return tuple(table)


Rows = Callable[[Columns, Context], Columns]


def every_row(columns: Columns, _context: Context) -> Columns:
    """`Checker.rows` of a checker that reads every row of the history; memory must hold the whole history."""
    return columns


def no_rows(columns: Columns, _context: Context) -> Columns:
    """`Checker.rows` of a checker that reads only facts, timeline and observations."""
    return some_rows(columns)


def always(_context: Context) -> bool:
    """`Checker.applies` of a checker that applies to every run."""
    return True


@dataclass(frozen=True, slots=True, kw_only=True)
class Checker:
    """A rule that judges a run. `check` may raise; the composition turns an error into the verdict unknown.

    `rows` selects the rows that `check` gets of a history that is too large for memory: every_row, no_rows, or a
    function that selects rows from whole queues. It has no default, because a checker that gets too few rows misses
    anomalies.
    """

    name: str
    anomalies: tuple[str, ...]  # all anomalies that it can report
    check: Callable[[Columns, Context], Verdict]
    rows: Rows
    applies: Callable[[Context], bool] = always
    needs_observations: bool = False
    kernel: Kernel | None = None  # its form that runs by partition, if it has one
    # Selects rows again, to replace those of `rows`. The third argument is what `rows` selected in all queues.
    rows_again: Callable[[Columns, Context, Columns], Columns] | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class ScreenedCounts:
    """Counts of what the screening pass cleared in some queues (`checkers/engine/screening.py`)."""

    sends: Ints  # by Outcome
    deliveries: int
    identified: int  # deliveries of which the client reported the message id
    delivered: int  # messages that were delivered
    pending: int  # messages that some group has not reached yet


def some_rows(
    columns: Columns,
    *,
    sends: Mask | Ints | slice = slice(0),
    deliveries: Mask | Ints | slice = slice(0),
) -> Columns:
    """Select some sends and deliveries (by default none), and no commits."""
    return Columns(
        names=columns.names,
        sends=columns.sends.where(sends),
        deliveries=columns.deliveries.where(deliveries),
        commits=columns.commits.where(np.zeros(0, np.int64)),
    )


def not_counted(_counts: ScreenedCounts) -> Mapping[str, int]:
    """Return no counts, for kernels that count only their findings."""
    return {}


def no_more_candidates(_columns: Columns, _context: Context, _cleared: Mask) -> Ints:
    """Return no messages, for kernels that never report a cleared message."""
    return np.zeros(0, np.int64)


@dataclass(frozen=True, slots=True)
class Split:
    """How a kernel by queue judges a queue in chunks (`Columns.chunk`) if it cannot judge each chunk independently.

    `scan` makes a state of each chunk. States have a method `merge`, which is associative and commutative. `conclude`
    makes a tally of the merged state; it reads only the names of its columns.
    """

    scan: Callable[[Columns, Context, Chunk], Any]
    conclude: Callable[[Any, Columns, Context], Tally]


@dataclass(frozen=True, slots=True, kw_only=True)
class Kernel:
    """A checker that runs partition by partition.

    `partial` gets columns that hold whole partitions. `unknown_reason` returns why a tally without any violation proves
    nothing, or None if it proves that the anomalies did not occur.

    A kernel by queue sees all rows of its queues. Any other kernel sees all rows of the history, unless it opts in to
    screening with `screened`. A screened kernel sees only the rows, in all queues, of messages that the screening pass
    did not clear (`checkers/engine/screening.py`), so its results for these must not depend on other messages. It
    counts the cleared ones with `counts_of_screened_out`. `more_candidates` returns cleared messages that it must see
    nevertheless; its third argument is the mask of cleared sends. Both functions work on whole queues.
    """

    name: str
    partition_by: PartitionKey
    anomalies: tuple[str, ...]
    partial: Callable[[Columns, Context], Tally]
    unknown_reason: Callable[[Tally, Context], str | None]
    screened: bool = False
    counts_of_screened_out: Callable[[ScreenedCounts], Mapping[str, int]] = not_counted
    more_candidates: Callable[[Columns, Context, Mask], Ints] = no_more_candidates
    # replaces `finish` in a kernel that only measures
    finished: Callable[[Tally, Context], Verdict] | None = None
    # of a kernel by queue; None: `partial` can judge each chunk independently
    split: Split | None = None

    def finish(self, tally: Tally, context: Context) -> Verdict:
        if self.finished is not None:
            return self.finished(tally, context)
        violated = any(tally.counts.get(anomaly, 0) for anomaly in self.anomalies)
        reason = self.unknown_reason(tally, context)
        valid: Validity = True if reason is None else "unknown"
        return Verdict(
            checker=self.name,
            valid=False if violated else valid,
            counts=tally.counts,
            findings=tally.findings,
            reason=reason,
        )

    def check(self, columns: Columns, context: Context) -> Verdict:
        return self.finish(self.partial(columns, context), context)

    def as_checker(self) -> Checker:
        return Checker(
            name=self.name,
            anomalies=self.anomalies,
            check=self.check,
            rows=no_rows,  # the engine passes rows to the kernel itself
            kernel=self,
        )


def nothing_missing(_tally: Tally, _context: Context) -> str | None:
    """Return None, for kernels whose tally without a violation proves that the anomalies did not occur."""
    return None


def unless_unread(_tally: Tally, context: Context) -> str | None:
    """Return why observations were not read, for kernels that use observations if there are any."""
    return context.facts.unread or None


def undrained(context: Context) -> str | None:
    """Return which groups have not read their topics to the end, and their lags; None if all have."""
    missing = [
        f"group {group} on {topic}: {_drain_state(context.timeline, group, topic)}"
        for group, topics in sorted(context.facts.groups.items())
        for topic in topics
        if not ((drain := context.timeline.drains_of(group, topic)) and drain.complete)
    ]
    return "; ".join(missing) if missing else None


def _drain_state(timeline: Timeline, group: str, topic: str) -> str:
    drain = timeline.drains_of(group, topic)
    return "never drained" if drain is None else f"not drained, lag {drain.lag}"


def finding_at(
    columns: Columns,
    events: MessageEvents,
    row: int,
    *,
    anomaly: str,
    judgement: Judgement,
    detail: str,
    group: str | None = None,
    at_invocation: bool = False,
    other: int = UNKNOWN,
) -> Finding:
    """Make a finding from a row of events.

    Args:
        columns: the columns to which the row belongs.
        events: sends or deliveries.
        row: in `events`.
        anomaly: its name.
        judgement: of this finding.
        detail: one sentence for readers.
        group: the group concerned.
        at_invocation: whether the time of the finding is that of the invocation: a delivery happens when the listener
            is called.
        other: id of a second message that is part of the proof.
    """
    queue = queue_of(columns, events, row)
    time_ns = events.invoke_ns[row] if at_invocation else events.time_ns[row]
    return Finding(
        anomaly=anomaly,
        judgement=judgement,
        op_index=int(events.op_index[row]),
        time_ns=int(time_ns),
        detail=detail,
        key=columns.names.key(int(events.message[row])),
        topic=columns.names.topics[events.topic[row]],
        broker=None if queue is None else queue.home,
        queue=None if queue is None else queue.partition,
        queue_offset=_known(events.queue_offset[row]),
        physical_offset=_known(events.position[row]),
        group=group,
        other_key=columns.names.key(other),
    )


def queue_of(columns: Columns, events: MessageEvents, row: int) -> LogKey | None:
    queue = int(events.log[row])
    return None if queue == UNKNOWN else columns.names.logs[queue]


def _known(value: np.int64) -> int | None:
    return None if value == UNKNOWN else int(value)


def rows_by_id(ids: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Yield (ids, rows) for each distinct id, in ascending order; both have shape (rows with this id,)."""
    if not len(ids):
        return
    order = np.argsort(ids, kind="stable")
    cuts = np.flatnonzero(np.diff(ids[order])) + 1
    for rows in np.split(order, cuts):
        yield ids[rows], rows
