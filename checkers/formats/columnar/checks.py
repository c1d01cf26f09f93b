"""Finds impossible rows: ids without a name, queues of another part, time that runs backwards.

A verdict over impossible rows would be worthless, and another program may have written the file.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

from staticfire.checkers.formats.columnar.manifest import Dictionaries, Manifest, Part
from staticfire.checkers.formats.columnar.schema import Kind
from staticfire.checkers.model.columns import Ints, Mask, Outcome, Transaction
from staticfire.checkers.model.history import INT64_MAX, OP_TYPES, HistoryError
from staticfire.checkers.model.message_ids import OTHER

OP_BOUNDS = {"time_ns": (0, INT64_MAX), "invoke_ns": (0, INT64_MAX)}


def check_event_columns(table: pa.Table, part: Part, manifest: Manifest, path: Path) -> None:
    """Raise HistoryError naming the file for a value that no row can have, in the columns that are present."""
    for name, (low, high) in _bounds(part, manifest).items():
        if name in table.schema.names:
            _check_range(table[name].to_numpy(), name, low, high, path)
    if {"kind", "group"} <= set(table.schema.names):
        delivered = table["kind"].to_numpy() != Kind.SEND
        _check_range(table["group"].to_numpy()[delivered], "group", 0, INT64_MAX, path)


def check_message_events(table: pa.Table, part: Part, manifest: Manifest, path: Path) -> None:
    """Raise HistoryError naming the file for a row that no history can have."""
    check_event_columns(table, part, manifest, path)
    columns = {name: table[name].to_numpy() for name in table.schema.names}
    known = columns["message"][columns["message"] >= OTHER]
    _check_range(known, "message", OTHER, OTHER + len(manifest.dictionaries.other_keys) - 1, path)
    index, time_ns = columns["op_index"], columns["time_ns"]
    if np.any(columns["invoke_index"] > index) or np.any(columns["invoke_ns"] > time_ns):
        raise HistoryError(f"{path} has an op that ended before it began")
    order = np.argsort(index, kind="stable")
    if np.any(np.diff(time_ns[order]) < 0):
        raise HistoryError(f"{path} has times that go back; a history is in the order of time")
    _check_kinds(columns["kind"][order], index[order], columns["message"][order], path)
    delivered = columns["kind"] != Kind.SEND
    _check_range(columns["queue"][delivered], "queue of a delivery", 0, INT64_MAX, path)
    acked = ~delivered & (columns["outcome"] == Outcome.OK)
    _check_range(columns["queue"][acked], "queue of an acknowledged send", 0, INT64_MAX, path)
    _check_range(columns["message"][~delivered], "message of a send", 0, INT64_MAX, path)


def _check_kinds(kind: Ints, index: Ints, message: Ints, path: Path) -> None:
    """Check that each op has one kind, and that one op sends consecutive messages. Raises HistoryError."""
    same: Mask = index[1:] == index[:-1]
    follows: Mask = message[1:] == message[:-1] + 1
    wrong = same & ((kind[1:] != kind[:-1]) | ((kind[1:] == Kind.SEND) & ~follows))
    if np.any(wrong):
        at = int(index[1:][wrong][0])
        raise HistoryError(f"{path} has op index {at} twice; indices are unique")


def check_op_columns(table: pa.Table, path: Path) -> None:
    """Raise HistoryError naming the file for a value that no op can have, in the columns that are present."""
    columns = {name: table[name].to_numpy() for name in OP_BOUNDS if name in table.schema.names}
    for name, column in columns.items():
        _check_range(column, name, *OP_BOUNDS[name], path)
    if len(columns) == len(OP_BOUNDS) and np.any(columns["invoke_ns"] > columns["time_ns"]):
        raise HistoryError(f"{path} has an op that ended before it began")


def check_ops(table: pa.Table, manifest: Manifest, path: Path) -> None:
    """Raise HistoryError naming the file for an op that no history can have."""
    check_op_columns(table, path)
    index = table["index"].to_numpy()
    _check_range(index, "index", 0, manifest.ops - 1, path)
    if np.any(table["invoke_index"].to_numpy() > index):
        raise HistoryError(f"{path} has an op that ended before it began")
    ordered = np.sort(index)
    if np.any(twice := ordered[1:] == ordered[:-1]):
        raise HistoryError(f"{path} has op index {ordered[1:][twice][0]} twice; indices are unique")
    order = np.argsort(index, kind="stable")
    if np.any(np.diff(table["time_ns"].to_numpy()[order]) < 0):
        raise HistoryError(f"{path} has times that go back; a history is in the order of time")
    types = set(table["type"].unique().to_pylist())
    if not types <= OP_TYPES:
        raise HistoryError(f"{path} has an op of type {min(types - OP_TYPES)!r}")


def _check_range(values: Ints, name: str, low: int, high: int, path: Path) -> None:
    if len(values) and not (low <= int(values.min()) and int(values.max()) <= high):
        wrong = values[(values < low) | (values > high)][0]
        raise HistoryError(f"{path}: {name} is {wrong}; allowed are {low} to {high}")


def _bounds(part: Part, manifest: Manifest) -> dict[str, tuple[int, int]]:
    names: Dictionaries = manifest.dictionaries
    return {
        "kind": (0, max(Kind)),
        "op_index": (0, manifest.ops - 1),
        "invoke_index": (0, INT64_MAX),
        "time_ns": (0, INT64_MAX),
        "invoke_ns": (0, INT64_MAX),
        "process": (0, INT64_MAX),
        "outcome": (0, max(Outcome)),
        "message": (-1, INT64_MAX),
        "topic": (0, len(names.topics) - 1),
        "queue": (part.queue, part.queue),
        "group": (-1, len(names.groups) - 1),
        "sharding_key": (-1, len(names.sharding_keys) - 1),
        "tag": (-1, len(names.tags) - 1),
        "transaction": (0, max(Transaction)),
    }
