"""Condensed ops: one op for many messages, `send_many` and `consume_many`, for histories with millions of messages.

They report messages as ranges: keys `p<process>-<n>` and queue offsets that go up by one, and records at equal
distances in the log. No information is lost: columns have a row for each message, and kernels see no difference.
docs/history.md describes the fields of a message range.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, cast

from staticfire.checkers.op_kinds.consumer import CONSUME_MANY
from staticfire.checkers.op_kinds.values import SendManyValue, SendValue

if TYPE_CHECKING:  # without these imports, a client process starts sooner
    from staticfire.checkers.model.history import Op

SEND_WIDTH, DELIVERY_WIDTH = 5, 7
# p<process>-<n>, small enough that the n messages after it also have ids of this form (checkers/model/message_ids.py)
_PLAIN = re.compile(r"(p(?:0|[1-9][0-9]{0,5})-)(0|[1-9][0-9]{0,11})", re.ASCII)

Message = Sequence[
    Any
]  # as in `consume`: key, queue offset, physical offset, body_ok, reconsume times


class MessageRange(NamedTuple):
    """Consecutive messages of one queue. For a send, `body_ok` is True and `tries` is 0."""

    key: str | None  # of the first message; None, or of any form, if there is only one
    queue_offset: int
    physical_offset: int
    body_ok: bool
    tries: int
    length: int
    stride: int  # bytes from one record to the next

    def to_delivery(self) -> list[object]:
        """Return the row of a `consume_many`."""
        return list(self)

    def to_send(self) -> list[object]:
        """Return the row of a `send_many`."""
        return [self.key, self.queue_offset, self.physical_offset, self.length, self.stride]


def of_delivery(row: Sequence[Any]) -> MessageRange:
    """Read a row of a `consume_many`. Raises ValueError for a wrong number of fields; their types are not checked."""
    if len(row) != DELIVERY_WIDTH:
        raise ValueError(f"a range has {len(row)} fields; expected {DELIVERY_WIDTH}")
    return MessageRange(*row)


def of_send(row: Sequence[Any]) -> MessageRange:
    """Read a row of a `send_many`. Raises ValueError for a wrong number of fields; their types are not checked."""
    if len(row) != SEND_WIDTH:
        raise ValueError(f"a range has {len(row)} fields; expected {SEND_WIDTH}")
    key, queue_offset, physical_offset, count, stride = row
    return MessageRange(key, queue_offset, physical_offset, True, 0, count, stride)


def condensed(messages: Iterable[Message]) -> list[MessageRange]:
    """Combine the messages of one queue, in their order of arrival, into as few message ranges as possible."""
    found: list[MessageRange] = []
    first: Message = ()
    length = stride = number = 0
    prefix = ""
    for message in messages:
        if length == 1:
            stride = message[2] - first[2]
        if (
            length
            and message[0] == f"{prefix}{number + length}"
            and message[1] == first[1] + length
            and message[2] == first[2] + length * stride
            and message[3:] == first[3:]
        ):
            length += 1
            continue
        if length:
            found.append(_message_range(first, length, stride))
        first, length = message, 1
        prefix, number = _split(message[0])
    if length:
        found.append(_message_range(first, length, stride))
    return found


def _message_range(first: Message, length: int, stride: int) -> MessageRange:
    key, queue_offset, physical_offset, body_ok, tries = first
    apart = stride if length > 1 else 0
    return MessageRange(key, queue_offset, physical_offset, body_ok, tries, length, apart)


def _split(key: str | None) -> tuple[str, int]:
    """Return the prefix that consecutive keys share, and this key's number. A key of another form has no successor."""
    plain = _PLAIN.fullmatch(key or "")
    return (f"{key} ", 0) if plain is None else (plain[1], int(plain[2]))


def is_plain(key: str) -> bool:
    """Whether a key may have successors: `p<process>-<n>`."""
    return _PLAIN.fullmatch(key) is not None


def nth_key(first: str, number: int) -> str:
    """Return the key that is `number` after the first one. For 0 this is the first key itself, in any form."""
    if not number:
        return first
    prefix, start = _split(first)
    return f"{prefix}{start + number}"


def messages_of(message_range: MessageRange) -> Iterator[list[Any]]:
    """Yield each message in the form of `consume`."""
    for number in range(message_range.length):
        yield [
            message_range.key if message_range.key is None else nth_key(message_range.key, number),
            message_range.queue_offset + number,
            message_range.physical_offset + number * message_range.stride,
            message_range.body_ok,
            message_range.tries,
        ]


def sends_of(value: SendManyValue) -> Iterator[SendValue]:
    """Yield a `send` value for each message of a `send_many` that reports positions."""
    beside = ("key", "count", "ranges")
    shared = cast(SendValue, {name: of for name, of in value.items() if name not in beside})
    for row in value["ranges"]:
        for key, queue_offset, physical_offset, *_ in messages_of(of_send(row)):
            yield {
                **shared,
                "key": key,
                "queue_offset": queue_offset,
                "physical_offset": physical_offset,
            }


def delivered_keys(op: Op) -> Iterator[str | None]:
    """Yield the key of each message of a delivery."""
    if op.f == CONSUME_MANY:
        for row in op.value["ranges"]:
            yield from (message[0] for message in messages_of(of_delivery(row)))
    else:
        yield from (message[0] for message in op.value["messages"])


def messages_in(op: Op) -> int:
    """Return the number of messages of a send or a delivery; 0 for any other op."""
    match op.f:
        case "send":
            return 1
        case "consume":
            return len(op.value["messages"])
        case "send_many":
            return int(op.value["count"])
        case "consume_many":
            return sum(of_delivery(row).length for row in op.value["ranges"])
    return 0
