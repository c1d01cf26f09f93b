"""Maps each position (message queue, queue offset) to the message that was seen there.

A position is known from an acknowledgement (SEND_OK or a weaker one) and from every delivery, however it
ended. Cost grows with the number of events, never with the size of offsets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from staticfire.checkers.model.columns import UNKNOWN, Columns, Ints, Mask


@dataclass(frozen=True, slots=True, kw_only=True)
class MessagePositions:
    """Every sighting of a message at a position; arrays of shape (sightings,), sends first."""

    queue: Ints
    offset: Ints
    message: Ints
    row: Ints  # in columns.sends or columns.deliveries
    from_send: Mask


def placements_of(columns: Columns, sent: Ints, delivered: Ints) -> MessagePositions:
    """Return the sightings among some rows of sends and of deliveries."""
    sends, deliveries = columns.sends, columns.deliveries
    known = (sends.log[sent] != UNKNOWN) & (sends.queue_offset[sent] != UNKNOWN)
    placed = sent[known]
    # An unreadable body names no message.
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

    The numbers are small enough to index a table with.
    """
    size = len(queue)
    if not size:
        return queue
    low = int(offset.min())
    span = int(offset.max()) - low + 1
    table_size = (int(queue.max()) + 1) * span
    if table_size <= 4 * size + 1024:
        return queue * span + (offset - low)
    # A table would be mostly empty: number the offsets that occur, then the positions.
    distinct, rank = np.unique(offset, return_inverse=True)
    ids: Ints
    _, ids = np.unique(queue * len(distinct) + rank, return_inverse=True)
    return ids


def first_at(ids: Ints) -> Ints:
    """Return for each sighting the first sighting with the same id, shape (sightings,)."""
    size = len(ids)
    table = np.empty(int(ids.max()) + 1 if size else 0, np.int64)
    table[ids[::-1]] = np.arange(size - 1, -1, -1)  # the last write is that of the first sighting
    return table[ids]


def conflicting(positions: MessagePositions) -> tuple[Ints, Ints]:
    """Return pairs of sightings (first, other) of two messages at one position.

    One pair a position: its first sighting, and the first sighting there of another message.
    """
    ids = position_ids(positions.queue, positions.offset)
    first = first_at(ids)
    others = np.flatnonzero(positions.message != positions.message[first])
    _, once = np.unique(ids[others], return_index=True)
    others = others[once]
    return first[others], others
