"""Converts ops of Jepsen's queue workload to our ops.

A key `k` becomes the message queue `k` of topic "jepsen" at broker "jepsen". The message with value `v` that was sent
to it has the key `p<k>-<v>` (`<k>-<v>` if these are no small integers). One op of Jepsen may hold several sends and
polls. Each becomes an op of its own, with a new index. A poll of a process that has subscribed is a delivery to the
group "jepsen". A poll of a process that was assigned its queues is a delivery to the group "jepsen-assigned", whose
members each keep their own positions. A poll that returned messages becomes a delivery: a successful one if the poll is
`ok`, one with unknown result otherwise.

With `transactions=True`, each op also becomes an op of f "txn", in addition to its sends and polls, because single
messages do not show atomicity.

The reader leaves out, and counts, ops without a counterpart: crash, debug-topic-partitions, and others.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from typing import Any

from staticfire.checkers.formats.jepsen.edn import Keyword
from staticfire.checkers.model.columns import UNKNOWN
from staticfire.checkers.model.history import INT64_MAX, NEMESIS, OP_TYPES, HistoryError, Op
from staticfire.checkers.model.message_ids import NUMBER_MASK, PROCESS_MAX

TOPIC = BROKER = GROUP = "jepsen"
ASSIGNED = f"{GROUP}-assigned"


class JepsenReader:
    """Takes the ops of one history, in order."""

    def __init__(self, *, transactions: bool = False) -> None:
        """`transactions`: also yield each op with sends and polls as an op of f "txn"."""
        self.left_out: Counter[str] = Counter()  # by f
        self._transactions = transactions
        self._index = 0
        self._time_ns = 0
        self._subscribed: set[int] = set()

    def read(self, fields: Any) -> Iterator[Op]:
        """Yield our ops for an op of Jepsen's. Raises HistoryError."""
        if not isinstance(fields, dict):
            raise HistoryError(f"an op is a map, not {type(fields).__name__}")
        self._time_ns = self._time(fields)
        process, f, type_ = (fields.get(Keyword(name)) for name in ("process", "f", "type"))
        if not isinstance(type_, str) or type_ not in OP_TYPES:
            raise HistoryError(f"type is {type_!r}; allowed are {', '.join(sorted(OP_TYPES))}")
        if not isinstance(f, str):
            raise HistoryError(f"f is {f!r}; expected a keyword")
        if process == "nemesis":
            yield self._op(
                NEMESIS, "info", _fault(f), {"f": f, "value": _plain(fields.get("value"))}
            )
        elif type(process) is not int or not 0 <= process <= INT64_MAX:
            raise HistoryError(f"process is {process!r}; expected an integer or :nemesis")
        elif f in ("send", "poll", "txn"):
            error = fields.get("error")
            text = None if error is None or type_ in ("invoke", "ok") else str(_plain(error))
            mops = _items(fields.get("value"))
            attempts = fields.get(Keyword("attempts"))  # ours, not Jepsen's
            if self._transactions and mops:
                yield self._op(process, str(type_), "txn", {"mops": list(map(_mop, mops))}, text)
            for mop in mops:
                for op in self._mop(process, str(type_), text, mop):
                    if op.f == "send" and type(attempts) is int:
                        op.value["attempts"] = attempts
                    yield op
        elif f in ("assign", "subscribe"):
            begins = fields.get(Keyword("seek-to-beginning?")) is True
            yield from self._assign(process, str(type_), f, fields.get("value"), begins)
        elif f == "drain":
            yield self._op(process, str(type_), "drain", _drain(fields.get("value")))
        else:
            self.left_out[f] += 1

    def _time(self, fields: Mapping[str, Any]) -> int:
        time_ns = fields.get("time", self._time_ns)
        if type(time_ns) is not int or not self._time_ns <= time_ns <= INT64_MAX:
            raise HistoryError(
                f"time is {time_ns!r}; expected an integer that is not below {self._time_ns}, the time before"
            )
        return time_ns

    def _op(
        self, process: int, type_: str, f: str, value: dict[str, object], error: str | None = None
    ) -> Op:
        op = Op(
            index=self._index,
            time_ns=self._time_ns,
            process=process,
            type=type_,  # type: ignore[arg-type]  # it is in OP_TYPES
            f=f,
            value=value,
            error=error,
        )
        self._index += 1
        return op

    def _mop(self, process: int, type_: str, error: str | None, mop: object) -> Iterator[Op]:
        match mop:
            case ["send", key, sent]:
                yield self._op(process, type_, "send", _send(type_, key, sent), error)
            case ["poll"] | ["poll", None]:
                pass  # its completion has the messages, or there are none
            case ["poll", dict() as got]:
                if type_ != "invoke":
                    ended = "ok" if type_ == "ok" else "info"
                    for key, messages in got.items():
                        if value := self._delivery(process, key, messages):
                            yield self._op(process, "invoke", "consume", value)
                            yield self._op(process, ended, "consume", value, error)
            case _:
                raise HistoryError(f"{mop!r} is neither [:send k v] nor [:poll ...]")

    def _delivery(self, process: int, key: Any, messages: Any) -> dict[str, object]:
        rows = []
        for message in _items(messages):
            offset, _ = _message(message)
            rows.append([message_key(key, message[1]), offset, UNKNOWN, True, 0])
        if not rows:
            return {}
        return {"group": self._group(process), "topic": TOPIC, **_queue(key), "messages": rows}

    def _group(self, process: int) -> str:
        return GROUP if process in self._subscribed else ASSIGNED

    def _assign(
        self, process: int, type_: str, f: str, keys: object, from_beginning: bool
    ) -> Iterator[Op]:
        subscribes = f == "subscribe"
        if type_ in ("ok", "info"):
            (self._subscribed.add if subscribes else self._subscribed.discard)(process)
        queues = [[BROKER, _number(key)] for key in _items(keys)]
        group = GROUP if subscribes else ASSIGNED
        value: dict[str, object] = {"group": group, "topic": TOPIC, "queues": queues}
        if from_beginning:
            value["from_beginning"] = True
        yield self._op(process, type_, "assign", value)


