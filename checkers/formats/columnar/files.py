"""Files of a history: a write leaves a whole file or none, and a read detects damage."""

from __future__ import annotations

import os
import zlib
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from staticfire.checkers.formats.columnar.schema import ROW_GROUP, packing, without_unknown
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.plain_files import plain_size

_BLOCK = 1 << 20


def write_durably(path: Path, data: bytes | memoryview) -> None:
    """Write `data` to `path` atomically, even if this process dies meanwhile, and sync it. Raises OSError."""
    temporary = path.with_name(f".{path.name}.tmp")
    with temporary.open("wb") as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    temporary.rename(path)
    sync_folder(path.parent)


def sync_folder(path: Path) -> None:
    """Make the names in a folder durable. Raises OSError."""
    folder = os.open(path, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


def encode_table(table: pa.Table) -> pa.Buffer:
    """Return the Parquet file of a table of one of our schemas, without columns of unknown values only."""
    table = without_unknown(table)
    sink = pa.BufferOutputStream()
    pq.write_table(table, sink, row_group_size=ROW_GROUP, **packing(table.schema))
    return sink.getvalue()


def crc_of_file(path: Path, size: int) -> int:
    """Return the CRC-32 of the first `size` bytes. Raises OSError, HistoryError for a shorter file."""
    crc, left = 0, min(size, plain_size(path))
    if left < size:
        raise HistoryError(f"{path} has {left} bytes; the manifest says {size}")
    with path.open("rb") as file:
        while left:
            block = file.read(min(left, _BLOCK))
            if not block:
                raise HistoryError(f"{path} has {size - left} bytes; the manifest says {size}")
            crc = zlib.crc32(block, crc)
            left -= len(block)
    return crc
