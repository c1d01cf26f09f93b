"""Finds the previous delivery of each delivery to members that keep their own position in a queue.

A delivery follows the previous one in its call. The first one of a call follows the last one of the latest call that
succeeded: a poll that failed, or whose end the client never reported, does not change the position.

Source: Jepsen's workload for Kafka, whose consumers rewind when a transaction aborts.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from itertools import pairwise

from staticfire.checkers.engine.position_index import Streams
from staticfire.checkers.model.columns import Columns, Outcome

NONE_BEFORE = -1


def steps_of_members(
    columns: Columns, streams: Streams, assigned: Collection[str]
) -> Iterator[tuple[int, int]]:
    """Yield deliveries that are not one offset above their previous one, each with the previous one or NONE_BEFORE.

    Both are indices in the order of `streams`. Only streams of the groups in `assigned` count.
    """
    deliveries, groups = columns.deliveries, columns.names.groups
    for start, stop in pairwise(streams.starts.tolist()):
        rows = range(start, stop) if streams.rows is None else streams.rows[start:stop].tolist()
        if groups[deliveries.group[rows[0]]] not in assigned:
            continue
        finished: dict[int, int] = {}  # by process: the last position of a call that succeeded
        latest: dict[int, tuple[int, int]] = {}  # by process: its last call, and position
        for at, row in enumerate(rows, start=start):
            process, call = int(deliveries.process[row]), int(deliveries.invoke_index[row])
            last_call, last = latest.get(process, (NONE_BEFORE, NONE_BEFORE))
            if last_call != call:
                last = finished.get(process, NONE_BEFORE)
            before = (
                NONE_BEFORE
                if last == NONE_BEFORE
                else int(deliveries.queue_offset[rows[last - start]])
            )
            if last == NONE_BEFORE or deliveries.queue_offset[row] != before + 1:
                yield at, last
            latest[process] = call, at
            if deliveries.outcome[row] == Outcome.OK:
                finished[process] = at
