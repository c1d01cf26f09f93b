"""The rows of a history as one Parquet file with names instead of numbers, for analysis with other tools."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from staticfire.checkers.formats.columnar.manifest import Part
from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import ROW_GROUP
from staticfire.checkers.model.columns import Names
from staticfire.checkers.model.history import HistoryError
from staticfire.checkers.model.message_ids import NUMBER_MASK, OTHER, PROCESS_SHIFT, UNKNOWN

KINDS = ("send", "delivery", "commit")
OUTCOMES = ("ok", "weak", "unknown", "failed")
TRANSACTIONS = (None, "commit", "rollback", "unknown")
# Columns that stay numbers, with null in place of -1 (not known, or does not apply).
NULLABLE = (
    "queue_offset",
    "physical_offset",
    "due_ns",
    "check_ns",
    "at_ns",
    "invoke_at_ns",
    "message_id",
    "size",
    "born_ms",
    "stored_ms",
    "origin",
)
WHOLE = ("op_index", "invoke_index", "time_ns", "invoke_ns", "process", "tries")
_TEXT = pa.dictionary(pa.int32(), pa.string())
SCHEMA = pa.schema(
    [
        ("kind", _TEXT),
        ("outcome", _TEXT),
        ("key", pa.string()),
        ("topic", _TEXT),
        ("broker", _TEXT),
        ("queue", pa.int64()),
        ("group", _TEXT),
        *((name, pa.int64()) for name in WHOLE),
        *((name, pa.int64()) for name in NULLABLE),
        ("body_ok", pa.bool_()),
        ("sharding_key", _TEXT),
        ("tag", _TEXT),
        ("transaction", _TEXT),
    ]
)


def write_named(columns: Path, target: Path) -> int:
    """Write every row of the message events of a history.parquet folder to one file, and return the number of rows.

    Memory holds one part at a time. The file gets its name when it is complete. Raises HistoryError, OSError.
    """
    history = ColumnarHistory(columns)
    part = target.with_name(f".{target.name}.part")
    count = 0
    try:
        with pq.ParquetWriter(part, SCHEMA, compression="zstd") as writer:
            for table in _tables(history):
                writer.write_table(table, row_group_size=ROW_GROUP)
                count += len(table)
        part.replace(target)
    finally:
        with suppress(OSError):
            part.unlink(missing_ok=True)
    return count


def _tables(history: ColumnarHistory) -> Iterator[pa.Table]:
    for part in history.manifest.message_events:
        yield _named(history.table(part), history.names, part)


def _named(table: pa.Table, names: Names, part: Part) -> pa.Table:
    """Return the rows of a part with names. Raises HistoryError."""
    logs = names.logs
    try:
        found = {
            "kind": _text(table["kind"], KINDS),
            "outcome": _text(table["outcome"], OUTCOMES),
            "key": _keys(table["message"], names.other_keys),
            "topic": _text(table["topic"], names.topics),
            "broker": _text(table["queue"], [log.home for log in logs]),
            "queue": _looked_up(table["queue"], [log.partition for log in logs]),
            "group": _text(table["group"], names.groups),
            **{name: table[name] for name in WHOLE},
            **{name: _or_null(table[name]) for name in NULLABLE},
            "body_ok": table["body_ok"],
            "sharding_key": _text(table["sharding_key"], names.sharding_keys),
            "tag": _text(table["tag"], names.tags),
            "transaction": _text(table["transaction"], TRANSACTIONS),
        }
    except (pa.ArrowException, IndexError) as error:
        raise HistoryError(f"{part.path} names what is in no dictionary: {error}") from error
    return pa.table(found, schema=SCHEMA)


def _or_null(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.if_else(pc.equal(column, UNKNOWN), None, column)


def _text(column: pa.ChunkedArray, texts: Sequence[str | None]) -> pa.Array:
    """Return the text of each number, null for -1. `texts` may hold a text twice."""
    distinct = list(dict.fromkeys(text for text in texts if text is not None))
    number_of = {text: number for number, text in enumerate(distinct)}
    numbers = pa.array([None if text is None else number_of[text] for text in texts], pa.int32())
    indices = numbers.take(_or_null(column).combine_chunks())
    return pa.DictionaryArray.from_arrays(indices, pa.array(distinct, pa.string()))


def _looked_up(column: pa.ChunkedArray, values: Sequence[int]) -> pa.Array:
    return pa.array(values, pa.int64()).take(_or_null(column).combine_chunks())


def _keys(column: pa.ChunkedArray, others: Sequence[str]) -> pa.Array:
    """Return keys of messages: p<process>-<n>, or one of the dictionary."""
    ids = column.to_numpy()
    is_known, is_other = ids != UNKNOWN, (ids & OTHER != 0) & (ids != UNKNOWN)
    process, number = pa.array(ids >> PROCESS_SHIFT), pa.array(ids & NUMBER_MASK)
    texts = [pc.cast(one, pa.string()) for one in (process, number)]
    plain = pc.binary_join_element_wise(pa.scalar("p"), texts[0], "")
    plain = pc.binary_join_element_wise(plain, texts[1], "-")
    taken = pa.array(np.where(is_other, ids ^ OTHER, 0), mask=~is_other)
    other = pa.array(others, pa.string()).take(taken)
    return pc.if_else(pa.array(is_known), pc.if_else(pa.array(is_other), other, plain), None)
