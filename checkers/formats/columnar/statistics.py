"""Counts the contents of a history, from its ops or, faster, from its columns."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import Kind
from staticfire.checkers.model.columns import UNKNOWN, LogKey
from staticfire.checkers.model.history import NEMESIS, Op
from staticfire.checkers.model.message_ranges import messages_in
from staticfire.checkers.op_kinds.catalogue import CONDENSED
from staticfire.checkers.op_kinds.producer import SEND_MANY

NOWHERE = LogKey("-", "-", UNKNOWN)  # for sends that no broker answered


@dataclass(slots=True, kw_only=True)
class Statistics:
    """Counts over all ops."""

    ops: int = 0
    by_type: Counter[tuple[str, str]] = field(default_factory=Counter)  # (f, type)
    sends: Counter[LogKey] = field(default_factory=Counter)
    deliveries: Counter[LogKey] = field(default_factory=Counter)
    groups: Counter[str] = field(default_factory=Counter)  # deliveries
    commits: int = 0
    first_ns: int | None = None
    last_ns: int = 0

    @property
    def rows(self) -> int:
        """The number of message events and commits: rows of columns."""
        return self.sends.total() + self.deliveries.total() + self.commits

    @property
    def span_s(self) -> float:
        return 0.0 if self.first_ns is None else (self.last_ns - self.first_ns) / 1e9

    def saw(self, first_ns: int, last_ns: int) -> None:
        """Widen the span of time."""
        self.first_ns = first_ns if self.first_ns is None else min(self.first_ns, first_ns)
        self.last_ns = max(self.last_ns, last_ns)


def of_ops(ops: Iterable[Op]) -> Statistics:
    """Count ops in one pass. Exceptions of the iterable propagate."""
    counts = Statistics()
    for op in ops:
        counts.ops += 1
        counts.by_type["fault" if op.process == NEMESIS else op.f, op.type] += 1
        counts.saw(op.time_ns, op.time_ns)
        if op.type == "invoke":
            continue
        if op.f in CONDENSED:
            _count_many(op, counts)
        elif op.f == "send":
            counts.sends[_queue_of(op)] += 1
        elif op.f == "consume" and op.type != "fail":
            got = _rows(op, "messages")
            counts.deliveries[_queue_of(op)] += got
            counts.groups[str(op.value.get("group"))] += got
        elif op.f == "commit" and op.type == "ok":
            counts.commits += _rows(op, "offsets")
    return counts


def _count_many(op: Op, counts: Statistics) -> None:
    try:
        many = messages_in(op)
    except (KeyError, TypeError, ValueError):
        many = 0
    if op.f == SEND_MANY:
        counts.sends[_queue_of(op)] += many
    elif op.type != "fail":
        counts.deliveries[_queue_of(op)] += many
        counts.groups[str(op.value.get("group"))] += many


def _rows(op: Op, name: str) -> int:
    rows = op.value.get(name)
    return len(rows) if isinstance(rows, list) else 0


def _queue_of(op: Op) -> LogKey:
    topic, broker, queue = (op.value.get(name) for name in ("topic", "broker", "queue"))
    if isinstance(topic, str) and isinstance(broker, str) and type(queue) is int:
        return LogKey(topic, broker, queue)
    return NOWHERE


def of_columns(folder: Path) -> Statistics:
    """Count rows, part by part. Raises HistoryError, OSError."""
    history = ColumnarHistory(folder)
    counts = Statistics(ops=history.manifest.ops)
    for part in history.manifest.op_parts:
        _count_ops(history.op_table(part), counts)
    for part in history.manifest.message_events:
        queue = NOWHERE if part.queue == UNKNOWN else history.names.logs[part.queue]
        _count_events(history.table(part, ("kind", "group")), queue, history, counts)
    return counts


def _count_ops(table: pa.Table, counts: Statistics) -> None:
    if not len(table):
        return
    is_fault = pc.equal(table["process"], NEMESIS)
    f = pc.if_else(is_fault, "fault", table["f"])
    has_invocation = pc.not_equal(table["index"], table["invoke_index"])
    groups = pa.table({"f": f, "type": table["type"], "paired": has_invocation})
    counted = groups.group_by(["f", "type", "paired"]).aggregate([([], "count_all")])
    for row in counted.to_pylist():
        counts.by_type[row["f"], row["type"]] += row["count_all"]
        if row["paired"]:
            counts.by_type[row["f"], "invoke"] += row["count_all"]
    counts.saw(pc.min(table["invoke_ns"]).as_py(), pc.max(table["time_ns"]).as_py())


def _count_events(
    table: pa.Table, queue: LogKey, history: ColumnarHistory, counts: Statistics
) -> None:
    kind, group = table["kind"].to_numpy(), table["group"].to_numpy()
    by_kind = np.bincount(kind, minlength=len(Kind)).tolist()
    counts.sends[queue] += by_kind[Kind.SEND]
    counts.deliveries[queue] += by_kind[Kind.DELIVERY]
    counts.commits += by_kind[Kind.COMMIT]
    of_groups = np.bincount(group[kind == Kind.DELIVERY]).tolist()
    for number, times in enumerate(of_groups):
        if times:
            counts.groups[history.names.groups[number]] += times
