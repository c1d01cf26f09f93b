"""Converts message events and commits to rows of one Parquet table, and back."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from staticfire.checkers.formats.columnar.schema import MESSAGE_EVENTS, Kind, file_name
from staticfire.checkers.model.building.column_arrays import NOTHING_SPECIAL, event_order
from staticfire.checkers.model.columns import (
    COMMIT_FIELDS,
    EVENT_FIELDS,
    UNKNOWN,
    Commits,
    Ints,
    Mask,
    MessageEvents,
    Names,
    Outcome,
    constant,
)

MANY = 1000  # a column of more rows is checked for equal values, to save memory


class QueueRows(NamedTuple):
    """The events of one queue (or of some whole queues), each in the order of Columns."""

    sends: MessageEvents
    deliveries: MessageEvents
    commits: Commits


def to_table(names: Names, rows: QueueRows) -> pa.Table:
    """Return one table, by queue and then op. Ids are not checked."""
    tables = [
        _event_arrays(Kind.SEND, rows.sends),
        _event_arrays(Kind.DELIVERY, rows.deliveries),
        _commit_arrays(names, rows.commits),
    ]
    columns = {
        name: np.concatenate([table[name] for table in tables]) for name in MESSAGE_EVENTS.names
    }
    order = event_order(columns["queue"], columns["op_index"])
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    return pa.table(columns, schema=MESSAGE_EVENTS)


def by_queue(table: pa.Table) -> Iterator[tuple[int, pa.Table]]:
    """Yield (queue, its rows) of a table that is sorted by queue; slices, no copies."""
    queue = table["queue"].to_numpy()
    if not len(queue):
        return
    starts = [0, *(np.flatnonzero(np.diff(queue)) + 1).tolist()]
    ends = [*starts[1:], len(queue)]
    for start, end in zip(starts, ends, strict=True):
        yield int(queue[start]), table.slice(start, end - start)


def from_table(table: pa.Table) -> QueueRows:
    """Return the rows of a table, sorted."""
    return from_tables([table])


def from_tables(tables: list[pa.Table]) -> QueueRows:
    """Return the rows of some tables, sorted. `tables` is emptied, and memory is freed column by column."""
    columns = {
        name: [chunk for table in tables for chunk in table[name].chunks]
        for name in tables[0].schema.names
    }
    tables.clear()
    order = event_order(_whole(columns["queue"]), _whole(columns["op_index"]))
    kind = _whole(columns.pop("kind"))
    if order is not None:
        kind = kind[order]
    rows = {of: _rows_of(kind == of, order) for of in Kind}
    fields: dict[Kind, dict[str, Any]] = {of: {} for of in Kind}
    for name in list(columns):
        column = _whole(columns.pop(name))
        for of in Kind:
            fields[of][name] = _same_or_all(column[rows[of]])
    return QueueRows(
        sends=_events(fields[Kind.SEND]),
        deliveries=_events(fields[Kind.DELIVERY]),
        commits=commits_of(fields[Kind.COMMIT]),
    )


def _events(columns: Mapping[str, Any]) -> MessageEvents:
    return MessageEvents(**{name: columns[file_name(name)] for name in EVENT_FIELDS})


def commits_of(columns: Mapping[str, Any]) -> Commits:
    """Return commits from the columns of files: the column of queue offsets has the offset of a commit."""
    offset = {"offset": "queue_offset"}
    return Commits(**{name: columns[offset.get(name, file_name(name))] for name in COMMIT_FIELDS})


def _whole(chunks: list[pa.Array]) -> Any:
    """Return one array; booleans are unpacked."""
    arrays = [chunk.to_numpy(zero_copy_only=False) for chunk in chunks]
    return arrays[0] if len(arrays) == 1 else np.concatenate(arrays or [np.zeros(0, np.int64)])


def _rows_of(mask: Mask, order: Ints | None) -> Ints:
    rows = np.flatnonzero(mask)
    return rows if order is None else order[rows]


def _same_or_all(column: Any) -> Any:
    """Return a column of equal values as a read-only view of one value, any other column unchanged."""
    if len(column) > MANY and column[0] == column[-1] and (column == column[0]).all():
        return constant(column[0], len(column))
    return column


def _event_arrays(kind: Kind, message_events: MessageEvents) -> dict[str, object]:
    arrays: dict[str, object] = {
        file_name(name): getattr(message_events, name) for name in EVENT_FIELDS
    }
    arrays["kind"] = np.full(len(message_events), kind, np.int64)
    return arrays


def _commit_arrays(names: Names, commits: Commits) -> dict[str, object]:
    rows = len(commits)
    arrays: dict[str, object] = {name: constant(UNKNOWN, rows) for name in MESSAGE_EVENTS.names}
    arrays |= {name: constant(value, rows) for name, value in NOTHING_SPECIAL.items()}
    arrays |= {
        "kind": np.full(rows, Kind.COMMIT, np.int64),
        "op_index": commits.op_index,
        "invoke_index": commits.op_index,
        "time_ns": commits.time_ns,
        "invoke_ns": commits.time_ns,
        "process": commits.process,
        "outcome": np.full(rows, Outcome.OK, np.int64),
        "topic": names.topic_of_log[commits.log] if rows else commits.log,
        "queue": commits.log,
        "group": commits.group,
        "queue_offset": commits.offset,
        "tries": np.zeros(rows, np.int64),
        "body_ok": np.ones(rows, np.bool_),
    }
    return arrays
