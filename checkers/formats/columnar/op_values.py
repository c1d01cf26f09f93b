"""Rebuilds the value of an op from its message events.

The writer stores a value as JSON only if the reader cannot rebuild it from the message events.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from staticfire.checkers.model.building.column_builder import NS_PER_MS, TRANSACTIONS
from staticfire.checkers.model.building.column_values import EVENT_WIDTH
from staticfire.checkers.model.columns import UNKNOWN, Names
from staticfire.checkers.model.history import INT64_MAX, Op
from staticfire.checkers.model.message_contents import TAG
from staticfire.checkers.op_kinds.values import ConsumeReport

_TRANSACTION_NAMES: dict[int, str] = {int(number): name for name, number in TRANSACTIONS.items()}
_ASKED = ("key", "topic", "size", "sharding_key", "tag", "delay_ms", "transaction")
_PLACE = ("broker", "queue", "queue_offset", "physical_offset")
_USUAL_KEYS = {"key", "topic", "size", *_PLACE, "status", "attempts"}
_USUAL_KEYS_WITH_ID = {*_USUAL_KEYS, "id"}
_CONSUME_KEYS = {"group", "topic", "broker", "queue", "messages"}


class SendEvent(NamedTuple):
    """The columns of a send from which its value is made."""

    message: int
    topic: int
    log: int
    queue_offset: int
    position: int
    tries: int
    sharding_key: int
    tag: int
    due_ns: int
    transaction: int
    invoke_ns: int
    message_id: int


class DeliveryEvent(NamedTuple):
    """The columns of a delivered message from which the value of its op is made."""

    message: int
    queue_offset: int
    position: int
    body_ok: bool
    tries: int
    message_id: int
    tag: int
    properties: int
    born_ms: int
    stored_ms: int
    size: int
    origin: int


def size_of(value: Mapping[str, object]) -> int:
    """Return the size if a column can hold it, or UNKNOWN."""
    size = value.get("size")
    return size if type(size) is int and 0 <= size <= INT64_MAX else UNKNOWN


def is_plain_send(op: Op[Mapping[str, object]]) -> bool:
    """Whether `send_value` makes the value of a send, completed or not, from its message event."""
    value = op.value
    # Fast path for nearly all sends.
    if op.type == "ok" and (value.keys() == _USUAL_KEYS or value.keys() == _USUAL_KEYS_WITH_ID):
        is_reported = value["status"] == "SEND_OK" and value["attempts"] != 0
        return is_reported and size_of(value) != UNKNOWN
    plain = invocation_of_send(value)
    if "size" in value and size_of(value) == UNKNOWN:
        return False
    if value.get("attempts"):
        plain["attempts"] = value["attempts"]
    if "id" in value:
        plain["id"] = value["id"]
    if op.type in ("ok", "info") and "broker" in value:
        plain |= {name: value.get(name) for name in _PLACE}
        plain["status"] = _status(op.type, op.error)
    return plain == value


def invocation_of_send(value: Mapping[str, object]) -> dict[str, object]:
    """Return the value of the invocation of a send, from that of its completion: the request."""
    return {name: value[name] for name in _ASKED if name in value}


def is_plain_consume(value: Mapping[str, Any], *, contents: bool) -> bool:
    """Whether `consume_value` makes the value of a delivery from its message events, with contents or without."""
    return value.keys() == _CONSUME_KEYS and all(
        len(message) == EVENT_WIDTH or (contents and _has_contents(message))
        for message in value["messages"]
    )


def _has_contents(message: Sequence[Any]) -> bool:
    """Whether a message has any contents: columns keep no trace of contents that are all unknown."""
    return any(value is not None for value in message[EVENT_WIDTH])


def is_plain_call(invoked: Mapping[str, Any], value: Mapping[str, object]) -> bool:
    """Whether the invocation of a delivery has the same value as its completion, perhaps with contents of messages."""
    if invoked == value:
        return True
    if not is_plain_consume(invoked, contents=True):
        return False
    messages = [message[:EVENT_WIDTH] for message in invoked["messages"]]
    return {**invoked, "messages": messages} == value


def send_value(
    names: Names, event: SendEvent, *, size: int, type: str, error: str | None
) -> dict[str, object]:
    """Return the value of a send. Raises IndexError or KeyError for ids without a name."""
    key = names.key(event.message)
    value: dict[str, object] = {"key": key, "topic": names.topics[event.topic]}
    if size != UNKNOWN:
        value["size"] = size
    if event.sharding_key != UNKNOWN:
        value["sharding_key"] = names.sharding_keys[event.sharding_key]
    if event.tag != UNKNOWN:
        value["tag"] = names.tags[event.tag]
    if event.due_ns != UNKNOWN:
        value["delay_ms"] = (event.due_ns - event.invoke_ns) // NS_PER_MS
    if event.transaction:
        value["transaction"] = _TRANSACTION_NAMES[event.transaction]
    if event.log != UNKNOWN:
        _, value["broker"], value["queue"] = names.logs[event.log]
        value["queue_offset"] = event.queue_offset
        value["physical_offset"] = event.position
        value["status"] = _status(type, error)
    if event.tries:
        value["attempts"] = event.tries
    if event.message_id != UNKNOWN:
        value["id"] = event.message_id
    return value


def consume_value(
    names: Names, queue: int, group: int, message_events: Sequence[DeliveryEvent], *, contents: bool
) -> ConsumeReport:
    """Return the value of a delivery, with contents or without. Raises IndexError for ids without a name."""
    topic, broker, number = names.logs[queue]
    return {
        "group": names.groups[group],
        "topic": topic,
        "broker": broker,
        "queue": number,
        "messages": [_message(names, event, contents=contents) for event in message_events],
    }


def _message(names: Names, event: DeliveryEvent, *, contents: bool) -> list[object]:
    key, *rest = event[:EVENT_WIDTH]
    message: list[object] = [names.key(key), *rest]
    if contents and any(value != UNKNOWN for value in event[EVENT_WIDTH:]):
        known: list[object] = [None if of == UNKNOWN else of for of in event[EVENT_WIDTH:]]
        known[TAG] = None if event.tag == UNKNOWN else names.tags[event.tag]
        message.append(known)
    return message


def _status(type: str, error: str | None) -> str | None:
    return "SEND_OK" if type == "ok" else error
