"""Records ops one by one as a history in columns, in little memory."""

from __future__ import annotations

from pathlib import Path
from typing import Self

from staticfire.checkers.formats.columnar.manifest import Dictionaries, Lines, Manifest
from staticfire.checkers.formats.columnar.op_tables import OpTables
from staticfire.checkers.formats.columnar.rows import QueueRows, to_table
from staticfire.checkers.formats.columnar.sent_keys import SentKeys
from staticfire.checkers.formats.columnar.writer import HELD_ROWS, PART_ROWS, ColumnarWriter
from staticfire.checkers.model.building.column_builder import SENT_TWICE
from staticfire.checkers.model.history import HistoryError, Op

CHUNK = 1 << 16  # message events, or ops, that become arrays together


class ColumnarRecorder:
    """Takes the ops of one history; a context that closes the files.

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
        self._tables = OpTables(self._writer.add_event)
        self._builder = self._tables.builder
        self._sent = SentKeys()
        self._chunk = chunk
        self._ops = 0

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._writer.close()

    def add(self, op: Op) -> None:
        """Take the next op."""
        self._tables.add(op)
        self._ops = op.index + 1
        if self._tables.rows >= self._chunk or self._builder.events >= self._chunk:
            self._take()

    def flush(self) -> None:
        """Make all ops so far durable. The history stays marked as torn."""
        self._take()
        with self._builder.ended_for_now():
            sends, deliveries, commits = self._builder.take()
        events = to_table(self._builder.names(), QueueRows(sends, deliveries, commits))
        self._writer.flush(self._dictionaries(), self._ops, events, self._tables.take_ops())

    def finish(self, *, complete: bool = True, source: Lines | None = None) -> Manifest:
        """End the history. `complete` is False for a torn one, `source` the JSON lines with the same ops."""
        self._builder.finish()
        self._take()
        return self._writer.finish(
            self._dictionaries(), self._ops, complete=complete, source=source
        )

    def _take(self) -> None:
        """Make arrays of the collected ops."""
        builder = self._builder
        sends, deliveries, commits = builder.take()
        names = builder.names()
        if (again := self._sent.add(sends.message)) is not None:
            raise HistoryError(SENT_TWICE.format(names.key(again)))
        self._writer.add(names, QueueRows(sends, deliveries, commits))
        if self._tables.rows:
            self._writer.add_ops(self._tables.take_ops())
        builder.forget()

    def _dictionaries(self) -> Dictionaries:
        names = self._builder.names()
        return Dictionaries(
            topics=names.topics,
            groups=names.groups,
            queues=names.logs,
            processes=self._builder.timeline.nodes,
            other_keys=names.other_keys,
            tags=names.tags,
            sharding_keys=names.sharding_keys,
        )
