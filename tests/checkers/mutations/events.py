"""Sends and deliveries of a history, one for each message, whichever form its op has."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import is_plain

CONSUMED = ("consume", "consume_many")
SENT = ("send", "send_many")
BARE = 5  # elements of a delivered message without its contents


@dataclass(frozen=True, slots=True)
class Sent:
    """One message that was sent. Offsets are -1 where they are not known."""

    key: str
    begin: int  # index of the invocation
    at: int | None  # of the completion
    slot: int  # which message of a `send_many` it is
    process: int
    type: str  # of the completion; "invoke" if there is none
    topic: str
    broker: str | None
    queue: int
    offset: int
    physical: int
    status: str
    begin_ns: int
    time_ns: int
    attempts: int
    is_plain: bool  # neither delayed nor of a transaction nor a request


@dataclass(frozen=True, slots=True)
class Delivery:
    """One message of one delivery."""

    at: int  # index of the completion; of the invocation if there is none
    begin: int
    slot: int
    key: str
    group: str
    topic: str
    broker: str
    queue: int
    offset: int
    physical: int
    tries: int
    process: int
    node: str | None
    type: str
    begin_ns: int
    time_ns: int
    alone: bool  # the only message of its op

    @property
    def place(self) -> tuple[str, str, int]:
        return self.topic, self.broker, self.queue


def messages_of(value: dict[str, Any]) -> list[list[Any]]:
    """The messages of a delivery: key, queue offset, physical offset, intact, tries and what may follow."""
    if "messages" in value:
        return [list(message) for message in value["messages"]]
    found = []
    for first, offset, physical, intact, tries, count, step in value["ranges"]:
        found += [
            [later_key(first, n), offset + n, physical + n * step, intact, tries]
            for n in range(count)
        ]
    return found


def with_messages(value: dict[str, Any], messages: Sequence[Sequence[Any]]) -> dict[str, Any]:
    """The same delivery with other messages."""
    if "messages" in value:
        return {**value, "messages": [list(message) for message in messages]}
    ranges: list[list[Any]] = []
    for key, offset, physical, intact, tries, *_ in messages:
        if ranges:
            first, start, low, same, again, count, step = ranges[-1]
            wanted = physical - low if count == 1 else count * step
            if (
                is_plain(first)
                and (later_key(first, count), start + count) == (key, offset)
                and (same, again) == (intact, tries)
                and physical - low == wanted
                and wanted > 0
            ):
                ranges[-1][5:] = [count + 1, physical - low if count == 1 else step]
                continue
        ranges.append([key, offset, physical, intact, tries, 1, 0])
    return {**value, "ranges": ranges}


def places_of(value: dict[str, Any]) -> list[list[Any]]:
    """The messages of a completed `send_many`: key, queue offset, physical offset."""
    return [
        [later_key(first, n), offset + n, physical + n * step]
        for first, offset, physical, count, step in value.get("ranges", ())
        for n in range(count)
    ]


def with_places(value: dict[str, Any], places: Sequence[Sequence[Any]]) -> dict[str, Any]:
    return {
        **value,
        "ranges": [[key, offset, physical, 1, 0] for key, offset, physical in places],
    }


def later_key(first: str, n: int) -> str:
    """The key `n` after the first one of a range."""
    if n == 0:
        return first
    head, _, number = first.rpartition("-")
    return f"{head}-{int(number) + n}" if number.isdecimal() else ""


def sends_of(ops: Sequence[Op]) -> dict[str, Sent]:
    begun: dict[str, Op] = {}
    found: dict[str, Sent] = {}
    for op in ops:
        if op.f not in SENT or "key" not in op.value:
            continue
        begin = (
            begun.setdefault(op.value["key"], op)
            if op.type == "invoke"
            else begun.get(op.value["key"], op)
        )
        for slot, (key, offset, physical) in enumerate(_sent_places(op)):
            found[key] = Sent(
                key=key,
                begin=begin.index,
                at=None if op.type == "invoke" else op.index,
                slot=slot,
                process=op.process,
                type=op.type,
                topic=op.value["topic"],
                broker=op.value.get("broker"),
                queue=op.value.get("queue", -1),
                offset=offset,
                physical=physical,
                status=op.value.get("status", ""),
                begin_ns=begin.time_ns,
                time_ns=op.time_ns,
                attempts=op.value.get("attempts", 0),
                is_plain=not op.value.keys() & {"delay_level", "transaction", "timeout_s"},
            )
    return found


def _sent_places(op: Op) -> list[list[Any]]:
    value = op.value
    if op.f == "send":
        return [[value["key"], value.get("queue_offset", -1), value.get("physical_offset", -1)]]
    known = places_of(value)
    return known or [[later_key(value["key"], n), -1, -1] for n in range(value["count"])]


def deliveries_of(ops: Sequence[Op]) -> list[Delivery]:
    begun: dict[tuple[Any, ...], list[Op]] = {}
    found: list[Delivery] = []

    def add(begin: Op, op: Op) -> None:
        value = op.value
        messages = messages_of(value)
        for slot, (key, offset, physical, _, tries, *_) in enumerate(messages):
            found.append(
                Delivery(
                    at=op.index,
                    begin=begin.index,
                    slot=slot,
                    key=key,
                    group=value["group"],
                    topic=value["topic"],
                    broker=value["broker"],
                    queue=value["queue"],
                    offset=offset,
                    physical=physical,
                    tries=tries,
                    process=op.process,
                    node=op.node,
                    type=op.type,
                    begin_ns=begin.time_ns,
                    time_ns=op.time_ns,
                    alone=len(messages) == 1,
                )
            )

    for op in ops:
        if op.f not in CONSUMED:
            continue
        call = _call(op)
        if op.type == "invoke":
            begun.setdefault(call, []).append(op)
        else:
            waiting = begun.get(call)
            add(waiting.pop(0) if waiting else op, op)
    for left in begun.values():
        for op in left:
            add(op, op)
    return sorted(found, key=lambda delivery: (delivery.at, delivery.slot))


def _call(op: Op) -> tuple[Any, ...]:
    value = op.value
    first = tuple((value.get("messages") or value.get("ranges") or [[""]])[0][:BARE])
    return op.process, value["group"], value["topic"], value["broker"], value["queue"], first
