"""Writes ops to the two tables of a history in columns (message events, ops), and ops about no message as lines."""

from __future__ import annotations

from collections.abc import Callable

import orjson
import pyarrow as pa

from staticfire.checkers.formats.columnar.op_values import (
    invocation_of_send,
    is_plain_call,
    is_plain_consume,
    is_plain_send,
    size_of,
)
from staticfire.checkers.formats.columnar.schema import OPS
from staticfire.checkers.model.building.column_builder import ColumnBuilder
from staticfire.checkers.model.building.timeline_builder import has_code, has_weak_half
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.history import NEMESIS, Op, Stamp, encode_op
from staticfire.checkers.op_kinds.catalogue import CONDENSED
from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.producer import SEND_MANY

_NO_STAMP = Stamp(UNKNOWN, UNKNOWN)


class OpTables:
    """Collects ops. `builder` makes their message events; `event` receives each op without message events, as a line.

    Methods raise HistoryError for an op that breaks the conventions, and any error that `event` raises.
    """

    def __init__(self, event: Callable[[bytes], None]) -> None:
        self.builder = ColumnBuilder(self._pair)
        self._write_event = event
        self._rows: list[tuple[object, ...]] = []  # of the table of ops
        self._paired: Op | None = None

    @property
    def rows(self) -> int:
        """The number of ops that `take_ops` would return."""
        return len(self._rows)

    def add(self, op: Op) -> None:
        """Take the next op."""
        self.builder.add(op)
        if self._paired is op or _has_events_later(op):
            refused = has_code(op)
            unended = op.value.get("end_sent") is False or has_weak_half(op)
            if op.f == "probe" or refused or unended:
                self._write_event(encode_op(op))
        else:
            self._event(op)

    def take_ops(self) -> pa.Table:
        """Return the rows of ops since the last call, of schema OPS."""
        rows, self._rows = self._rows, []
        columns = zip(*rows, strict=True) if rows else ((),) * len(OPS.names)
        return pa.table(dict(zip(OPS.names, columns, strict=True)), schema=OPS)

    def _pair(self, op: Op, invoke: Op, message_events: int) -> None:
        self._paired = op
        if not message_events:  # the delivery did not happen
            if invoke is not op:
                self._event(invoke)
            self._event(op)
            return
        value = invoke_value = None
        if op.f in CONDENSED:
            value = op.value
            invoke_value = None if invoke.value == op.value else invoke.value
        elif op.f == "consume":
            value = None if is_plain_consume(op.value, contents=invoke is op) else op.value
            invoke_value = None if is_plain_call(invoke.value, op.value) else invoke.value
        elif op.f == "commit":
            value = op.value
        else:
            value = None if is_plain_send(op) else op.value
            if invoke is not op and invoke.value != invocation_of_send(op.value):
                invoke_value = invoke.value
        same = (invoke.process, invoke.node, invoke.error) == (op.process, op.node, None)
        if invoke is not op and not same:
            self._write_event(encode_op(invoke))
        self._row(op, invoke, message_events, value, invoke_value)

    def _event(self, op: Op) -> None:
        self._write_event(encode_op(op))
        self._row(op, op, 0, None, None)

    def _row(
        self,
        op: Op,
        invoke: Op,
        message_events: int,
        value: dict[str, object] | None,
        invoke_value: dict[str, object] | None,
    ) -> None:
        self._rows.append(
            (
                op.index,
                invoke.index,
                op.time_ns,
                invoke.time_ns,
                op.process,
                message_events,
                size_of(op.value),
                op.type,
                op.f,
                op.node,
                op.error,
                None if value is None else orjson.dumps(value).decode(),
                None if invoke_value is None else orjson.dumps(invoke_value).decode(),
                *(op.stamp or _NO_STAMP),
                *(invoke.stamp or _NO_STAMP),
            )
        )


def _has_events_later(op: Op) -> bool:
    """Whether an op is an invocation whose message events come with its completion or at the end of the history."""
    if op.type != "invoke" or op.process == NEMESIS:
        return False
    if op.f == "consume":
        return bool(op.value["messages"])
    if op.f == CONSUME_MANY:
        return bool(op.value["ranges"])
    return op.f in ("send", SEND_MANY) or (op.f == "probe" and "key" in op.value)
