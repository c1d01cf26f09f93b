"""The drain at the end of a history of Jepsen: the end of each queue, and the position up to which it was read.

A queue was read as far as the furthest poll of any outcome. The queue is *dry* if a member that had assigned
itself the queue, and is as far as the furthest poll, has polled EMPTY_POLLS times in a row, each time begun after the
last acknowledgement and without a message. In other queues, acknowledged messages beyond the furthest poll are pending.

Source: the final polls of Jepsen's workload for Kafka, which assign every key to each client, seek to the beginning and
poll until every known message was polled. A history that `staticfire history convert` wrote holds drains.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from staticfire.checkers.formats.jepsen.reading import ASSIGNED, BROKER, TOPIC
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import AssignReport, ConsumeReport, SendValue, TxnReport

EMPTY_POLLS = 3
DRAIN_PROCESS = 99_999


class FinalPolls:
    """Takes the ops of one history, in order; sends must have the outcomes that the verdict uses."""

    def __init__(self) -> None:
        self._end: Counter[int] = Counter()  # by queue: one past the last known message
        self._read: Counter[int] = Counter()  # by queue: one past the furthest poll
        self._acks: Counter[int] = Counter()  # by queue
        self._unplaced: dict[
            str, int
        ] = {}  # acknowledged at an unknown offset, not yet polled: queue by key
        self._seen: set[str] = set()
        self._began: dict[int, Counter[int]] = {}  # by process: acknowledgements when its op began
        self._at: dict[int, dict[int, int]] = defaultdict(
            dict
        )  # by process and queue: its position
        self._empty: Counter[tuple[int, int]] = Counter()  # by process and queue
        self._dry: set[int] = set()
        self._reported: dict[int, list[Any]] = {}  # by queue, from drains in the history
        self._reported_all = True

    def see(self, op: Op) -> None:
        if op.f == "txn":
            self._txn(op)
        elif op.f == "send" and op.type == "ok":
            self._acknowledged(op)
        elif op.f == "consume" and op.type != "invoke":
            self._polled(op)
        elif op.f == "assign" and op.type == "ok" and op.value["group"] == ASSIGNED:
            self._assigned(op)
        elif op.f == "drain":
            self._reported.update((row[1], row) for row in op.value["queues"])
            self._reported_all &= op.type == "ok"

    def _acknowledged(self, op: Op[SendValue]) -> None:
        value = op.value
        queue, offset, key = value["queue"], value["queue_offset"], value["key"]
        self._acks[queue] += 1
        self._dry.discard(queue)
        for reader in [one for one in self._empty if one[1] == queue]:
            del self._empty[reader]
        if offset != UNKNOWN:
            self._end[queue] = max(self._end[queue], offset + 1)
        elif key not in self._seen:
            self._unplaced[key] = queue

    def _assigned(self, op: Op[AssignReport]) -> None:
        before = {} if op.value.get("from_beginning") else self._at[op.process]
        new = 0 if op.value.get("from_beginning") else UNKNOWN  # until its first message shows it
        queues = [queue for _, queue in op.value["queues"]]
        self._at[op.process] = {queue: before.get(queue, new) for queue in queues}

    def _txn(self, op: Op[TxnReport]) -> None:
        if op.type == "invoke":
            self._began[op.process] = self._acks.copy()
            return
        acks = self._began.pop(op.process, Counter())
        if op.type != "ok" or not any(mop[0] == "poll" for mop in op.value["mops"]):
            return
        got = _queues_of(op.value["mops"])
        for queue, position in self._at[op.process].items():
            is_empty = queue not in got and acks[queue] == self._acks[queue]
            if is_empty:
                self._empty[op.process, queue] += 1
            else:
                self._empty.pop((op.process, queue), None)
            if self._empty[op.process, queue] >= EMPTY_POLLS and position >= self._read[queue]:
                self._dry.add(queue)

    def _polled(self, op: Op[ConsumeReport]) -> None:
        queue, rows = op.value["queue"], op.value["messages"]
        read = max(offset for _, offset, *_ in rows) + 1
        self._read[queue] = max(self._read[queue], read)
        self._end[queue] = max(self._end[queue], read)
        position = self._at[op.process].get(queue)
        if op.type == "ok" and position is not None:
            self._at[op.process][queue] = max(position, read)
        for key, *_ in rows:
            self._seen.add(key)
            self._unplaced.pop(key, None)

    def drains(self, groups: Iterable[str]) -> Iterator[Op]:
        """Yield the drains of some groups; the caller sets index and time."""
        rows = [self._reported[queue] for queue in sorted(self._reported)] or self._rows()
        lag = sum(max(end - read, 0) for *_, end, read in rows)
        for group in groups:
            yield Op(
                index=0,
                time_ns=0,
                process=DRAIN_PROCESS,
                type="info" if lag or not self._reported_all else "ok",
                f="drain",
                value={"group": group, "topic": TOPIC, "queues": rows, "lag": lag},
                error=f"{lag} messages were never polled" if lag else None,
            )

    def _rows(self) -> list[list[Any]]:
        unplaced = set(self._unplaced.values())
        rows: list[list[Any]] = []
        for queue in sorted(self._end.keys() | unplaced):
            end, read = self._end[queue], self._read[queue]
            if queue in self._dry:
                read = end
            elif queue in unplaced:
                end = max(end, read + 1)
            rows.append([BROKER, queue, 0, end, read])
        return rows


def _queues_of(mops: Iterable[list[Any]]) -> set[int]:
    """Return the queues from which some polls got messages."""
    found: set[int] = set()
    for mop in mops:
        if mop[0] == "poll" and len(mop) > 1:
            polled: Mapping[str, Any] = mop[1]
            found |= {int(key) for key, messages in polled.items() if messages}
    return found
