"""The times at which a group first received each message, at its position or anywhere, and first consumed it."""

from __future__ import annotations

from typing import Final

import numpy as np

from staticfire.checkers.engine.position_index import index_of
from staticfire.checkers.guarantees.promises import FOREVER_NS
from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Outcome
from staticfire.checkers.model.message_ids import dense_numbers

NEVER_NS: Final = FOREVER_NS


def first_deliveries(columns: Columns, group: str) -> Ints:
    """Return when the group's listener was first called with each sent message at its position, in ns, shape (sends,).

    NEVER_NS if it never was, and if the position is not known or has another message. Queues must be whole.
    """
    name = f"first deliveries to {group}"
    found = columns.cache.get(name)
    if found is None:
        found = columns.cache[name] = _first_deliveries(columns, group)
    assert isinstance(found, np.ndarray)
    return found


def _first_deliveries(columns: Columns, group: str) -> Ints:
    delivered = columns.deliveries
    if group not in columns.names.groups:
        return _never(columns)
    index = index_of(columns)
    known = delivered.group == columns.names.groups.index(group)
    known[index.conflicting_deliveries] = False
    if not known.any():
        return _never(columns)
    first_ns = np.full(index.size + 1, NEVER_NS, np.int64)
    if len(index.streams.back):
        np.minimum.at(first_ns, index.delivery_position[known], delivered.invoke_ns[known])
    else:  # no group received any position twice
        first_ns[index.delivery_position[known]] = delivered.invoke_ns[known]
    placed = index.placed.copy()
    placed[index.conflicting_sends] = False
    return first_ns[np.where(placed, index.send_position, index.size)]


def _never(columns: Columns) -> Ints:
    """Return NEVER_NS for all sends; all groups without deliveries share the array, because there may be hundreds."""
    found = columns.cache.get("never")
    if found is None:
        found = columns.cache["never"] = np.full(len(columns.sends), NEVER_NS, np.int64)
    assert isinstance(found, np.ndarray)
    return found


def first_calls(columns: Columns, group: str, rows: Ints) -> Ints:
    """Return when the group's listener was first called with the sends `rows`, at any position of their queue, in ns.

    The shape is that of `rows`; NEVER_NS if the listener never was.
    """
    delivered, groups = columns.deliveries, columns.names.groups
    if group not in groups:
        return np.full(len(rows), NEVER_NS, np.int64)
    sends = columns.sends.where(rows)
    mine = np.flatnonzero(delivered.group == groups.index(group))
    size, (sent, got) = dense_numbers(sends.message, delivered.message[mine])
    queue_of = np.full(size + 1, UNKNOWN, np.int64)
    queue_of[sent] = sends.log
    there = (got != UNKNOWN) & (queue_of[got] == delivered.log[mine])
    first_ns = np.full(size + 1, NEVER_NS, np.int64)
    np.minimum.at(first_ns, got[there], delivered.invoke_ns[mine[there]])
    of_sent: Ints = first_ns[sent]
    return of_sent


def first_consumed_ns(columns: Columns, group: str) -> Ints:
    """Return when `group` first consumed each sent message, from any of these queues, in ns or NEVER_NS; (sends,)."""
    delivered, names = columns.deliveries, columns.names
    size, sent, got = _numbers(columns)
    first_ns = np.full(size + 1, NEVER_NS, np.int64)
    if group in names.groups:
        mine = delivered.group == names.groups.index(group)
        rows = np.flatnonzero(mine & (delivered.outcome == Outcome.OK) & (got >= 0))
        np.minimum.at(first_ns, got[rows], delivered.time_ns[rows])
    of_sent: Ints = first_ns[sent]
    return of_sent


def _numbers(columns: Columns) -> tuple[int, Ints, Ints]:
    """Return `dense_numbers` of the messages of sends and deliveries; cached, because all groups share them."""
    found = columns.cache.get("dense numbers")
    if found is None:
        size, (sent, got) = dense_numbers(columns.sends.message, columns.deliveries.message)
        found = columns.cache["dense numbers"] = size, sent, got
    assert isinstance(found, tuple)
    return found
