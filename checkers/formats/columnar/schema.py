"""The Parquet schemas of a history, and how their columns are packed."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from enum import IntEnum
from types import MappingProxyType

import numpy as np
import pyarrow as pa

FORMAT = "staticfire-history"
VERSION = 2
VERSIONS_READ = (1, 2)
# Name of a column and of a list of the manifest -> its name in version 1.
FORMER_NAMES: Mapping[str, str] = MappingProxyType({"message_events": "touches"})
FOLDER = "history.parquet"  # in the folder of a run
MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
ROW_GROUP = 1 << 17  # rows


class Kind(IntEnum):
    """The kind of a row of message events."""

    SEND = 0
    DELIVERY = 1
    COMMIT = 2


# Columns with many values are stored as differences, which are small. The others have few distinct values.
_DELTA = (
    "op_index",
    "invoke_index",
    "time_ns",
    "invoke_ns",
    "message",
    "queue_offset",
    "physical_offset",
    "due_ns",
    "check_ns",
    "at_ns",
    "invoke_at_ns",
    "born_ms",
    "stored_ms",
    "origin",
)
_SMALL = (
    "kind",
    "process",
    "outcome",
    "topic",
    "queue",
    "group",
    "tries",
    "sharding_key",
    "tag",
    "transaction",
    "within_ns",
    "properties",
    "size",
)
_ORDER = (
    "kind",
    "op_index",
    "invoke_index",
    "time_ns",
    "invoke_ns",
    "process",
    "outcome",
    "message",
    "topic",
    "queue",
    "group",
    "queue_offset",
    "physical_offset",
    "tries",
    "body_ok",
    "sharding_key",
    "tag",
    "due_ns",
    "transaction",
    "check_ns",
    "at_ns",
    "invoke_at_ns",
    "within_ns",
    "message_id",
    "properties",
    "size",
    "born_ms",
    "stored_ms",
    "origin",
)
# Columns whose name in files is not that of the field.
FILE_NAMES: Mapping[str, str] = MappingProxyType({"log": "queue", "position": "physical_offset"})
MESSAGE_EVENTS = pa.schema(
    [
        pa.field(name, pa.bool_() if name == "body_ok" else pa.int64(), nullable=False)
        for name in _ORDER
    ]
)
_OP_DELTA = ("index", "invoke_index", "time_ns", "invoke_ns", "size", "at_ns", "invoke_at_ns")
_OP_STAMPS = ("at_ns", "within_ns", "invoke_at_ns", "invoke_within_ns")
_OP_TEXTS = ("type", "f", "node", "error", "value", "invoke_value")
OPS = pa.schema(
    [
        *(
            pa.field(name, pa.int64(), nullable=False)
            for name in (
                "index",
                "invoke_index",
                "time_ns",
                "invoke_ns",
                "process",
                "message_events",
                "size",
            )
        ),
        *(pa.field(name, pa.string(), nullable=name not in ("type", "f")) for name in _OP_TEXTS),
        *(pa.field(name, pa.int64(), nullable=False) for name in _OP_STAMPS),
    ]
)


# Columns without values in most histories. A part lacks such a column if none of its rows has a value.
OPTIONAL = frozenset(
    {
        "at_ns",
        "invoke_at_ns",
        "within_ns",
        "invoke_within_ns",
        "check_ns",
        "message_id",
        "properties",
        "born_ms",
        "stored_ms",
        "origin",
    }
)


def file_name(name: str) -> str:
    """Return the name of the column that holds a field of MessageEvents or of Commits."""
    return FILE_NAMES.get(name, name)


def names_in_file(wanted: Sequence[str], present: Collection[str]) -> dict[str, str]:
    """Return, by name, what each wanted column is called in a file with the columns `present`, if it is there."""
    names = {name: name if name in present else FORMER_NAMES.get(name, name) for name in wanted}
    return {name: own for name, own in names.items() if own in present}


def completed(table: pa.Table, wanted: Sequence[str], schema: pa.Schema) -> pa.Table:
    """Return the wanted columns with their types; a missing column has unknown values.

    Raises ValueError for nulls where they are not allowed, and Arrow's errors for another type.
    """
    arrays = []
    for name in wanted:
        field = schema.field(name)
        if name in table.schema.names:
            column = table[name]
            if column.null_count and not field.nullable:
                raise ValueError(f"column {name} has nulls")
            arrays.append(column if column.type == field.type else column.cast(field.type))
        else:
            arrays.append(pa.chunked_array([_nothing(field, len(table))]))
    return pa.table(arrays, schema=pa.schema([schema.field(name) for name in wanted]))


def _nothing(field: pa.Field, rows: int) -> pa.Array:
    if field.type == pa.bool_():
        return pa.array(np.ones(rows, np.bool_))
    if field.type == pa.string():
        return pa.nulls(rows, pa.string()) if field.nullable else pa.array([""] * rows)
    return pa.array(np.full(rows, 0 if field.name == "transaction" else -1, np.int64))


def without_unknown(table: pa.Table) -> pa.Table:
    """Return the table without the columns of OPTIONAL that have no known value."""
    return table.select([name for name in table.schema.names if not _is_unknown(table, name)])


def _is_unknown(table: pa.Table, name: str) -> bool:
    return name in OPTIONAL and not (table[name].to_numpy() != -1).any()


def packing(schema: pa.Schema) -> dict[str, object]:
    """Return arguments for a Parquet writer of one of the two schemas."""
    names = set(schema.names)
    delta = [name for name in (_DELTA if "kind" in names else _OP_DELTA) if name in names]
    small = (*_SMALL, "message_events", "invoke_within_ns", *_OP_TEXTS)
    dictionary = [name for name in small if name in names and name not in delta]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": dictionary,
        "column_encoding": dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        "write_statistics": ["op_index", "queue_offset"] if "kind" in names else ["index"],
        "store_schema": False,
    }
