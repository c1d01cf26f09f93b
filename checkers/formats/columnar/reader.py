"""Reads a history in columns: its manifest, the rows of one queue, or the whole of a small history."""

from __future__ import annotations

import zlib
from collections.abc import Sequence
from functools import cached_property
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from staticfire.checkers.formats.columnar.checks import (
    check_event_columns,
    check_message_events,
    check_op_columns,
    check_ops,
)
from staticfire.checkers.formats.columnar.events import read_events, timeline_of
from staticfire.checkers.formats.columnar.manifest import Part, read_manifest
from staticfire.checkers.formats.columnar.rows import from_table, from_tables
from staticfire.checkers.formats.columnar.schema import (
    MESSAGE_EVENTS,
    OPS,
    completed,
    names_in_file,
)
from staticfire.checkers.model.building.column_builder import check_sent_once
from staticfire.checkers.model.columns import Columns, Commits, Names
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.model.plain_files import plain_size, read_plain
from staticfire.checkers.model.timeline import Timeline

# Writers end a part at two million rows, and rows in their memory may double it.
PART_ROWS_MAX = 1 << 25
UNPACKED_BYTES_MAX = 4 << 30


class ColumnarHistory:
    """A history.parquet folder. Every method raises HistoryError for files that are damaged, missing or of another
    history, and OSError for files that cannot be read.
    """

    def __init__(self, folder: Path, *, verify: bool = True) -> None:
        """`verify`: also compare each part with the checksum of the manifest; this costs about 1 s for 1 GB."""
        self.folder = folder
        self.manifest = read_manifest(folder)
        self.verify = verify

    @property
    def complete(self) -> bool:
        """Whether the writer finished; otherwise the history is torn."""
        return self.manifest.complete

    @cached_property
    def names(self) -> Names:
        return self.manifest.dictionaries.names()

    def queues(self) -> list[int]:
        """Ids of the queues that have rows, ascending; -1 stands for sends that no broker answered."""
        return sorted({part.queue for part in self.manifest.message_events})

    def rows(self, queue: int) -> int:
        """Return the number of rows of a queue."""
        return sum(part.rows for part in self.manifest.parts_of(queue))

    def queue(self, queue: int) -> Columns:
        """Return all rows of one queue."""
        return self.columns_of(self.manifest.parts_of(queue))

    def columns_of(self, parts: Sequence[Part]) -> Columns:
        """Return the rows of some parts of message events."""
        return self.columns_of_tables([self.table(part) for part in parts])

    def columns_of_tables(self, tables: list[pa.Table]) -> Columns:
        """Return the rows of some tables of message events. `tables` is emptied."""
        sends, deliveries, commits = from_tables(tables or [MESSAGE_EVENTS.empty_table()])
        return Columns(names=self.names, sends=sends, deliveries=deliveries, commits=commits)

    def columns(self) -> Columns:
        """Return the whole history, if it fits into memory."""
        columns = self.columns_of(self.manifest.message_events)
        check_sent_once(columns.sends, columns.names)
        return columns

    def table(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one part of message events as they are in the file, or some columns of them."""
        table = self._read(part, MESSAGE_EVENTS, columns)
        check = check_message_events if columns is None else check_event_columns
        check(table, part, self.manifest, self.folder / part.path)
        return table

    def op_table(self, part: Part, columns: Sequence[str] | None = None) -> pa.Table:
        """Return the rows of one part of ops."""
        table = self._read(part, OPS, columns)
        if columns is None:
            check_ops(table, self.manifest, self.folder / part.path)
        else:
            check_op_columns(table, self.folder / part.path)
        return table

    def events(self) -> list[Op]:
        """Return the ops that are about no message, by index."""
        return read_events(self.folder, self.manifest)

    def timeline(self) -> Timeline:
        """Return the timeline of the whole history: its events and the commits of all queues."""
        return self._timeline(self.columns_of(self.manifest.message_events).commits)

    def timeline_of_events(self) -> Timeline:
        """Return the timeline without the commits, because a huge history has too many of them."""
        no_commits = from_table(MESSAGE_EVENTS.empty_table()).commits
        return self._timeline(no_commits)

    def whole(self) -> tuple[Columns, Timeline]:
        """Return the result of `build_columns` for the ops, if the history fits into memory."""
        columns = self.columns()
        return columns, self._timeline(columns.commits)

    def _timeline(self, commits: Commits) -> Timeline:
        return timeline_of(self.events(), commits, self.names, self.manifest)

    def _read(self, part: Part, schema: pa.Schema, columns: Sequence[str] | None) -> pa.Table:
        path = self.folder / part.path
        try:
            size = plain_size(path)
            data = read_plain(path) if size == part.bytes else b""
        except FileNotFoundError as error:
            raise HistoryError(f"{path} is missing; the manifest names it") from error
        if size != part.bytes:
            raise HistoryError(f"{path} has {size} bytes; the manifest says {part.bytes}")
        if self.verify and zlib.crc32(data) != part.crc32:
            raise HistoryError(f"{path} is damaged: its checksum is not that of the manifest")
        wanted = list(schema.names if columns is None else columns)
        try:
            file = pq.ParquetFile(pa.BufferReader(data))
            _check_unpacked(path, part, file.metadata)
            names = names_in_file(wanted, file.schema_arrow.names)
            table = file.read(list(names.values()), use_threads=False).rename_columns(list(names))
            if schema is OPS:
                table.validate(full=True)  # texts are UTF-8
            table = completed(table, wanted, schema)
        except HistoryError:
            raise
        except (pa.ArrowException, OSError, ValueError, KeyError) as error:
            raise HistoryError(f"{path} cannot be read as Parquet: {_first_line(error)}") from error
        if len(table) != part.rows:
            raise HistoryError(f"{path} has {len(table)} rows; the manifest says {part.rows}")
        return table


def _check_unpacked(path: Path, part: Part, metadata: pq.FileMetaData) -> None:
    """Check the size of a part before it is unpacked, because a few bytes can declare any number of rows.

    Raises HistoryError.
    """
    if metadata.num_rows != part.rows:
        raise HistoryError(f"{path} has {metadata.num_rows} rows; the manifest says {part.rows}")
    if part.rows > PART_ROWS_MAX:
        raise HistoryError(f"{path} has {part.rows} rows; a part has at most {PART_ROWS_MAX}")
    groups = range(metadata.num_row_groups)
    unpacked = sum(metadata.row_group(number).total_byte_size for number in groups)
    if unpacked > UNPACKED_BYTES_MAX:
        raise HistoryError(
            f"{path} has {unpacked} bytes unpacked; a part has at most {UNPACKED_BYTES_MAX}"
        )


def _first_line(error: Exception) -> str:
    return str(error).partition("\n")[0].rstrip(".")
