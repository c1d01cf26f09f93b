"""The Parquet schemas of a history, and how their columns are packed."""

from __future__ import annotations

from enum import IntEnum
from typing import Any

import pyarrow as pa

FORMAT = "staticfire-history"
VERSION = 1
FOLDER = "history.parquet"  # in the folder of a run
MANIFEST = "manifest.json"
EVENTS = "events.jsonl"
ROW_GROUP = 1 << 17  # rows


class Kind(IntEnum):
    """What a row of touches is."""

    SEND = 0
    DELIVERY = 1
    COMMIT = 2


# Growing or spread over many values: differences are small. The others have few values each.
_DELTA = (
    "op_index",
    "invoke_index",
    "time_ns",
    "invoke_ns",
    "message",
    "queue_offset",
    "physical_offset",
    "due_ns",
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
)
TOUCHES = pa.schema(
    [
        pa.field(name, pa.bool_() if name == "body_ok" else pa.int64(), nullable=False)
        for name in _ORDER
    ]
)
_OP_DELTA = ("index", "invoke_index", "time_ns", "invoke_ns", "size")
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
                "touches",
                "size",
            )
        ),
        *(pa.field(name, pa.string(), nullable=name not in ("type", "f")) for name in _OP_TEXTS),
    ]
)


def packing(schema: pa.Schema) -> dict[str, Any]:
    """Arguments for a Parquet writer of one of the two schemas."""
    names = set(schema.names)
    delta = [name for name in (_DELTA if "kind" in names else _OP_DELTA) if name in names]
    dictionary = [name for name in (*_SMALL, "touches", *_OP_TEXTS) if name in names]
    return {
        "compression": "zstd",
        "compression_level": 3,
        "use_dictionary": dictionary,
        "column_encoding": dict.fromkeys(delta, "DELTA_BINARY_PACKED"),
        "write_statistics": ["op_index", "queue_offset"] if "kind" in names else ["index"],
        "store_schema": False,
    }
