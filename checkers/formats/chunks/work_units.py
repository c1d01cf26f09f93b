"""Groups whole queues, or chunks of a long one, into units that are judged together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from staticfire.checkers.formats.columnar.manifest import Manifest, Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import Kind
from staticfire.checkers.model.columns import UNKNOWN, Chunk, Columns, Ints, Mask

PARTITION_ROWS = 1 << 18  # rows: small queues are judged together, about 150 MB at a time
WHOLE_ROWS = 1 << 22  # a queue with more rows is cut
CHUNK_DIVISOR = 4  # into chunks of about WHOLE_ROWS divided by this number of rows


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class WorkUnit:
    """Parts in the order of queues and time. With a `chunk`, these are the parts that hold rows of the chunk."""

    parts: tuple[Part, ...]
    rows: int
    chunk: Chunk | None = None


def whole(parts: Sequence[Part]) -> WorkUnit:
    """Return a unit of whole queues."""
    return WorkUnit(parts=tuple(parts), rows=sum(part.rows for part in parts))


def together(manifest: Manifest, rows_max: int) -> list[list[Part]]:
    """Return the parts by queue, in lists of whole queues that have at most `rows_max` rows together.

    A queue with more rows has a list of its own.
    """
    by_queue: dict[int, list[Part]] = {}
    for part in manifest.message_events:
        by_queue.setdefault(part.queue, []).append(part)
    found: list[list[Part]] = []
    room = 0
    for queue in sorted(by_queue):
        rows = sum(part.rows for part in by_queue[queue])
        if not found or rows > room:
            found.append([])
            room = rows_max
        found[-1].extend(by_queue[queue])
        room -= rows
    return found


def is_long(parts: Sequence[Part], whole_rows: int) -> bool:
    """Whether these are the parts of one queue with more than `whole_rows` rows; sends without a queue are no queue."""
    queues = {part.queue for part in parts}
    one = len(queues) == 1 and UNKNOWN not in queues
    return one and sum(part.rows for part in parts) > whole_rows


def read_unit(history: ColumnarHistory, unit: WorkUnit) -> Columns:
    """Read the rows of a unit. Raises HistoryError, OSError."""
    chunk = unit.chunk
    if chunk is None:
        return history.columns_of(unit.parts)
    tables = (_of_chunk(history.table(part), chunk) for part in unit.parts)
    commits = chunk.commits
    return replace(
        history.columns_of_tables([table for table in tables if len(table)]),
        commits=commits.where(np.flatnonzero(is_in(chunk, commits.offset))),
        chunk=chunk,
    )


def _of_chunk(table: pa.Table, chunk: Chunk) -> pa.Table:
    of_messages = table["kind"].to_numpy() != Kind.COMMIT
    return table.filter(pa.array(of_messages & is_in(chunk, table["queue_offset"].to_numpy())))


def is_in(chunk: Chunk, offsets: Ints) -> Mask:
    """Whether each offset belongs to a chunk; unknown positions (-1) belong to the first."""
    within: Mask = (offsets >= chunk.first_offset) & (offsets <= chunk.last_offset)
    return within
