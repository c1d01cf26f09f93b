"""Reads the few columns of a history that a report needs, one queue at a time, and single ops by index."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Protocol

import numpy as np

from staticfire.checkers.formats.columnar.reader import ColumnarHistory
from staticfire.checkers.formats.columnar.schema import FILE_NAMES, MANIFEST, Kind
from staticfire.checkers.model.building.column_builder import build_columns
from staticfire.checkers.model.columns import UNKNOWN, Ints, Mask, MessageEvents, Names, Outcome
from staticfire.checkers.model.history import HistoryError, Op, OpType, decode_line, read_history

COLUMNS = (
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
)
FIELDS = {file: field for field, file in FILE_NAMES.items()}  # of MessageEvents
EVENTS_MAX = 200_000  # ops without a message; if there are more, none is read
TYPES: Mapping[int, OpType] = {
    Outcome.OK: "ok",
    Outcome.WEAK: "info",
    Outcome.UNKNOWN: "info",
    Outcome.FAILED: "fail",
}
STATUSES = {Outcome.OK: "SEND_OK", Outcome.WEAK: "stored, less safely than asked"}


@dataclass(frozen=True, slots=True)
class Rows:
    """Some columns of some rows: arrays of shape (rows,), int64, by the names in COLUMNS."""

    arrays: Mapping[str, Ints]

    def __len__(self) -> int:
        return len(self.arrays["op_index"])

    def __getitem__(self, name: str) -> Ints:
        return self.arrays[name]

    def where(self, rows: Mask | Ints) -> Rows:
        return Rows({name: array[rows] for name, array in self.arrays.items()})


@dataclass(frozen=True, slots=True)
class QueueEvents:
    """The rows of one queue. `queue` is its id in `Names.logs`; UNKNOWN: sends that no broker answered."""

    queue: int
    sends: Rows
    deliveries: Rows


class HistoryRows(Protocol):
    """A history in either form. Every method raises HistoryError and OSError."""

    @property
    def names(self) -> Names: ...

    @property
    def torn(self) -> bool: ...

    @property
    def nodes(self) -> Mapping[int, str]:
        """Return the node of each process."""
        ...

    def end_ns(self) -> int:
        """Return the time of the last row."""
        ...

    def queues(self) -> Iterator[QueueEvents]: ...

    def events(self) -> Sequence[Op]:
        """Return the ops without a message."""
        ...

    def ops(self, rows: Collection[tuple[int, Rows, bool]]) -> list[Op]:
        """Return the ops of some rows by index; `rows` holds (queue, rows, whether they are sends)."""
        ...


def open_history(run: Path, columns: Path, lines: Path) -> HistoryRows:
    """Open the columns of a run if it has them, else its lines. Raises HistoryError, OSError."""
    if (columns / MANIFEST).exists():
        return FileRows(ColumnarHistory(columns), lines if lines.exists() else None)
    if not lines.exists():
        raise HistoryError(f"{run} holds neither {columns.name} nor {lines.name}")
    history = read_history(lines)
    return MemoryRows(history.ops, is_torn=history.torn)


class FileRows:
    """A history in columns. Only one queue at a time is in memory."""

    def __init__(self, history: ColumnarHistory, lines: Path | None) -> None:
        self._history, self._lines = history, lines

    @property
    def names(self) -> Names:
        return self._history.names

    @property
    def torn(self) -> bool:
        return not self._history.complete

    @property
    def nodes(self) -> Mapping[int, str]:
        return dict(self._history.manifest.dictionaries.processes)

    def end_ns(self) -> int:
        parts = self._history.manifest.message_events
        times = [self._history.table(part, ["time_ns"])["time_ns"].to_numpy() for part in parts]
        return max((int(found.max()) for found in times if len(found)), default=0)

    def queues(self) -> Iterator[QueueEvents]:
        for queue in self._history.queues():
            parts = self._history.manifest.parts_of(queue)
            tables = [self._history.table(part, ["kind", *COLUMNS]) for part in parts]
            arrays = {
                name: np.concatenate([table[name].to_numpy() for table in tables])
                for name in ("kind", *COLUMNS)
            }
            kind = arrays.pop("kind")
            rows = Rows(arrays)
            yield QueueEvents(
                queue, rows.where(kind == Kind.SEND), rows.where(kind == Kind.DELIVERY)
            )

    def events(self) -> Sequence[Op]:
        few = self._history.manifest.events.rows <= EVENTS_MAX
        return self._history.events() if few else []

    def ops(self, rows: Collection[tuple[int, Rows, bool]]) -> list[Op]:
        if self._lines is None:
            return sorted(self._made_up(rows), key=lambda op: op.index)
        wanted = {
            int(index)
            for _, of, _ in rows
            for name in ("op_index", "invoke_index")
            for index in of[name]
        }
        found = []
        with self._lines.open("rb") as file:
            for number, line in enumerate(file):
                if number in wanted:
                    found.append(
                        decode_line(line, location=f"{self._lines.name}, line {number + 1}")
                    )
        return found

    def _made_up(self, rows: Collection[tuple[int, Rows, bool]]) -> Iterator[Op]:
        """Return ops rebuilt from columns, for a run whose lines were not kept."""
        seen: set[tuple[int, int]] = set()
        for queue, of, is_send in rows:
            for number in range(len(of)):
                row = {name: int(of[name][number]) for name in COLUMNS}
                if (row["op_index"], row["message"]) not in seen:
                    seen.add((row["op_index"], row["message"]))
                    yield from self._op(queue, row, is_send)

    def _op(self, queue: int, row: Mapping[str, int], is_send: bool) -> Iterator[Op]:
        names = self.names
        key = key_of(names, row["message"])
        value: dict[str, object] = {"topic": names.topics[row["topic"]]}
        if queue != UNKNOWN:
            of = names.logs[queue]
            value |= {"topic": of.topic, "broker": of.home, "queue": of.partition}
        if is_send:
            value |= {"key": key, "queue_offset": row["queue_offset"]}
            if row["outcome"] in STATUSES:
                value["status"] = STATUSES[Outcome(row["outcome"])]
        else:
            message = [key, row["queue_offset"], row["physical_offset"], True, 0]
            value |= {"group": names.groups[row["group"]], "messages": [message]}
        for index, time_ns, kind in (
            (row["invoke_index"], row["invoke_ns"], "invoke"),
            (row["op_index"], row["time_ns"], TYPES[row["outcome"]]),
        ):
            yield Op(
                index=index,
                time_ns=time_ns,
                process=row["process"],
                type=kind,  # type: ignore[arg-type]  # one of OpType
                f="send" if is_send else "consume",
                value=value,
                node=self.nodes.get(row["process"]),
            )


class MemoryRows:
    """A history without columns, whose ops are in memory."""

    def __init__(self, ops: Sequence[Op], *, is_torn: bool) -> None:
        self._ops, self._is_torn = ops, is_torn
        self._columns, _ = build_columns(ops)

    @property
    def names(self) -> Names:
        return self._columns.names

    @property
    def torn(self) -> bool:
        return self._is_torn

    @cached_property
    def nodes(self) -> Mapping[int, str]:
        return {op.process: op.node for op in self._ops if op.node is not None}

    def end_ns(self) -> int:
        return self._ops[-1].time_ns if self._ops else 0

    def queues(self) -> Iterator[QueueEvents]:
        sends, deliveries = _rows_of(self._columns.sends), _rows_of(self._columns.deliveries)
        for queue in np.unique(np.concatenate([sends["queue"], deliveries["queue"]])).tolist():
            yield QueueEvents(
                queue,
                sends.where(sends["queue"] == queue),
                deliveries.where(deliveries["queue"] == queue),
            )

    def events(self) -> Sequence[Op]:
        return [op for op in self._ops if op.f in ("assign", "drain", "node_exit")]

    def ops(self, rows: Collection[tuple[int, Rows, bool]]) -> list[Op]:
        wanted = {
            int(index)
            for _, of, _ in rows
            for name in ("op_index", "invoke_index")
            for index in of[name]
        }
        return [self._ops[index] for index in sorted(wanted)]


def _rows_of(events: MessageEvents) -> Rows:
    return Rows({name: getattr(events, FIELDS.get(name, name)) for name in COLUMNS})


def key_of(names: Names, message: int) -> str | None:
    """Return the key of a message. Raises HistoryError for an id beyond the dictionary."""
    try:
        return names.key(message)
    except IndexError as error:
        raise HistoryError(
            f"the columns hold the message {message}, which their dictionary lacks"
        ) from error
