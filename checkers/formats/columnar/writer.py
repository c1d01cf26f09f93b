"""Writes a history in columns: it takes rows in chunks of any size, and writes whole parts in bounded memory."""

from __future__ import annotations

import os
import shutil
import zlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from staticfire.checkers.formats.columnar.files import encode_table, write_durably
from staticfire.checkers.formats.columnar.manifest import (
    Dictionaries,
    Lines,
    Manifest,
    Part,
    write_manifest,
)
from staticfire.checkers.formats.columnar.rows import QueueRows, by_queue, to_table
from staticfire.checkers.formats.columnar.schema import (
    EVENTS,
    MANIFEST,
    MESSAGE_EVENTS,
    OPS,
    completed,
)
from staticfire.checkers.model.building.column_arrays import event_order
from staticfire.checkers.model.columns import Ints, Names
from staticfire.checkers.model.history import HistoryError

PART_ROWS = 1 << 20  # of a finished part: about 15 MB, and 160 MB in memory when it is read
HELD_ROWS = 1 << 20  # of all queues, in memory


class ColumnarWriter:
    """One new history.parquet folder. Every method raises OSError if a file cannot be written."""

    def __init__(
        self,
        folder: Path,
        run_id: str,
        *,
        part_rows: int = PART_ROWS,
        held_rows: int = HELD_ROWS,
    ) -> None:
        """Raise HistoryError if `folder` already holds a history."""
        if (folder / MANIFEST).exists():
            raise HistoryError(f"{folder} holds a history already; choose another folder")
        (folder / "ops").mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self._run_id = run_id
        self._part_rows, self._held_rows = part_rows, held_rows
        self._held: dict[int, list[pa.Table]] = {}
        self._rows_of: dict[int, int] = {}
        self._held_ops: list[pa.Table] = []
        self._parts: dict[int, list[Part]] = {}
        self._op_parts: list[Part] = []
        self._events: BinaryIO = (folder / EVENTS).open("wb")
        self._lines = Lines()
        self._flushes = 0

    @property
    def held_rows(self) -> int:
        """The number of message events that are in no part yet."""
        return sum(self._rows_of.values())

    def add(self, names: Names, rows: QueueRows) -> None:
        """Take rows. They are written when one queue, or all queues together, have enough for a part."""
        self.add_table(to_table(names, rows))

    def add_table(self, rows: pa.Table) -> None:
        """Take rows of the schema MESSAGE_EVENTS, sorted by queue. They are held and written like those of `add`."""
        for queue, table in by_queue(rows):
            self._held.setdefault(queue, []).append(_copied(table))
            self._rows_of[queue] = self._rows_of.get(queue, 0) + len(table)
            if self._rows_of[queue] >= self._part_rows:
                self.close_part(queue)
        while self.held_rows > self._held_rows:
            self.close_part(max(self._rows_of, key=self._rows_of.__getitem__))

    def add_ops(self, table: pa.Table) -> None:
        """Take rows of schema OPS."""
        self._held_ops.append(table)
        if sum(map(len, self._held_ops)) >= self._part_rows:
            self.close_ops()

    def add_event(self, line: bytes) -> None:
        """Take an op that is about no message, as a line."""
        self._events.write(line)
        self._lines = self._lines.plus(line)

    def close_part(self, queue: int) -> None:
        """Write the held rows of one queue."""
        tables = self._held.pop(queue, [])
        self._rows_of.pop(queue, None)
        if tables:
            parts = self._parts.setdefault(queue, [])
            path = f"message_events/queue-{queue}/part-{len(parts)}.parquet"
            parts.append(write_part(self.folder, path, queue, pa.concat_tables(tables)))

    def close_ops(self) -> None:
        """Write the held rows of ops."""
        tables, self._held_ops = self._held_ops, []
        if tables:
            path = f"ops/part-{len(self._op_parts)}.parquet"
            self._op_parts.append(write_part(self.folder, path, -1, pa.concat_tables(tables)))

    def flush(
        self, dictionaries: Dictionaries, ops: int, open_events: pa.Table, open_ops: pa.Table
    ) -> None:
        """Make all rows so far durable. The history stays marked as torn.

        `ops`: the next index. `open_events` and `open_ops` are rows of ops that are not completed yet. They belong to
        the history only until the next flush or the end.
        """
        self._flushes += 1
        folder = f"open/{self._flushes}"
        self._close_all()
        message_events = [
            write_part(self.folder, f"{folder}/queue-{queue}.parquet", queue, table)
            for queue, table in by_queue(open_events)
        ]
        parts = [write_part(self.folder, f"{folder}/ops.parquet", -1, open_ops)]
        write_manifest(
            self.folder,
            replace(
                self._manifest(dictionaries, ops, complete=False, source=None),
                message_events=[*self._all_parts(), *message_events],
                op_parts=[*self._op_parts, *parts],
            ),
        )
        shutil.rmtree(self.folder / f"open/{self._flushes - 1}", ignore_errors=True)

    def finish(
        self,
        dictionaries: Dictionaries,
        ops: int,
        *,
        complete: bool = True,
        source: Lines | None = None,
    ) -> Manifest:
        """Write the rest and the manifest. `complete` is False for a torn history, `source` the lines of it."""
        self._close_all()
        merged = [path for parts in self._parts.values() for path in self._merge(parts)]
        merged += self._merge(self._op_parts)
        manifest = self._manifest(dictionaries, ops, complete=complete, source=source)
        write_manifest(self.folder, manifest)
        self._events.close()
        for path in merged:
            path.unlink()
        shutil.rmtree(self.folder / "open", ignore_errors=True)
        return manifest

    def _merge(self, parts: list[Part]) -> list[Path]:
        """Merge the many small parts that flushes leave into few large ones; return the files that are obsolete then.

        Many means more parts than the rows require, so each row is written twice at most.
        """
        if len(parts) <= 2 * (sum(part.rows for part in parts) // self._part_rows + 1):
            return []
        old, parts[:] = list(parts), []
        for group in _groups(old, self._part_rows):
            path = f"{Path(old[0].path).parent}/merged-{len(parts)}.parquet"
            # Not read_table: it would take a folder named run_id=... above for a column.
            tables = [self._read(part) for part in group]
            parts.append(write_part(self.folder, path, group[0].queue, pa.concat_tables(tables)))
        return [self.folder / part.path for part in old]

    def _read(self, part: Part) -> pa.Table:
        table = pq.ParquetFile(self.folder / part.path).read()
        schema = MESSAGE_EVENTS if "op_index" in table.schema.names else OPS
        return completed(table, schema.names, schema)

    def close(self) -> None:
        """Close the files as they are."""
        self._events.close()

    def _close_all(self) -> None:
        for queue in sorted(self._held):
            self.close_part(queue)
        self.close_ops()
        self._events.flush()
        os.fsync(self._events.fileno())

    def _manifest(
        self, dictionaries: Dictionaries, ops: int, *, complete: bool, source: Lines | None
    ) -> Manifest:
        return Manifest(
            run_id=self._run_id,
            complete=complete,
            ops=ops,
            dictionaries=dictionaries,
            message_events=self._all_parts(),
            op_parts=self._op_parts,
            events=self._lines,
            source=source,
        )

    def _all_parts(self) -> list[Part]:
        return [part for queue in sorted(self._parts) for part in self._parts[queue]]


def write_part(folder: Path, path: str, queue: int, table: pa.Table) -> Part:
    """Sort rows of message events or ops, and write them. Raises OSError."""
    index = "op_index" if "op_index" in table.schema.names else "index"
    indices = table[index].to_numpy()
    order = event_order(np.zeros(len(indices), np.int64), indices)
    if order is not None:
        table = table.take(pa.array(order))
    data = memoryview(encode_table(table))
    target = folder / path
    target.parent.mkdir(parents=True, exist_ok=True)
    write_durably(target, data)
    low, high = _span(table["queue_offset"].to_numpy()) if index == "op_index" else (-1, -1)
    return Part(
        path=path,
        queue=queue,
        rows=len(table),
        bytes=len(data),
        crc32=zlib.crc32(data),
        first=int(indices.min()) if len(indices) else -1,
        last=int(indices.max()) if len(indices) else -1,
        low=low,
        high=high,
    )


def _groups(parts: list[Part], rows_max: int) -> Iterator[list[Part]]:
    """Yield lists of consecutive parts; each but the last has at least `rows_max` rows together."""
    group: list[Part] = []
    for part in parts:
        group.append(part)
        if sum(one.rows for one in group) >= rows_max:
            yield group
            group = []
    if group:
        yield group


def _span(offsets: Ints) -> tuple[int, int]:
    known = offsets[offsets >= 0]
    return (int(known.min()), int(known.max())) if len(known) else (-1, -1)


def _copied(table: pa.Table) -> pa.Table:
    """Return a copy, because a slice would keep the whole table in memory."""
    return pa.table([column.to_numpy().copy() for column in table.columns], schema=table.schema)
