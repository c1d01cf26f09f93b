"""The time of each event, as exactly as the run could measure it.

`time_ns` of an op is the time at which the harness recorded it, so it is the latest time at which the event can have
happened. A client that stamps its events gives more (`Op.stamp`): the harness measured the offset of the client's
clock, and the stamp has the bound of the error. For an event without a stamp, the error is the time that the harness
took to read it. A simulated run has no stamps, because it records an op at the instant it happens.

A checker that compares durations uses the earliest or the latest time, whichever favours the system: an unknown time
widens a tolerance and never narrows it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from staticfire.checkers.model.columns import UNKNOWN, Ints, Mask, MessageEvents
from staticfire.checkers.model.history import Op, Stamp

Rows = Mask | Ints | slice | int  # with an int, the functions below return a scalar
ALL = slice(None)


def began_earliest(events: MessageEvents, rows: Rows = ALL) -> Ints:
    """Return the earliest time in ns at which each invocation can have happened, shape (rows,)."""
    return _earliest(events.invoke_ns[rows], events.invoke_at_ns[rows], events.within_ns[rows])


def began_latest(events: MessageEvents, rows: Rows = ALL) -> Ints:
    """Return the latest time in ns at which each invocation can have happened, shape (rows,)."""
    return _latest(events.invoke_ns[rows], events.invoke_at_ns[rows], events.within_ns[rows])


def ended_earliest(events: MessageEvents, rows: Rows = ALL) -> Ints:
    """Return the earliest time in ns at which each completion can have happened, shape (rows,)."""
    return _earliest(events.time_ns[rows], events.at_ns[rows], events.within_ns[rows])


def _earliest(written_ns: Ints, at_ns: Ints, within_ns: Ints) -> Ints:
    found: Ints = np.where(at_ns == UNKNOWN, written_ns, np.minimum(at_ns - within_ns, written_ns))
    return found


def _latest(written_ns: Ints, at_ns: Ints, within_ns: Ints) -> Ints:
    found: Ints = np.where(at_ns == UNKNOWN, written_ns, np.minimum(at_ns + within_ns, written_ns))
    return found


class StampRows:
    """Collects the stamps of ops; `take` puts them into the events of these ops."""

    __slots__ = ("_rows",)

    def __init__(self) -> None:
        self._rows: list[tuple[int, int, int, int]] = []

    def add(self, op: Op, invoke: Op) -> None:
        """Take an op and its invocation (the same op if there is only one)."""
        nothing = Stamp(UNKNOWN, 0)
        ended, began = op.stamp or nothing, invoke.stamp or nothing
        within_ns = max(ended.within_ns, began.within_ns)
        self._rows.append((op.index, ended.at_ns, began.at_ns, within_ns))

    def take(
        self, sends: MessageEvents, deliveries: MessageEvents
    ) -> tuple[MessageEvents, MessageEvents]:
        """Return the events with the stamps that were collected since the last call."""
        if not self._rows:
            return sends, deliveries
        table = np.array(self._rows, np.int64)
        table = table[np.argsort(table[:, 0], kind="stable")]
        self._rows = []
        return _stamped(sends, table), _stamped(deliveries, table)


def _stamped(events: MessageEvents, table: Ints) -> MessageEvents:
    row = np.minimum(np.searchsorted(table[:, 0], events.op_index), len(table) - 1)
    there = table[row, 0] == events.op_index
    at_ns, invoke_at_ns, within_ns = (
        np.where(there, table[row, column], UNKNOWN) for column in (1, 2, 3)
    )
    return replace(events, at_ns=at_ns, invoke_at_ns=invoke_at_ns, within_ns=within_ns)
