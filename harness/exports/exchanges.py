"""Pairs the ops of a history into exchanges: sends and listener calls, from invocation to completion."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

from staticfire.checkers.model.history import NEMESIS, HistoryError, Op
from staticfire.checkers.model.message_ranges import messages_of, nth_key, of_delivery, of_send
from staticfire.harness.histories.choice import pair_of

SENDS = ("send", "send_many")
DELIVERIES = ("consume", "consume_many")
_ID, _WIDTH = 0, 7  # of the contents of a message


class Message(NamedTuple):
    """A message of an exchange. A field is None if the history lacks it."""

    key: str | None
    queue_offset: int | None = None
    physical_offset: int | None = None
    body_ok: bool = True
    tries: int = 0  # reconsume times
    digest: int | None = None  # of the unique message id


@dataclass(slots=True, kw_only=True)
class Exchange:
    """A send of a producer, or a call of a consumer's listener.

    Attributes:
        group: the consumer group; empty for a send.
        value: of the completion, or of the invocation while there is none.
        outcome: ok, fail, info; open while there is no completion.
        end_ns: of the completion; where there is none, the time at which the history ends.
    """

    is_send: bool
    node: str
    topic: str
    group: str
    messages: tuple[Message, ...]
    begin_ns: int
    value: dict[str, object]
    end_ns: int = -1
    outcome: str = "open"
    error: str | None = None

    @property
    def broker(self) -> str:
        """The broker's name; empty if the history lacks it."""
        return self.text("broker")

    def text(self, name: str) -> str:
        """Return a field of the value, if it is text."""
        found = self.value.get(name)
        return found if isinstance(found, str) else ""

    def whole(self, name: str) -> int | None:
        """Return a field of the value, if it is an integer of 64 bits."""
        return _whole(self.value.get(name))


def exchanges(ops: Iterable[Op]) -> Iterator[tuple[bool, Exchange]]:
    """Yield (whether it has ended, exchange): each at its invocation and at its completion, in the history's order.

    Memory grows with the number of open exchanges. An exchange without a completion ends with the history. A completion
    without an invocation counts as both. Raises HistoryError for an op without the fields of its kind.
    """
    waiting: dict[object, Exchange] = {}
    last_ns = 0
    for op in ops:
        last_ns = op.time_ns
        if op.process == NEMESIS or op.f not in (*SENDS, *DELIVERIES):
            continue
        try:
            pair = pair_of(op)
            if pair is None:  # about no message
                continue
            found = waiting.pop(pair, None) if op.type != "invoke" else None
            if found is None:
                found = _begun(op)
                yield False, found
            if op.type == "invoke":
                waiting[pair] = found
                continue
            _end(found, op)
        except (KeyError, TypeError, ValueError, AttributeError, IndexError) as error:
            if isinstance(error, HistoryError):
                raise
            raise HistoryError(f"op {op.index} is no {op.f}: {op.value!r:.200}") from error
        yield True, found
    for left in waiting.values():
        left.end_ns = last_ns
        yield True, left


def _begun(op: Op) -> Exchange:
    value = op.value
    return Exchange(
        is_send=op.f in SENDS,
        node=op.node or f"process {op.process}",
        topic=str(value.get("topic", "")),
        group=str(value["group"]) if op.f in DELIVERIES else "",
        messages=_messages(op),
        begin_ns=op.time_ns,
        value=value,
    )


def _end(exchange: Exchange, op: Op) -> None:
    exchange.end_ns, exchange.outcome, exchange.error = op.time_ns, op.type, op.error
    if exchange.is_send:
        exchange.value = {**exchange.value, **op.value}
        exchange.messages = _messages(op)


def _messages(op: Op) -> tuple[Message, ...]:
    value = op.value
    match op.f:
        case "send":
            offset, physical = value.get("queue_offset"), value.get("physical_offset")
            digest = _whole(value.get("id"))
            return (Message(_key(value["key"]), _offset(offset), _offset(physical), digest=digest),)
        case "send_many" if "ranges" not in value:
            return tuple(Message(nth_key(value["key"], n)) for n in range(_count(value["count"])))
        case "send_many":
            rows = (messages_of(of_send(row)) for row in value["ranges"])
            return tuple(_message(message) for row in rows for message in row)
        case "consume":
            return tuple(map(_message, value["messages"]))
    many = (messages_of(of_delivery(row)) for row in value["ranges"])
    return tuple(_message(message) for row in many for message in row)


def _message(row: list[Any]) -> Message:
    key, offset, physical, body_ok, tries, *more = row
    contents = more[0] if more else None
    digest = contents[_ID] if isinstance(contents, list) and len(contents) == _WIDTH else None
    return Message(
        _key(key), _offset(offset), _offset(physical), body_ok is True, int(tries), _whole(digest)
    )


def _count(value: object) -> int:
    if type(value) is not int or not 0 <= value <= 1 << 20:
        raise ValueError(f"count is {value!r}")
    return value


def _key(value: object) -> str | None:
    if value is not None and not isinstance(value, str):
        raise TypeError(f"a key is {value!r}")
    return value


def _whole(value: Any) -> int | None:
    return value if type(value) is int and abs(value) < 1 << 63 else None


def _offset(value: object) -> int | None:
    """Return an offset; None for -1, which means unknown."""
    found = _whole(value)
    return None if found is None or found < 0 else found
