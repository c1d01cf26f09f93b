"""Polls of a queue in chunks: a chunk asks questions about earlier deliveries, and the state of lower chunks answers.

Chunks are ranges of offsets, and every group passed each cut point only once. So for the first delivery to a process in
a chunk, only its last delivery in lower chunks matters. If a group did not receive a message of a lower chunk there, it
had not received it by then. The state is small: a few rows for each process, and the skipped messages.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.verdict import Tally
from staticfire.checkers.log.poll_holes import Given, Hole, first_position, has_gap
from staticfire.checkers.model.columns import Columns, MessageEvents, joined


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Question:
    """A delivery that the checker can judge only with the state of the lower chunks."""

    given: MessageEvents  # one row
    begins: bool  # its process gained the queue again since an earlier delivery in this chunk
    leads: bool  # it is the first delivery to its group in this chunk
    committed: int | None  # the offset that its group had committed by then; None: not known
    # lower messages of this chunk that its group had not received by then, sorted by offset
    skipped: MessageEvents


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PollCutPoint:
    """The questions of a chunk, and the state with which it answers questions of higher chunks."""

    number: int
    questions: tuple[Question, ...]
    last: Mapping[
        int, MessageEvents
    ]  # by group: the last delivery to each process, in the order of calls
    # by group: messages that it never received, sorted by offset
    unread: Mapping[int, MessageEvents]
    given: Mapping[int, Given]  # by group: the offsets that it received


class Skip(NamedTuple):
    """The owner should have received the messages `skipped` before the delivery `given` (one row)."""

    given: MessageEvents
    skipped: MessageEvents
    what: str
    inside: bool


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class PollsInChunks:
    """The state of some chunks of one queue. `merge` is associative and commutative."""

    tally: Tally
    cut_points: tuple[PollCutPoint, ...]  # by number

    def merge(self, other: PollsInChunks) -> PollsInChunks:
        cut_points = sorted(
            (*self.cut_points, *other.cut_points), key=lambda cut_point: cut_point.number
        )
        return PollsInChunks(tally=self.tally.merge(other.tally), cut_points=tuple(cut_points))

    def skips(self, columns: Columns, context: Context) -> Iterator[Skip]:
        """Yield the skips that all questions reveal. `cut_points` must be those of all chunks."""
        for answer in self._answers(columns, context):
            if isinstance(answer, Skip):
                yield answer

    def holes(self, columns: Columns, context: Context) -> Iterator[Hole]:
        """Yield the deliveries that skipped an offset that the group never received, but no known message."""
        for answer in self._answers(columns, context):
            if isinstance(answer, Hole):
                yield answer

    def _answers(self, columns: Columns, context: Context) -> Iterator[Skip | Hole]:
        below = _Below()
        for cut_point in self.cut_points:
            below.add_given(cut_point)
            for question in cut_point.questions:
                yield from below.answer(columns, context, question)
            below.add(cut_point)


class _Past(NamedTuple):
    """The last delivery to a process."""

    offset: int
    invoke_index: int
    invoke_ns: int
    position: int


class _Below:
    """The combined state of all chunks below a cut point."""

    def __init__(self) -> None:
        self._last: dict[tuple[int, int], _Past] = {}  # by group and process
        self._end: dict[
            int, tuple[int, int]
        ] = {}  # group -> process and offset of its last delivery
        self._unread: dict[int, list[MessageEvents]] = {}
        self._gaps: dict[int, list[tuple[int, int]]] = {}  # by group, including this chunk
        self._highest: dict[int, int] = {}  # by group

    def add_given(self, cut_point: PollCutPoint) -> None:
        for group, given in cut_point.given.items():
            gaps = self._gaps.setdefault(group, [])
            highest = self._highest.get(group)
            if highest is not None and highest + 1 < given.lowest:
                gaps.append((highest + 1, given.lowest))
            gaps.extend(given.gaps)
            self._highest[group] = given.highest

    def add(self, cut_point: PollCutPoint) -> None:
        for group, rows in cut_point.last.items():
            known = (
                rows.process,
                rows.queue_offset,
                rows.invoke_index,
                rows.invoke_ns,
                rows.position,
            )
            for process, *past in zip(*(column.tolist() for column in known), strict=True):
                self._last[group, process] = _Past(*past)
                self._end[group] = process, past[0]
        for group, rows in cut_point.unread.items():
            self._unread.setdefault(group, []).append(rows)

    def answer(
        self, columns: Columns, context: Context, question: Question
    ) -> Iterator[Skip | Hole]:
        group, process = int(question.given.group[0]), int(question.given.process[0])
        offset = int(question.given.queue_offset[0])
        if question.leads and self._end.get(group) == (process, offset - 1):
            return  # it is the next offset after the process's last delivery
        past = self._last.get((group, process))
        called = int(question.given.invoke_index[0])
        if past is None or question.begins or _gained_between(columns, context, question, past):
            past, since, inside = None, question.committed, False
            what = f"began at {offset}; the group's offset was {since}"
        else:
            since, inside = past.offset + 1, past.invoke_index == called
            what = f"was given {offset} after {past.offset}"
        if since is not None and since < offset:
            skipped = self._skipped(columns, context, question, since)
            if len(skipped):
                yield Skip(question.given, skipped, what, inside)
            elif past is not None:
                first = first_position(columns, context, question.given, since)
                if first is not None and has_gap(self._gaps.get(group, ()), first, offset):
                    yield Hole(question.given, past.offset, past.invoke_ns, past.position, inside)

    def _skipped(
        self, columns: Columns, context: Context, question: Question, since: int
    ) -> MessageEvents:
        names, given = columns.names, question.given
        group, topic = names.groups[given.group[0]], names.topics[given.topic[0]]
        parts = [question.skipped]
        if topic in context.facts.groups.get(group, ()):
            parts = [*self._unread.get(int(given.group[0]), ()), question.skipped]
        drain = context.timeline.drains_of(group, topic)
        end = None if drain is None else drain.ends.get(names.logs[int(given.log[0])])
        first = since if end is None else max(since, end.min_offset)
        rows = joined(MessageEvents, parts)
        rows = rows.where(np.flatnonzero(rows.queue_offset >= first))
        if group not in context.facts.filters_changed_ns:
            return rows
        return rows.where(context.matches(columns, rows, group, int(given.invoke_ns[0])))


def _gained_between(columns: Columns, context: Context, question: Question, past: _Past) -> bool:
    given, names = question.given, columns.names
    return context.timeline.gained_between(
        names.groups[given.group[0]],
        names.logs[given.log[0]],
        int(given.process[0]),
        past.invoke_index,
        int(given.invoke_index[0]),
    )
