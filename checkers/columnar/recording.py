"""Ops to a history in columns, as they come and in little memory."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import orjson
import pyarrow as pa

from checkers.column_builder import SENT_TWICE, TouchBuilder
from checkers.columnar.manifest import Dictionaries, Lines, Manifest
from checkers.columnar.op_values import invocation_of_send, is_plain_consume, is_plain_send, size_of
from checkers.columnar.rows import QueueRows, to_table
from checkers.columnar.schema import OPS
from checkers.columnar.sent_keys import SentKeys
from checkers.columnar.writer import HELD_ROWS, PART_ROWS, ColumnarWriter
from checkers.history import NEMESIS, HistoryError, Op, encode_op

CHUNK = 1 << 16  # touches, or ops, that are turned into arrays at a time


class ColumnarRecorder:
    """Takes the ops of one history; a context that lets go of the files.

    Methods raise HistoryError for an op that breaks the conventions, and OSError.
    """

    def __init__(
        self,
        folder: Path,
        run_id: str,
        *,
        part_rows: int = PART_ROWS,
        held_rows: int = HELD_ROWS,
        chunk: int = CHUNK,
    ) -> None:
        self._writer = ColumnarWriter(folder, run_id, part_rows=part_rows, held_rows=held_rows)
        self._builder = TouchBuilder(self._pair)
        self._sent = SentKeys()
        self._chunk = chunk
        self._rows: list[tuple[Any, ...]] = []  # of ops
        self._ops = 0
        self._paired: Op | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, op: Op) -> None:
        """Take the next op."""
        self._builder.add(op)
        self._ops = op.index + 1
        if self._paired is op or _touches_later(op):
            if op.f == "probe":
                self._writer.add_event(encode_op(op))
        else:
            self._event(op)
        if len(self._rows) >= self._chunk or self._builder.touches >= self._chunk:
            self._take()

    def flush(self) -> None:
        """Make everything so far durable; the history still says that it is torn."""
        self._take()
        with self._builder.ended_for_now():
            sends, deliveries, commits = self._builder.take()
        touches = to_table(self._builder.names(), QueueRows(sends, deliveries, commits))
        self._writer.flush(self._dictionaries(), self._ops, touches, self._take_ops())

    def finish(self, *, complete: bool = True, source: Lines | None = None) -> Manifest:
        """End the history. `complete` is False for a torn one, `source` the JSON lines that say the same."""
        self._builder.finish()
        self._take()
        return self._writer.finish(
            self._dictionaries(), self._ops, complete=complete, source=source
        )

    def _pair(self, op: Op, invoke: Op, touches: int) -> None:
        self._paired = op
        if not touches:  # it did not happen
            if invoke is not op:
                self._event(invoke)
            self._event(op)
            return
        value = invoke_value = None
        if op.f == "consume":
            value = None if is_plain_consume(op.value) else op.value
            invoke_value = None if invoke.value == op.value else invoke.value
        elif op.f == "commit":
            value = op.value
        else:
            value = None if is_plain_send(op) else op.value
            if invoke is not op and invoke.value != invocation_of_send(op.value):
                invoke_value = invoke.value
        same = (invoke.process, invoke.node, invoke.error) == (op.process, op.node, None)
        if invoke is not op and not same:
            self._writer.add_event(encode_op(invoke))
        self._row(op, invoke, touches, value, invoke_value)

    def _event(self, op: Op) -> None:
        self._writer.add_event(encode_op(op))
        self._row(op, op, 0, None, None)

    def _row(
        self,
        op: Op,
        invoke: Op,
        touches: int,
        value: dict[str, Any] | None,
        invoke_value: dict[str, Any] | None,
    ) -> None:
        self._rows.append(
            (
                op.index,
                invoke.index,
                op.time_ns,
                invoke.time_ns,
                op.process,
                touches,
                size_of(op.value),
                op.type,
                op.f,
                op.node,
                op.error,
                None if value is None else orjson.dumps(value).decode(),
                None if invoke_value is None else orjson.dumps(invoke_value).decode(),
            )
        )

    def _take(self) -> None:
        """Turn what was collected into arrays."""
        builder = self._builder
        sends, deliveries, commits = builder.take()
        names = builder.names()
        if (again := self._sent.add(sends.message)) is not None:
            raise HistoryError(SENT_TWICE.format(names.key(again)))
        self._writer.add(names, QueueRows(sends, deliveries, commits))
        if self._rows:
            self._writer.add_ops(self._take_ops())
        builder.forget()

    def _take_ops(self) -> pa.Table:
        rows, self._rows = self._rows, []
        columns = zip(*rows, strict=True) if rows else ((),) * len(OPS.names)
        return pa.table(dict(zip(OPS.names, columns, strict=True)), schema=OPS)

    def _dictionaries(self) -> Dictionaries:
        names = self._builder.names()
        return Dictionaries(
            topics=names.topics,
            groups=names.groups,
            queues=names.queues,
            processes=self._builder.timeline.nodes,
            other_keys=names.other_keys,
            tags=names.tags,
            sharding_keys=names.sharding_keys,
        )


def _touches_later(op: Op) -> bool:
    """Whether it is an invocation whose touches come with its completion, or at the end."""
    if op.type != "invoke" or op.process == NEMESIS:
        return False
    if op.f == "consume":
        return bool(op.value["messages"])
    return op.f == "send" or (op.f == "probe" and "key" in op.value)
