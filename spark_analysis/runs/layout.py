"""Lays a raw history out: turns rows of all queues in the order of time into one folder per queue, without a shuffle.

Each raw part is split by queue on its own. The parts are in the order of time, so the rows of a queue in them, part by
part, become the next parts of that queue. Parts of a queue with very many rows hold a bounded number of rows each, and
the manifest has their offset ranges.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from staticfire.checkers.formats.columnar.manifest import Manifest, Part, write_manifest
from staticfire.checkers.formats.columnar.rows import by_queue
from staticfire.checkers.formats.columnar.schema import EVENTS, MANIFEST, MESSAGE_EVENTS, ROW_GROUP
from staticfire.checkers.formats.columnar.writer import write_part
from staticfire.checkers.model.history import HistoryError
from staticfire.spark_analysis.engine.engines import Engine
from staticfire.spark_analysis.runs.raw import is_raw, read_raw_manifest

ROWS_A_PART = 1 << 20


@dataclass(frozen=True, slots=True, kw_only=True)
class RawChunk:
    """One raw part to be split."""

    source: Path
    target: Path
    number: int
    part: Part


def lay_out(source: Path, target: Path, engine: Engine) -> Manifest:
    """Write the raw history in `source` by queue into `target`. Raises HistoryError, SparkError, OSError.

    Files that an interrupted layout left in `target` are replaced. The manifest is written last; without it `target` is
    not a history.
    """
    if not is_raw(source):
        raise HistoryError(f"{source} holds no raw history; it needs no layout")
    manifest = read_raw_manifest(source)
    (target / MANIFEST).unlink(missing_ok=True)
    (target / "ops").mkdir(parents=True, exist_ok=True)
    chunks = [
        RawChunk(source=source.absolute(), target=target.absolute(), number=number, part=part)
        for number, part in enumerate(manifest.message_events)
    ]
    written = engine.map(
        "layout", cut_by_queue, chunks, [part.rows for part in manifest.message_events]
    )
    for part in manifest.op_parts:
        _share(source / part.path, target / part.path)
    if manifest.events.rows:
        _share(source / EVENTS, target / EVENTS)
    done = replace(manifest, message_events=_ordered(written))
    write_manifest(target, done)
    return done


def cut_by_queue(chunk: RawChunk) -> list[Part]:
    """Write the rows of a raw part, by queue. Raises HistoryError, OSError.

    It sorts a few rows at a time, which reuses memory that is still in the processor's caches.
    """
    held: dict[int, list[pa.Table]] = {}
    for table in read_raw_part(chunk.source, chunk.part):
        queue = table["queue"].to_numpy()
        narrow = (queue + 1).astype(np.uint16) if len(queue) and queue.max() < 65535 else queue
        order = np.argsort(narrow, kind="stable")
        for number, rows in by_queue(table.take(pa.array(order))):
            held.setdefault(number, []).append(rows)
    parts = []
    for number in sorted(held):
        rows = pa.concat_tables(held.pop(number))
        for index, start in enumerate(range(0, len(rows), ROWS_A_PART)):
            path = f"message_events/queue-{number}/part-{chunk.number}-{index}.parquet"
            try:
                part = write_part(chunk.target, path, number, rows.slice(start, ROWS_A_PART))
            except OSError as error:
                error.filename = error.filename or str(
                    chunk.target / path
                )  # an error for a full disk has no file name
                raise
            parts.append(part)
    return parts


def read_raw_part(folder: Path, part: Part) -> Iterator[pa.Table]:
    """Yield the rows of one raw part, ROW_GROUP at a time. Raises HistoryError, also for a missing or damaged file."""
    path = folder / part.path
    rows = 0
    try:
        file = pq.ParquetFile(path)
        names = file.schema_arrow.names
        if lacking := {"kind", "op_index", "queue"} - set(names):
            raise HistoryError(f"{path} lacks the column {min(lacking)}")
        known = [name for name in MESSAGE_EVENTS.names if name in names]
        schema = pa.schema([MESSAGE_EVENTS.field(name) for name in known])
        for batch in file.iter_batches(ROW_GROUP, columns=known, use_threads=False):
            rows += len(batch)
            yield pa.Table.from_batches([batch]).select(known).cast(schema)
    except FileNotFoundError as error:
        raise HistoryError(f"{path} is missing; the manifest names it") from error
    except (pa.ArrowException, OSError) as error:
        text = str(error).partition("\n")[0]
        raise HistoryError(f"{path} cannot be read as Parquet: {text}") from error
    if rows != part.rows:
        raise HistoryError(f"{path} has {rows} rows; the manifest says {part.rows}")


def _ordered(written: Sequence[Sequence[Part]]) -> list[Part]:
    """Return the parts by queue, then by time."""
    numbered = [part for parts in written for part in parts]
    return sorted(numbered, key=lambda part: (part.queue, part.first))


def _share(source: Path, target: Path) -> None:
    """Hard-link a file, or copy it if it cannot be linked."""
    target.unlink(missing_ok=True)
    try:
        os.link(source, target)
    except OSError:
        shutil.copyfile(source, target)
