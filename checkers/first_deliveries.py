"""When a group was first given what was acknowledged: a join by place, queue by queue."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from checkers.columns import UNKNOWN, Columns, Ints, Touches

NONE = np.zeros(0, np.int64)


def first_deliveries(columns: Columns, acked: Touches, group: str) -> tuple[Ints, Ints]:
    """What `group` was given from where it was acknowledged: rows of `acked`, and when the listener was first called.

    Both have the shape (found,). Queues must be whole; another message at the same place is none.
    """
    if group not in columns.names.groups:
        return NONE, NONE
    delivered = columns.deliveries
    mine = np.flatnonzero(delivered.group == columns.names.groups.index(group))
    found = list(_joined(acked, delivered, mine))
    if not found:
        return NONE, NONE
    rows, first_ns = (np.concatenate(parts) for parts in zip(*found, strict=True))
    return rows, first_ns


def _joined(acked: Touches, delivered: Touches, mine: Ints) -> Iterator[tuple[Ints, Ints]]:
    """Queue by queue, so that places need no number of their own."""
    sent_order = np.argsort(acked.queue, kind="stable")
    got_order = mine[np.argsort(delivered.queue[mine], kind="stable")]
    sent_queue, got_queue = acked.queue[sent_order], delivered.queue[got_order]
    for queue in np.unique(sent_queue[sent_queue != UNKNOWN]).tolist():
        sent = sent_order[slice(*np.searchsorted(sent_queue, (queue, queue + 1)))]
        got = got_order[slice(*np.searchsorted(got_queue, (queue, queue + 1)))]
        if len(got):
            yield _joined_in_queue(acked, delivered, sent, got)


def _joined_in_queue(
    acked: Touches, delivered: Touches, sent: Ints, got: Ints
) -> tuple[Ints, Ints]:
    got = got[np.argsort(delivered.invoke_index[got], kind="stable")]
    got = got[np.argsort(delivered.queue_offset[got], kind="stable")]
    offsets = delivered.queue_offset[got]
    first = np.searchsorted(offsets, acked.queue_offset[sent])  # of those with that offset
    at = got[np.minimum(first, len(got) - 1)]
    there = (delivered.queue_offset[at] == acked.queue_offset[sent]) & (
        delivered.message[at] == acked.message[sent]
    )
    return sent[there], delivered.invoke_ns[at[there]]
