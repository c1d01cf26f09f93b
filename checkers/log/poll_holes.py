"""Holes: offsets of a queue that a reader passed and never received, whatever message they hold."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, MessageEvents

FAR = np.iinfo(np.int64).max
# Ranges of offsets that were not received, each from its first to before its end, ascending.
Gaps = Sequence[tuple[int, int]]


class Given(NamedTuple):
    """The offsets of a queue, or of a chunk of one, that a group received."""

    lowest: int
    highest: int
    gaps: Gaps  # between the lowest and the highest one


class Hole(NamedTuple):
    """A delivery before which its reader skipped offsets."""

    given: MessageEvents  # one row
    last: int  # the offset that its process received before
    last_ns: int  # when it received that
    last_position: int  # the position of that message in the commit log, or UNKNOWN
    inside: bool  # both came in one call


def gaps_between(offsets: Ints) -> Gaps:
    """Return the ranges between the lowest and the highest of some offsets that are not among them."""
    distinct = np.unique(offsets)
    before = np.flatnonzero(np.diff(distinct) > 1)
    return tuple(zip((distinct[before] + 1).tolist(), distinct[before + 1].tolist(), strict=True))


def has_gap(gaps: Gaps, first: int, end: int) -> bool:
    """Whether an offset from `first` to before `end` lies in one of the ranges."""
    return any(low < end and first < high for low, high in gaps)


def first_position(
    columns: Columns, context: Context, given: MessageEvents, first_offset: int
) -> int | None:
    """Return the first offset, from the given one on, that the reader of a delivery must receive, or None.

    Only of drained queues the remaining messages are known.
    """
    names, facts = columns.names, context.facts
    group, topic = names.groups[given.group[0]], names.topics[given.topic[0]]
    if group in facts.wanted_tags or group in facts.assigned:
        return None
    if topic not in facts.groups.get(group, ()):
        return None
    drain = context.timeline.drains_of(group, topic)
    end = None if drain is None else drain.ends.get(names.logs[int(given.log[0])])
    return None if end is None else max(first_offset, end.min_offset)


def judge_hole(columns: Columns, context: Context, hole: Hole) -> Judgement:
    """Judge a hole by what may have happened to messages that a consumer had seen by the previous delivery.

    A log that was cut meanwhile, and has grown since, holds other messages at these offsets.
    """
    broker = columns.names.logs[int(hole.given.log[0])].stream
    position = int(hole.given.position[0])
    end = FAR if position == UNKNOWN else position
    if context.promises.any_record_damaged(broker, hole.last_position, end):
        return Judgement.ALLOWED
    until_ns = int(hole.given.invoke_ns[0])
    return context.promises.visible.rule(broker, hole.last_ns, until_ns).judgement
