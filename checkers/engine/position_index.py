"""Indexes message events by position (queue, offset) and by call. All kernels share one index of the same columns.

A *position* gets a small number, so that a table lookup replaces a search. Equal positions have equal numbers, and
numbers ascend with queue and offset. Memory grows with the number of events, not with the size of offsets: if offsets
are far apart, the number of a position is its rank. A *stream* is the deliveries of one queue to one group. Each part
of the index is computed on first use.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from staticfire.checkers.model.columns import UNKNOWN, Columns, Commits, Ints, Mask, MessageEvents

EMPTY = -2  # in `message_at`: no event has this position; -1 is a message without a readable key


class PositionIndex:
    """The index of columns that hold whole queues, with rows sorted by queue, then by op."""

    def __init__(self, columns: Columns) -> None:
        # The index does not hold the columns: their cache holds the index, and a reference cycle would keep a partition
        # in memory until the garbage collector runs.
        self._sends, self._deliveries = columns.sends, columns.deliveries
        self._groups = len(columns.names.groups)

    @cached_property
    def _numbered(self) -> tuple[int, Ints, Ints]:
        sends, deliveries = self._sends, self._deliveries
        size, (send_position, delivery_position) = number_positions(
            (sends.log, sends.queue_offset), (deliveries.log, deliveries.queue_offset)
        )
        return size, send_position, delivery_position

    @property
    def size(self) -> int:
        """An upper bound of the numbers of positions."""
        return self._numbered[0]

    @property
    def send_position(self) -> Ints:
        return self._numbered[1]

    @property
    def delivery_position(self) -> Ints:
        return self._numbered[2]

    @cached_property
    def placed(self) -> Mask:
        """Whether the position of each send is known, shape (sends,)."""
        sends = self._sends
        known: Mask = (sends.log != UNKNOWN) & (sends.queue_offset != UNKNOWN)
        return known

    @cached_property
    def message_at(self) -> Ints:
        """The id of a message at each position (one that was sent there, if any), or EMPTY; shape (size,)."""
        sends, deliveries = self._sends, self._deliveries
        table = np.full(self.size, EMPTY, np.int64)
        table[self.delivery_position] = deliveries.message
        table[self.send_position[self.placed]] = sends.message[self.placed]
        return table

    @cached_property
    def conflicting_deliveries(self) -> Ints:
        """Rows of deliveries whose message is not the one in `message_at`."""
        deliveries = self._deliveries
        return np.flatnonzero(self.message_at[self.delivery_position] != deliveries.message)

    @cached_property
    def conflicting_sends(self) -> Ints:
        """Rows of sends with a known position whose message is not the one in `message_at`."""
        sends = self._sends
        other = self.message_at[self.send_position] != sends.message
        return np.flatnonzero(other & self.placed)

    @cached_property
    def delivered_at(self) -> Mask:
        """Whether there is a delivery from each position, shape (size,)."""
        flags = np.zeros(self.size, np.bool_)
        flags[self.delivery_position] = True
        return flags

    @cached_property
    def streams(self) -> Streams:
        return Streams(self._deliveries, self._groups, self.size, self.delivery_position)


class Streams:
    """The deliveries sorted by stream (queue, then group), in the order of listener calls."""

    def __init__(
        self, deliveries: MessageEvents, groups: int, positions: int, position: Ints
    ) -> None:
        self._deliveries, self._positions, self._position = deliveries, positions, position
        stream_of = _stream_ids(groups, deliveries)
        # Rows by stream, then by completion; None: they are in this order already.
        self.by_end = stable_order(stream_of)
        ordered = taken(stream_of, self.by_end)
        self.number, self.starts = number_runs(ordered)
        self.ids = ordered[self.starts[:-1]]

    def __len__(self) -> int:
        return len(self.starts) - 1

    def ended(self, stream: int) -> slice | Ints:
        """Return the rows of deliveries of one stream (an id of `stream_ids`), by completion."""
        at = int(np.searchsorted(self.ids, stream))
        if at == len(self.ids) or self.ids[at] != stream:
            return slice(0)
        within = slice(int(self.starts[at]), int(self.starts[at + 1]))
        return within if self.by_end is None else self.by_end[within]

    @cached_property
    def rows(self) -> Ints | None:
        """Rows of deliveries by stream, then by call; None: they are in this order already."""
        called = taken(self._deliveries.invoke_index, self.by_end)
        if not np.any((called[1:] < called[:-1]) & (self.number[1:] == self.number[:-1])):
            return self.by_end
        order = np.lexsort((called, self.number))
        return order if self.by_end is None else self.by_end[order]

    def row(self, indices: Ints) -> Ints:
        """Return the rows of deliveries at these indices of `rows`."""
        return indices if self.rows is None else self.rows[indices]

    @cached_property
    def position(self) -> Ints:
        """The position of each delivery, in the order of `rows`."""
        return taken(self._position, self.rows)

    @cached_property
    def highest(self) -> Ints:
        """The highest position that the stream had reached before each row, -1 at its start; in the order of `rows`."""
        lifted = self.position + self.number * self._positions
        reached = np.maximum.accumulate(lifted)
        before = np.empty_like(reached)
        before[1:] = reached[:-1]
        before -= self.number * self._positions
        before[self.starts[:-1]] = -1
        return before

    @cached_property
    def back(self) -> Ints:
        """Indices in `rows` of deliveries that are not above all earlier ones: delivered again, or late."""
        return np.flatnonzero(self.position <= self.highest)

    @cached_property
    def late(self) -> Ints:
        """The part of `back` that is the first delivery of its position to the group."""
        if not len(self.back):
            return self.back
        candidate = np.zeros(self._positions, np.bool_)
        candidate[self.position[self.back]] = True
        at = np.flatnonzero(candidate[self.position])
        at = at[np.lexsort((at, self.position[at], self.number[at]))]
        same_position = self.position[at[1:]] == self.position[at[:-1]]
        again = same_position & (self.number[at[1:]] == self.number[at[:-1]])
        firsts = at[np.concatenate(([True], ~again))]
        return np.intersect1d(self.back, firsts, assume_unique=True)


def index_of(columns: Columns) -> PositionIndex:
    """Return the index of these columns; the first call makes it, and their cache keeps it."""
    index = columns.cache.get("position index")
    if index is None:
        index = columns.cache["position index"] = PositionIndex(columns)
    assert isinstance(index, PositionIndex)
    return index


def stream_ids(columns: Columns, rows: MessageEvents | Commits) -> Ints:
    """Return the id of the stream of each row, shape (rows,): not negative, ascending by queue, then by group."""
    return _stream_ids(len(columns.names.groups), rows)


def stream_id(columns: Columns, queue: int, group: int) -> int:
    """Return the id that `stream_ids` gives to one stream."""
    return (queue + 1) * (len(columns.names.groups) + 1) + group + 1


def _stream_ids(groups: int, rows: MessageEvents | Commits) -> Ints:
    return (rows.log + 1) * (groups + 1) + rows.group + 1


def number_positions(*sightings: tuple[Ints, Ints]) -> tuple[int, list[Ints]]:
    """Number the positions of several pairs of columns (queue, offset), each sorted by queue.

    Return an upper bound of the numbers, and the number of each row, in arrays of the same shapes.
    """
    bounds = [_bounds(queue, offset) for queue, offset in sightings if len(queue)]
    if not bounds:
        return 0, [np.zeros(0, np.int64) for _ in sightings]
    queues = 1 + max(int(of[0][-1]) for of in bounds) + 1  # from UNKNOWN on
    low, high = np.full(queues, np.iinfo(np.int64).max), np.full(queues, np.iinfo(np.int64).min)
    for of, lowest, highest in bounds:
        low[of + 1] = np.minimum(low[of + 1], lowest)
        high[of + 1] = np.maximum(high[of + 1], highest)
    spans = np.where(high >= low, high.astype(np.float64) - low + 1, 0)
    rows = sum(len(queue) for queue, _ in sightings)
    if float(spans.sum()) > 4 * rows + 1024:
        return _ranked(sightings)
    ends = np.cumsum(spans.astype(np.int64))
    base = ends - spans.astype(np.int64) - low
    return int(ends[-1]), [_shifted(queue, offset, base) for queue, offset in sightings]


def _bounds(queue: Ints, offset: Ints) -> tuple[Ints, Ints, Ints]:
    """Return the queues that occur, and the lowest and highest offset of each."""
    _, starts = number_runs(queue)
    starts = starts[:-1]
    return queue[starts], np.minimum.reduceat(offset, starts), np.maximum.reduceat(offset, starts)


def _shifted(queue: Ints, offset: Ints, base: Ints) -> Ints:
    if not len(queue):
        return offset
    shift = base[int(queue[0]) + 1] if queue[0] == queue[-1] else base[queue + 1]
    positions: Ints = offset + shift
    return positions


def _ranked(sightings: tuple[tuple[Ints, Ints], ...]) -> tuple[int, list[Ints]]:
    queue = np.concatenate([queue for queue, _ in sightings])
    offset = np.concatenate([offset for _, offset in sightings])
    order = np.lexsort((offset, queue))
    new = (np.diff(queue[order]) != 0) | (np.diff(offset[order]) != 0)
    number = np.empty(len(order), np.int64)
    number[order] = np.concatenate(([0], np.cumsum(new)))
    cuts = np.cumsum([len(queue) for queue, _ in sightings])[:-1]
    return int(number[order[-1]]) + 1, np.split(number, cuts)


def number_runs(ids: Ints) -> tuple[Ints, Ints]:
    """Number the runs of equal ids from 0 on.

    Return the number of each row's run, shape (rows,), and the first row of each run followed by the number of rows,
    shape (runs + 1,).
    """
    changes = np.flatnonzero(ids[1:] != ids[:-1]) + 1
    starts = np.concatenate(([0], changes, [len(ids)])) if len(ids) else np.zeros(1, np.int64)
    return np.repeat(np.arange(len(starts) - 1), np.diff(starts)), starts


def stable_order(ids: Ints) -> Ints | None:
    """Return the rows in the stable order of their ids, which must not be negative; None if they are in order."""
    if bool(np.all(ids[1:] >= ids[:-1])):
        return None
    # NumPy sorts 16-bit integers by radix.
    narrow = ids.astype(np.uint16) if int(ids.max()) < 1 << 16 else ids
    return np.argsort(narrow, kind="stable")


def taken(values: Ints, rows: Ints | None) -> Ints:
    return values if rows is None else values[rows]
