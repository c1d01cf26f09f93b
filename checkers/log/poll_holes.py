"""Holes: offsets of a queue that a reader passed and never received, even if no known message has them."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.guarantees.judgement import Judgement
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, MessageEvents

FAR = np.iinfo(np.int64).max
# Ranges [first, end) of offsets that were not received, ascending.
Gaps = Sequence[tuple[int, int]]


class Given(NamedTuple):
    """The offsets of a queue, or of a chunk of one, that a group received."""

    lowest: int
    highest: int
    gaps: Gaps  # the missing offsets between the lowest and the highest


class Hole(NamedTuple):
    """A delivery before which its reader skipped offsets."""

    given: MessageEvents  # one row
    last: int  # the offset that its process received before
    last_ns: int  # the time at which it received that offset
    last_position: int  # the position of that message in the commit log, or UNKNOWN
    inside: bool  # both came in one call of the listener


def gaps_between(offsets: Ints) -> Gaps:
    """Return the ranges between the lowest and the highest of `offsets` that are not among them."""
    distinct = np.unique(offsets)
    before = np.flatnonzero(np.diff(distinct) > 1)
    return tuple(zip((distinct[before] + 1).tolist(), distinct[before + 1].tolist(), strict=True))


def has_gap(gaps: Gaps, first: int, end: int) -> bool:
    """Whether an offset in [first, end) is in one of the ranges."""
    return any(low < end and first < high for low, high in gaps)


def first_position(
    columns: Columns, context: Context, given: MessageEvents, first_offset: int
) -> int | None:
    """Return the first offset, from `first_offset` on, that the reader of a delivery must receive, or None.

    It is known only for drained queues, because retention may have deleted messages of others.
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
    """Judge a hole as the loss of a message that a consumer had received by the previous delivery.

    If a fault cut the log between the two deliveries, the log may hold other messages at these offsets.
    """
    broker = columns.names.logs[int(hole.given.log[0])].stream
    position = int(hole.given.position[0])
    end = FAR if position == UNKNOWN else position
    if context.promises.any_record_damaged(broker, hole.last_position, end):
        return Judgement.ALLOWED
    until_ns = int(hole.given.invoke_ns[0])
    return context.promises.visible.rule(broker, hole.last_ns, until_ns).judgement