def _mop(mop: object) -> list[object]:
    """Return a micro-op in the form of ops of f "txn"."""
    match mop:
        case ["send", key, [offset, value]]:
            known = [] if offset is None else [_offset(offset)]
            sent = [*known, _value(value)]
            return ["send", str(_number(key)), sent if known else sent[0]]
        case ["send", key, value]:
            return ["send", str(_number(key)), _value(value)]
        case ["poll", dict() as got]:
            polled = {str(_number(key)): list(map(_message, _items(m))) for key, m in got.items()}
            return ["poll", polled]
        case ["poll"] | ["poll", None]:
            return ["poll"]
        case _:
            raise HistoryError(f"{mop!r} is neither [:send k v] nor [:poll ...]")


def _message(message: Any) -> list[Any]:
    match message:
        case [offset, value]:
            return [_offset(offset), _value(value)]
        case _:
            raise HistoryError(f"{message!r} is no [offset value]")


def _value(value: Any) -> int | str:
    return value if type(value) is int and abs(value) <= INT64_MAX else str(_plain(value))


def _send(type_: str, key: Any, sent: Any) -> dict[str, object]:
    if type_ == "invoke":
        return {"key": message_key(key, sent), "topic": TOPIC}
    match sent:
        case [None | int() as offset, value]:
            offset = UNKNOWN if offset is None else _offset(offset)
            stored = {"key": message_key(key, value), "topic": TOPIC, **_queue(key)}
            stored["queue_offset"] = offset
            if type_ == "ok":
                return {**stored, "physical_offset": UNKNOWN, "status": "SEND_OK"}
            return stored
        case _:
            stored = {**_queue(key), "queue_offset": UNKNOWN} if type_ == "ok" else {}
            return {"key": message_key(key, sent), "topic": TOPIC, **stored}


def _drain(rows: Any) -> dict[str, object]:
    """Return a drain (ours, not Jepsen's): [key, first offset, end, committed offset] of each key at the end."""
    queues: list[list[Any]] = []
    for row in _items(rows):
        match row:
            case [key, low, end, committed]:
                queues.append([BROKER, _number(key), *map(_offset, (low, end, committed))])
            case _:
                raise HistoryError(f"{row!r} is no [key first end committed]")
    lag = sum(max(end - committed, 0) for *_, end, committed in queues)
    return {"group": GROUP, "topic": TOPIC, "queues": queues, "lag": lag}


def message_key(key: Any, value: Any) -> str:
    small = type(key) is int and type(value) is int
    if small and 0 <= key <= PROCESS_MAX and 0 <= value <= NUMBER_MASK:
        return f"p{key}-{value}"
    return f"{key}-{_plain(value)}"


def _offset(value: object) -> int:
    if type(value) is not int or not 0 <= value <= INT64_MAX:
        raise HistoryError(f"offset {value!r} is no integer from 0 to {INT64_MAX}")
    return value


def _queue(key: Any) -> dict[str, object]:
    return {"broker": BROKER, "queue": _number(key)}


def _number(key: object) -> int:
    if type(key) is not int or abs(key) > INT64_MAX:
        raise HistoryError(f"key {key!r} is no integer")
    return key


def _items(value: Any) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise HistoryError(f"{value!r} is no vector")
    return value


def _fault(f: str) -> str:
    for prefix in ("start", "stop"):
        if f.startswith(prefix):
            return f"{prefix}_{f.removeprefix(prefix).lstrip('-') or 'fault'}"
    return f"start_{f}"


def _plain(value: Any) -> Any:
    """Convert a value to one that JSON can represent."""
    if isinstance(value, dict):
        return {str(_plain(key)): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, str):
        return str(value)
    return (
        value
        if isinstance(value, float) or value is None or abs(value) <= INT64_MAX
        else str(value)
    )
