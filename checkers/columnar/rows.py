"""Touches and commits as rows of one Parquet table, and back."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from checkers.column_arrays import NOTHING_SPECIAL, touch_order
from checkers.columnar.schema import TOUCHES, Kind
from checkers.columns import (
    COMMIT_FIELDS,
    TOUCH_FIELDS,
    UNKNOWN,
    Commits,
    Mask,
    Names,
    Outcome,
    Touches,
)


class QueueRows(NamedTuple):
    """What touched one queue (or some whole queues), each in the order of Columns."""

    sends: Touches
    deliveries: Touches
    commits: Commits


def to_table(names: Names, rows: QueueRows) -> pa.Table:
    """One table, by queue and then op. Raises nothing; ids are not looked at."""
    tables = [
        _touch_arrays(Kind.SEND, rows.sends),
        _touch_arrays(Kind.DELIVERY, rows.deliveries),
        _commit_arrays(names, rows.commits),
    ]
    columns = {name: np.concatenate([table[name] for table in tables]) for name in TOUCHES.names}
    order = touch_order(columns["queue"], columns["op_index"])
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    return pa.table(columns, schema=TOUCHES)


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
    """The rows of a table, put into order."""
    columns = {name: table[name].to_numpy() for name in table.schema.names}
    order = touch_order(columns["queue"], columns["op_index"])
    if order is not None:
        columns = {name: column[order] for name, column in columns.items()}
    kind = columns["kind"]
    commits = _fields(columns, kind == Kind.COMMIT, COMMIT_FIELDS, offset="queue_offset")
    return QueueRows(
        sends=Touches(**_fields(columns, kind == Kind.SEND, TOUCH_FIELDS)),
        deliveries=Touches(**_fields(columns, kind == Kind.DELIVERY, TOUCH_FIELDS)),
        commits=Commits(**commits),
    )


def _fields(
    columns: dict[str, Any], mask: Mask, names: tuple[str, ...], **renamed: str
) -> dict[str, Any]:
    return {name: columns[renamed.get(name, name)][mask] for name in names}


def _touch_arrays(kind: Kind, touches: Touches) -> dict[str, Any]:
    arrays: dict[str, Any] = {name: getattr(touches, name) for name in TOUCH_FIELDS}
    arrays["kind"] = np.full(len(touches), kind, np.int64)
    return arrays


def _commit_arrays(names: Names, commits: Commits) -> dict[str, Any]:
    rows = len(commits)
    arrays: dict[str, Any] = {name: np.full(rows, UNKNOWN, np.int64) for name in TOUCHES.names}
    arrays |= {name: np.full(rows, value, np.int64) for name, value in NOTHING_SPECIAL.items()}
    arrays |= {
        "kind": np.full(rows, Kind.COMMIT, np.int64),
        "op_index": commits.op_index,
        "invoke_index": commits.op_index,
        "time_ns": commits.time_ns,
        "invoke_ns": commits.time_ns,
        "process": commits.process,
        "outcome": np.full(rows, Outcome.OK, np.int64),
        "topic": names.topic_of_queue[commits.queue] if rows else commits.queue,
        "queue": commits.queue,
        "group": commits.group,
        "queue_offset": commits.offset,
        "tries": np.zeros(rows, np.int64),
        "body_ok": np.ones(rows, np.bool_),
    }
    return arrays
