"""Converts our ops to ops of Jepsen's queue workload, as lines of EDN.

Each message queue becomes a key k: the number of the queue if the history came from Jepsen, else 0, 1, 2, ... in order
of first use. A message with key `p<k>-<v>` becomes the value v if the history came from Jepsen; any other becomes a
string with its key. A message belongs to the queue that acknowledged it, else to one from which it was polled, else to
a key for its topic. A send with several attempts may be stored twice. Each other copy becomes an unclear send to its
queue, and `:attempts` has the number of attempts (0: not known). A drain becomes an op `drain`, which Jepsen ignores.
Ops without a counterpart in Jepsen's workload are left out and counted. Ops get new indices.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Any

from staticfire.checkers.formats.jepsen.edn import Keyword, to_edn
from staticfire.checkers.formats.jepsen.reading import ASSIGNED, BROKER, TOPIC
from staticfire.checkers.model.building.column_values import BAD_VALUE, bad_op
from staticfire.checkers.model.history import FIRING, NEMESIS, HistoryError, Op
from staticfire.checkers.model.message_ids import OTHER, UNKNOWN, MessageIds
from staticfire.checkers.op_kinds.values import ConsumeReport, DrainReport, SendValue, TxnReport

_Queue = tuple[str, str, int]
ATTEMPTS = 1 << 30  # the process of the first attempt that is written as a send of its own


class JepsenWriter:
    """Writes one history. Call `look` with all ops first, because a send does not show the queue of its message."""

    def __init__(self) -> None:
        self.left_out: Counter[str] = Counter()  # by f
        self._keys: dict[_Queue, int] = {}
        self._placed: dict[str, _Queue] = {}  # by key of the message
        self._copies: dict[str, list[_Queue]] = {}  # by key: other queues from which it was polled
        self._attempts = 0  # those that are written as sends of their own
        self._ids = MessageIds()
        self._index = 0
        self._transactions = False

    def look(self, ops: Iterable[Op]) -> None:
        """Determine the queue of each message: the one that acknowledged it, else the first from which it was polled.

        Raises HistoryError.
        """
        sent_to: dict[str, str] = {}  # topics of messages without a queue
        for op in ops:
            try:
                if op.f == "txn":
                    self._transactions = True
                elif op.f == "send":
                    self._sent(op, sent_to)
                elif op.f == "consume":
                    self._polled(op, sent_to)
            except BAD_VALUE as error:
                raise bad_op(op, error) from error

    def _sent(self, op: Op[SendValue], sent_to: dict[str, str]) -> None:
        key = op.value["key"]
        if op.value.get("broker") is not None:
            queue, before = _queue_of(op), self._placed.get(key)
            self._placed[key] = queue
            if before not in (None, queue):
                self._copies.setdefault(key, []).append(before)
        sent_to[key] = op.value["topic"]

    def _polled(self, op: Op[ConsumeReport], sent_to: dict[str, str]) -> None:
        queue = _queue_of(op)
        for key, *_ in op.value["messages"]:
            if sent_to.get(key) == queue[0] and self._placed.setdefault(key, queue) != queue:
                copies = self._copies.setdefault(key, [])
                if queue not in copies:
                    copies.append(queue)

    def line(self, op: Op) -> str | None:
        """Return an op, and sends for the other copies of its message, as lines; None for an op without a counterpart.

        Raises HistoryError.
        """
        try:
            fields = self._fields(op)
        except BAD_VALUE as error:
            raise bad_op(op, error) from error
        if fields is None:
            if not self._is_reported_by_transactions(op):
                self.left_out[op.f] += 1
            return None
        lines = [fields]
        if op.f == "send" and op.type == "invoke" and not self._transactions:
            lines += self._other_attempts(op)
        return "".join(map(self._text, lines))

    def _text(self, fields: dict[Keyword, object]) -> str:
        fields[Keyword("index")] = self._index
        self._index += 1
        return to_edn(fields) + "\n"

    def _other_attempts(self, op: Op[SendValue]) -> Iterator[dict[Keyword, object]]:
        """Yield unclear sends of the same value to other keys: a send with several attempts may be stored twice."""
        for queue in self._copies.get(op.value["key"], ()):
            if queue == self._placed[op.value["key"]]:
                continue
            process = ATTEMPTS + self._attempts
            self._attempts += 1
            sent = [[Keyword("send"), self._key(queue), self._value(op.value["key"], queue)]]
            yield _op(op, process, "send", sent)
            ended = {Keyword("type"): Keyword("info"), Keyword("attempts"): 0}
            yield {**_op(op, process, "send", sent), **ended}

    def _fields(self, op: Op) -> dict[Keyword, object] | None:
        if op.process == NEMESIS and op.f.startswith(FIRING):
            return None
        if op.process == NEMESIS:
            return _op(op, Keyword("nemesis"), _of_jepsen(op), op.value.get("value", op.value))
        if self._is_reported_by_transactions(op):
            return None
        if op.f == "txn":
            return _transaction(op)
        if op.f == "send":
            fields = _op(op, op.process, "send", [self._send(op)])
            attempts = op.value.get("attempts", None if op.value["topic"] == TOPIC else 0)
            if op.type != "invoke" and attempts is not None:
                fields[Keyword("attempts")] = attempts
            return fields
        if op.f == "consume":
            return _op(op, op.process, "poll", [self._poll(op)])
        if op.f == "assign":
            topic = op.value["topic"]
            queues = [(topic, broker, number) for broker, number in op.value["queues"]]
            f = "assign" if op.value["group"] == ASSIGNED else "subscribe"
            fields = _op(op, op.process, f, list(map(self._key, queues)))
            if op.value.get("from_beginning"):
                fields[Keyword("seek-to-beginning?")] = True
            return fields
        if op.f == "drain":
            return _op(op, op.process, "drain", self._drain(op))
        return None

    def _drain(self, op: Op[DrainReport]) -> list[list[int]]:
        topic = op.value["topic"]
        return [
            [self._key((topic, broker, number)), *ends]
            for broker, number, *ends in op.value["queues"]
        ]

    def _is_reported_by_transactions(self, op: Op) -> bool:
        """Whether an op is part of a transaction, which is an op by itself."""
        return self._transactions and op.f in ("send", "consume") and op.value["topic"] == TOPIC

    def _send(self, op: Op[SendValue]) -> list[object]:
        value = op.value
        queue = self._placed.get(value["key"]) or self._unplaced(value["topic"], value["key"])
        key, sent = self._key(queue), self._value(value["key"], queue)
        if op.type == "ok" or "queue_offset" in value:
            offset = value.get("queue_offset", UNKNOWN)
            return [Keyword("send"), key, [None if offset == UNKNOWN else offset, sent]]
        return [Keyword("send"), key, sent]

    def _poll(self, op: Op[ConsumeReport]) -> list[object]:
        if op.type == "invoke":
            return [Keyword("poll")]
        value = op.value
        queue = _queue_of(op)
        got = [
            [offset, None if key is None else self._value(key, queue)]
            for key, offset, *_ in value["messages"]
        ]
        return [Keyword("poll"), {self._key(queue): got}]

    def _unplaced(self, topic: str, key: str) -> _Queue:
        """Return the queue of a message without a position; a key that came from Jepsen names it."""
        number = key.partition("-")[0].removeprefix("p")
        if topic == TOPIC and number.isdecimal():
            return (TOPIC, BROKER, int(number))
        return (topic, "", UNKNOWN)

    def _key(self, queue: _Queue) -> int:
        topic, broker, number = queue
        if (topic, broker) == (TOPIC, BROKER):
            return number
        return self._keys.setdefault(queue, len(self._keys))

    def _value(self, key: str, queue: _Queue) -> object:
        if queue[:2] != (TOPIC, BROKER):
            return key
        return (
            int(key.partition("-")[2])
            if self._ids[key] < OTHER
            else key.removeprefix(f"{queue[2]}-")
        )


def _queue_of(op: Op[SendValue] | Op[ConsumeReport]) -> _Queue:
    """Return the queue of an op. Raises HistoryError."""
    queue = op.value["topic"], op.value["broker"], op.value["queue"]
    if any(isinstance(part, list | dict) for part in queue):
        raise HistoryError(f"op {op.index} names no queue: {queue!r:.100}")
    return queue


def _op(op: Op, process: object, f: str, value: object) -> dict[Keyword, object]:
    fields = {
        Keyword("type"): Keyword(op.type),
        Keyword("f"): Keyword(f),
        Keyword("value"): value,
        Keyword("process"): process,
        Keyword("time"): op.time_ns,
    }
    if op.error is not None:
        fields[Keyword("error")] = op.error
    return fields


def _transaction(op: Op[TxnReport]) -> dict[Keyword, object]:
    mops = op.value["mops"]
    kinds = {mop[0] for mop in mops}
    f = kinds.pop() if len(kinds) == 1 else "txn"
    return _op(op, op.process, f, [_mop(*mop, invoked=op.type == "invoke") for mop in mops])


def _mop(f: str, *rest: Any, invoked: bool) -> list[Any]:
    if f == "poll":
        got = [{_number(key): messages for key, messages in polled.items()} for polled in rest]
        return [Keyword("poll"), *got]
    key, value = rest
    is_placed = invoked or isinstance(value, list)
    return [Keyword("send"), _number(key), value if is_placed else [None, value]]


def _number(key: str) -> int | str:
    return int(key) if key.lstrip("-").isdecimal() else key


def _of_jepsen(op: Op) -> str:
    f = op.value.get("f")
    return f if isinstance(f, str) and " " not in f else op.f.replace("_", "-")
