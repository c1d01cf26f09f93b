"""Turns one op of a history into events about a message or an offset."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import HistoryError, Op
from staticfire.checkers.model.message_ranges import messages_of, of_delivery, sends_of
from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.explain.event import Event
from staticfire.harness.observers.probe import PROBE_PROCESS

TRAITS = {  # fields of a send that make a message special
    "transaction": "in a transaction that ends by",
    "delay_level": "delay level",
    "tag": "tag",
    "sharding_key": "sharding key",
    "one_way": "one way",
    "account": "account",
}


def events_of(op: Op, witness: Finding, home: str | None) -> list[Event]:
    """Return the events of one op that concern the message or the offset of a finding.

    `home` is the topic to which the message was sent. Raises HistoryError for an op without the fields of its kind.
    """
    try:
        return list(_of_op(op, witness, home))
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise HistoryError(f"op {op.index} is no {op.f}: {op.value!r:.200}") from error


def _of_op(op: Op, witness: Finding, home: str | None) -> Iterator[Event]:
    match op.f:
        case "send":
            yield from _of_send(op, op.value, witness)
        case "send_many" if "ranges" in op.value:
            for value in sends_of(op.value):
                yield from _of_send(op, value, witness)
        case "consume" if op.type == "invoke" or op.process == PROBE_PROCESS:
            for message in op.value["messages"]:
                yield from _of_delivery(op, message, witness, home)
        case "consume" if op.type != "ok" and has_key(op.value["messages"], witness):
            yield Event(
                time_ns=op.time_ns, where=op.node or "", text=op.error or "its listener fails"
            )
        case "consume_many" if op.type == "invoke":
            for row in op.value["ranges"]:
                for message in messages_of(of_delivery(row)):
                    yield from _of_delivery(op, message, witness, home)
        case "check_back" if op.value.get("key") == witness.key:
            times, state = op.value.get("times"), op.value.get("state")
            text = f"is asked how its transaction ended, time {times}: {state}"
            yield Event(time_ns=op.time_ns, where=op.node or "", text=text)
        case "send_back" if op.type != "invoke" and has_key(op.value["messages"], witness):
            came_of_it = "" if op.type == "ok" else f": {op.error or 'no certain answer'}"
            yield Event(time_ns=op.time_ns, where=op.node or "", text=f"sends it back{came_of_it}")


def has_key(messages: Iterable[Sequence[object]], witness: Finding) -> bool:
    return any(key == witness.key for key, *_ in messages)


def _of_send(op: Op, value: SendValue, witness: Finding) -> Iterator[Event]:
    where, key = op.node or "", value.get("key")
    if key is not None and key == witness.key:
        yield Event(time_ns=op.time_ns, where=where, text=_send_text(op, value))
    elif op.type == "ok" and _is_place(witness, value, value.get("queue_offset")):
        text = f"{key} is acknowledged at the same offset"
        yield Event(time_ns=op.time_ns, where=where, text=text)


def _send_text(op: Op, value: SendValue) -> str:
    match op.type:
        case "invoke":
            size = f", {value['size']} bytes" if "size" in value else ""
            batch = f", in a batch of {value['batch']}" if "batch" in value else ""
            return f"sends it{size}{batch}{''.join(traits(value))}"
        case "ok":
            position = f"{value.get('broker')} queue {value.get('queue')} offset {value.get('queue_offset')}"
            return f"is answered {value.get('status', 'ok')}: {position}"
        case "fail":
            return f"its send failed for certain: {op.error}"
    return f"has no certain answer: {op.error or value.get('status')}"


def traits(value: Mapping[str, Any]) -> Iterator[str]:
    """Yield what distinguishes a message from a plain one."""
    for name, words in TRAITS.items():
        if value.get(name) not in (None, "", 0, False):
            yield f", {words} {value[name]}" if value[name] is not True else f", {words}"
    for name, text in (value.get("properties") or {}).items():
        yield f", property {name}={text:.40}"


def _of_delivery(
    op: Op, message: Sequence[Any], witness: Finding, home: str | None
) -> Iterator[Event]:
    where, group, topic = op.node or "", op.value.get("group"), op.value.get("topic")
    key, offset, *_ = message
    if key is not None and key == witness.key:
        tries = message[4] if len(message) > 4 else 0
        text = "is read at the end" if op.process == PROBE_PROCESS else f"{group} gets it"
        text += f" as retry {tries}" if tries else ""
        text += f", {op.value.get('broker')} queue {op.value.get('queue')} offset {offset}"
        text += "" if home in (None, topic) else f" of {topic}"
        yield Event(time_ns=op.time_ns, where=where, text=text)
    elif _is_place(witness, op.value, offset):
        text = f"{group} gets {key} at that offset"
        yield Event(time_ns=op.time_ns, where=where, text=text)


def _is_place(witness: Finding, value: Mapping[str, object], offset: int | None) -> bool:
    if offset is None or witness.queue_offset is None:
        return False
    wanted = witness.topic, witness.broker, witness.queue, witness.queue_offset
    return (value.get("topic"), value.get("broker"), value.get("queue"), offset) == wanted
