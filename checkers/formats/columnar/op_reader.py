"""Reads ops from columns in the order of their indices, with a window of the history in memory.

An op that was completed long after its invocation, or never, would keep all ops in between in memory. There are few
such ops. A first pass over a few columns finds them.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Any, NamedTuple

import numpy as np
import orjson
import pyarrow as pa
import pyarrow.compute as pc

from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.op_values import (
    DeliveryEvent,
    SendEvent,
    consume_value,
    invocation_of_send,
    send_value,
)
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.rows import from_table
from staticfire.checkers.formats.columnar.schema import MESSAGE_EVENTS, OPS
from staticfire.checkers.model.columns import UNKNOWN, Ints, MessageEvents, Names
from staticfire.checkers.model.history import HistoryError, Op, Stamp
from staticfire.checkers.op_kinds.catalogue import CONDENSED
from staticfire.checkers.op_kinds.former_fields import with_current_fields

WINDOW = 1 << 15  # ops
FAR = 1 << 16  # indices


class _OpRow(NamedTuple):
    """A row of ops, in the order of schema.OPS."""

    op_index: int  # column `index`; every tuple has a method of that name
    invoke_index: int
    time_ns: int
    invoke_ns: int
    process: int
    message_events: int
    size: int
    type: Any
    f: str
    node: str | None
    error: str | None
    value: str | None
    invoke_value: str | None
    at_ns: int
    within_ns: int
    invoke_at_ns: int
    invoke_within_ns: int


class _Delivered(NamedTuple):
    queue: int
    group: int
    message_events: list[DeliveryEvent]


class _EventsByOp(NamedTuple):
    """Message events by op index."""

    sends: dict[int, SendEvent]
    deliveries: dict[int, _Delivered]


def read_ops(history: ColumnarHistory) -> Iterator[Op]:
    """Yield all ops, invocations included, ascending by index. Raises HistoryError."""
    ready = {op.index: op for op in history.events()}
    known = set(ready)
    far = _far_ops(history)
    for op in _far(history, far):
        if op.index not in known:
            ready[op.index] = op
    known |= set(ready)
    cursors = [_Cursor(history, queue) for queue in history.queues()]
    following = 0
    for window in _windows(history):
        window = _without(window, "index", far)
        if len(window):
            last = int(pc.max(window["index"]).as_py())
            events = _events_by_op([cursor.until(last) for cursor in cursors])
            for op in _ops(history.names, window, events):
                if op.index in known:
                    continue
                if op.index in ready or op.index < following:
                    raise HistoryError(f"{history.folder} has op index {op.index} twice")
                ready[op.index] = op
        while following in ready:
            yield ready.pop(following)
            following += 1
    if ready or following != history.manifest.ops:
        raise HistoryError(f"{history.folder} lacks the op with index {following}")


def _windows(history: ColumnarHistory) -> Iterator[pa.Table]:
    for part in history.manifest.op_parts:
        table = history.op_table(part)
        for start in range(0, len(table), WINDOW):
            yield table.slice(start, WINDOW)
    yield OPS.empty_table()  # so that the loop also runs for a history without parts


def _far_ops(history: ColumnarHistory) -> Ints:
    """Return the indices of ops that were never completed, or long after they began; ascending."""
    found = [np.zeros(0, np.int64)]
    for part in history.manifest.op_parts:
        table = history.op_table(part, ("index", "invoke_index", "message_events", "type"))
        index, invoked = table["index"].to_numpy(), table["invoke_index"].to_numpy()
        with_events = table["message_events"].to_numpy() > 0
        unanswered = pc.equal(table["type"], "invoke").to_numpy()
        found.append(index[with_events & (unanswered | (index - invoked > FAR))])
    return np.unique(np.concatenate(found))


def _far(history: ColumnarHistory, far: Ints) -> Iterator[Op]:
    """Yield the ops with these indices, and their invocations."""
    if not len(far):
        return
    rows = [_with(history.table(part), "op_index", far) for part in _parts(history, far)]
    events = _events_by_op([pa.concat_tables(rows)] if rows else [])
    for part in history.manifest.op_parts:
        yield from _ops(history.names, _with(history.op_table(part), "index", far), events)


def _parts(history: ColumnarHistory, far: Ints) -> Iterator[Part]:
    for part in history.manifest.message_events:
        first, last = np.searchsorted(far, [part.first, part.last + 1])
        if first < last and len(_with(history.table(part, ("op_index",)), "op_index", far)):
            yield part


def _with(table: pa.Table, index: str, ops: Ints) -> pa.Table:
    return table.filter(pa.array(np.isin(table[index].to_numpy(), ops)))


def _without(table: pa.Table, index: str, ops: Ints) -> pa.Table:
    return table.filter(pa.array(~np.isin(table[index].to_numpy(), ops))) if len(ops) else table


class _Cursor:
    """The rows of one queue, part by part."""

    __slots__ = ("_held", "_history", "_parts")

    def __init__(self, history: ColumnarHistory, queue: int) -> None:
        self._history = history
        self._parts = history.manifest.parts_of(queue)[::-1]
        self._held = MESSAGE_EVENTS.empty_table()

    def until(self, last: int) -> pa.Table:
        """Return the next rows, up to op index `last`."""
        while self._parts and self._parts[-1].first <= last:
            table = self._history.table(self._parts.pop())
            self._held = pa.concat_tables([self._held, table]) if len(self._held) else table
        cut = int(np.searchsorted(self._held["op_index"].to_numpy(), last, side="right"))
        rows, self._held = self._held.slice(0, cut), self._held.slice(cut)
        return rows


def _events_by_op(tables: Sequence[pa.Table]) -> _EventsByOp:
    events = _EventsByOp({}, {})
    for table in tables:
        if not len(table):
            continue
        sends, deliveries, _ = from_table(table)
        values = zip(*(getattr(sends, name).tolist() for name in SendEvent._fields), strict=True)
        events.sends.update(zip(sends.op_index.tolist(), map(SendEvent._make, values), strict=True))
        events.deliveries.update(_delivered(deliveries))
    return events


def _delivered(got: MessageEvents) -> Iterator[tuple[int, _Delivered]]:
    columns = (getattr(got, name).tolist() for name in DeliveryEvent._fields)
    rows = zip(
        got.op_index.tolist(),
        got.log.tolist(),
        got.group.tolist(),
        map(DeliveryEvent._make, zip(*columns, strict=True)),
        strict=True,
    )
    for (op, queue, group), of_op in groupby(rows, key=itemgetter(0, 1, 2)):
        yield op, _Delivered(queue, group, [row[3] for row in of_op])


def _ops(names: Names, table: pa.Table, events: _EventsByOp) -> Iterator[Op]:
    """Yield the ops of some rows and their invocations, without ops about no message."""
    for row in map(_OpRow._make, zip(*(column.to_pylist() for column in table), strict=True)):
        if not row.message_events:
            continue
        value = _value(names, row, events)
        yield Op(
            index=row.op_index,
            time_ns=row.time_ns,
            process=row.process,
            type=row.type,
            f=row.f,
            value=value,
            error=row.error,
            node=row.node,
            stamp=_stamp(row.at_ns, row.within_ns),
        )
        if row.invoke_index != row.op_index:
            yield Op(
                index=row.invoke_index,
                time_ns=row.invoke_ns,
                process=row.process,
                type="invoke",
                f=row.f,
                value=_invocation(names, row, value, events),
                node=row.node,
                stamp=_stamp(row.invoke_at_ns, row.invoke_within_ns),
            )


def _stamp(at_ns: int, within_ns: int) -> Stamp | None:
    return None if at_ns == UNKNOWN else Stamp(at_ns, within_ns)


def _value(names: Names, row: _OpRow, events: _EventsByOp) -> Mapping[str, object]:
    if row.value is not None:
        return _json(row.value, row)
    try:
        if row.f == "consume":
            is_call = row.invoke_index == row.op_index
            return consume_value(names, *events.deliveries[row.op_index], contents=is_call)
        send = events.sends[row.op_index]
        return send_value(names, send, size=row.size, type=row.type, error=row.error)
    except (KeyError, IndexError) as error:
        raise HistoryError(
            f"op {row.op_index}: it has no message events that its value follows from"
        ) from error


def _invocation(
    names: Names, row: _OpRow, value: Mapping[str, object], events: _EventsByOp
) -> Mapping[str, object]:
    if row.invoke_value is not None:
        return _json(row.invoke_value, row)
    if row.f == "consume" and row.value is None:
        return consume_value(names, *events.deliveries[row.op_index], contents=True)
    return value if row.f in ("consume", *CONDENSED) else invocation_of_send(value)


def _json(text: str, row: _OpRow) -> dict[str, object]:
    try:
        value = orjson.loads(text)
    except orjson.JSONDecodeError as error:
        raise HistoryError(f"op {row.op_index}: its value is not JSON ({error.msg})") from error
    if type(value) is not dict:
        raise HistoryError(f"op {row.op_index}: its value is {value!r}; expected dict")
    return with_current_fields(row.f, value)
