"""Finds the messages at each position (queue, queue offset), and positions with two messages.

The position of a message is known from an acknowledgement (SEND_OK or a weaker status) and from every delivery, with
any outcome. The cost grows with the number of events, not with the size of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePositions:
    """Sightings: sends and deliveries of a message at a position. Arrays have shape (sightings,), sends first."""

    queue: Ints
    offset: Ints
    message: Ints
    row: Ints  # in columns.sends or columns.deliveries
    from_send: Mask


def placements_of(columns: Columns, sent: Ints, delivered: Ints) -> MessagePositions:
    """Return the sightings among these rows of sends and of deliveries; without a position or key there is none."""
    sends, deliveries = columns.sends, columns.deliveries
    known = (sends.log[sent] != UNKNOWN) & (sends.queue_offset[sent] != UNKNOWN)
    placed = sent[known]
    # A delivery with an unreadable body names no message.
    read = delivered[deliveries.message[delivered] != UNKNOWN]
    return MessagePositions(
        queue=np.concatenate((sends.log[placed], deliveries.log[read])),
        offset=np.concatenate((sends.queue_offset[placed], deliveries.queue_offset[read])),
        message=np.concatenate((sends.message[placed], deliveries.message[read])),
        row=np.concatenate((placed, read)),
        from_send=np.repeat([True, False], [len(placed), len(read)]),
    )


def position_ids(queue: Ints, offset: Ints) -> Ints:
    """Number the positions of sightings, shape (sightings,); equal positions get equal numbers.

    The numbers are small enough for a table.
    """
    size = len(queue)
    if not size:
        return queue
    low = int(offset.min())
    span = int(offset.max()) - low + 1
    table_size = (int(queue.max()) + 1) * span
    if table_size <= 4 * size + 1024:
        return queue * span + (offset - low)
    # A table of all offsets would be mostly empty: number the offsets that occur, then the positions.
    distinct, rank = np.unique(offset, return_inverse=True)
    ids: Ints
    _, ids = np.unique(queue * len(distinct) + rank, return_inverse=True)
    return ids


def first_at(ids: Ints) -> Ints:
    """Return, for each sighting, the index of the first sighting with the same id, shape (sightings,)."""
    size = len(ids)
    table = np.empty(int(ids.max()) + 1 if size else 0, np.int64)
    table[ids[::-1]] = np.arange(size - 1, -1, -1)  # the last write is that of the first sighting
    return table[ids]


def conflicting(positions: MessagePositions) -> tuple[Ints, Ints]:
    """Return the indices of pairs of sightings of two messages at one position, both of shape (pairs,).

    Each position with two messages has one pair: its first sighting, and its first sighting of another message.
    """
    ids = position_ids(positions.queue, positions.offset)
    first = first_at(ids)
    others = np.flatnonzero(positions.message != positions.message[first])
    _, once = np.unique(ids[others], return_index=True)
    others = others[once]
    return first[others], others
