"""The messages of a queue by position, known from acknowledged sends and from deliveries to any group."""

from __future__ import annotations

from functools import cached_property

import numpy as np

from staticfire.checkers.engine.kernel import Context
from staticfire.checkers.engine.position_index import index_of, number_runs
from staticfire.checkers.model.columns import (
    UNKNOWN,
    Columns,
    Ints,
    MessageEvents,
    Outcome,
    Transaction,
    joined,
)


class StoredMessages:
    """Stored messages of whole queues, numbered 0, 1, 2, ... in the order of queue and offset.

    Delayed and transactional messages, which brokers first keep elsewhere, are among them only if a group received
    them.
    """

    def __init__(self, columns: Columns, context: Context) -> None:
        self._columns, self._context = columns, context

    @cached_property
    def _rows(self) -> tuple[Ints, Ints]:
        """The row and the position of each message. Rows of deliveries are counted on from the number of sends."""
        columns, index = self._columns, index_of(self._columns)
        sends, deliveries = columns.sends, columns.deliveries
        visible = (sends.outcome == Outcome.OK) & (sends.transaction == Transaction.NONE)
        rows = np.flatnonzero(visible & (sends.due_ns == UNKNOWN) & index.placed)
        position = index.send_position[rows]
        unproven = index.delivered_at.copy()
        unproven[position] = False
        given = np.flatnonzero(unproven[index.delivery_position])
        if len(given):
            of_given = index.delivery_position[given]
            order = np.lexsort((deliveries.invoke_index[given], of_given))
            firsts = given[order[number_runs(of_given[order])[1][:-1]]]
            rows = np.concatenate((rows, firsts + len(sends)))
            position = np.concatenate((position, index.delivery_position[firsts]))
        order = np.argsort(position, kind="stable")
        return rows[order], position[order]

    @property
    def position(self) -> Ints:
        """The number of each message's position (`position_index`), ascending."""
        return self._rows[1]

    @cached_property
    def queue(self) -> Ints:
        return self._column("log")

    @cached_property
    def offset(self) -> Ints:
        return self._column("queue_offset")

    def _column(self, name: str) -> Ints:
        rows, sends = self._rows[0], self._columns.sends
        values: Ints = getattr(sends, name)
        if np.any(rows >= len(sends)):
            values = np.concatenate((values, getattr(self._columns.deliveries, name)))
        found: Ints = values[rows]
        return found

    def due(self, row: int, first_offset: int) -> Ints:
        """Return the messages from `first_offset` on, below the delivery `row`, that its group must receive."""
        deliveries, names = self._columns.deliveries, self._columns.names
        group, topic = names.groups[deliveries.group[row]], names.topics[deliveries.topic[row]]
        if topic not in self._context.facts.groups.get(group, ()):
            return np.zeros(0, np.int64)
        queue = int(deliveries.log[row])
        drain = self._context.timeline.drains_of(group, topic)
        end = None if drain is None else drain.ends.get(names.logs[queue])
        if end is not None:
            first_offset = max(first_offset, end.min_offset)
        start = int(np.searchsorted(self.queue, queue))
        stop = int(np.searchsorted(self.queue, queue, side="right"))
        bounds = (first_offset, deliveries.queue_offset[row])
        first, last = start + np.searchsorted(self.offset[start:stop], bounds)
        return self.matching(np.arange(first, last), group, int(deliveries.invoke_ns[row]))

    def matching(self, found: Ints, group: str, given_ns: int) -> Ints:
        """Return those of `found` that the filter of a group accepts, according to their sends.

        `given_ns`: the time at which the group received the next message behind them.
        """
        if not len(found) or group not in self._context.facts.wanted_tags:
            return found
        found = found[self._rows[0][found] < len(self._columns.sends)]
        sends = self._columns.sends.where(self._rows[0][found])
        return found[self._context.matches(self._columns, sends, group, given_ns)]

    def events(self, found: Ints) -> MessageEvents:
        """Return the evidence of the messages `found`, in their order: acknowledged sends, or else first deliveries."""
        rows, sends = self._rows[0][found], self._columns.sends
        acked = rows < len(sends)
        if np.all(acked):
            return sends.where(rows)
        given = self._columns.deliveries.where(rows[~acked] - len(sends))
        both = joined(MessageEvents, [sends.where(rows[acked]), given])
        return both.where(np.argsort(np.concatenate((found[acked], found[~acked]))))
