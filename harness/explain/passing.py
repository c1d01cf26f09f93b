"""The way of consumer groups past a message: the owners of its queue, and their reads and commits there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from staticfire.checkers.guarantees.verdict import Finding
from staticfire.checkers.model.history import Op
from staticfire.checkers.model.message_ranges import messages_of, of_delivery
from staticfire.harness.explain.event import Event

if TYPE_CHECKING:
    from staticfire.checkers.op_kinds.values import AssignReport


def ownership(
    ops: Iterable[Op[AssignReport]], group: str | None, topic: str | None, queue: Sequence[object]
) -> Iterator[Event]:
    """Yield when members of a group get a queue, `[broker, queue]`, and give it up."""
    owners: set[int] = set()  # processes
    for op in ops:
        if op.f != "assign" or (op.value.get("group"), op.value.get("topic")) != (group, topic):
            continue
        has = list(queue) in op.value["queues"]
        if has != (op.process in owners):
            text = f"{group} {'has' if has else 'gives up'} the queue"
            yield Event(time_ns=op.time_ns, where=op.node or "", text=text)
        owners = owners | {op.process} if has else owners - {op.process}


def owners_between(
    witness: Finding, ops: Iterable[Op], group: str, since_ns: int, until_ns: int
) -> Iterator[Event]:
    """Return the owners of a finding's queue in a group at a time, and the changes until another time."""
    owned = list(ownership(ops, group, witness.topic, [witness.broker, witness.queue]))
    yield from [event for event in owned if event.time_ns < since_ns][-1:]
    yield from [event for event in owned if since_ns <= event.time_ns <= until_ns]


def passing(witness: Finding, ops: Sequence[Op], since_ns: int) -> Iterator[Event]:
    """Return how each group without the message passed it: its last delivery before, and its first steps past it.

    Args:
        since_ns: creation time of the message; earlier assignments are the state at that time.
    """
    if witness.queue_offset is None:
        return
    groups = {op.value["group"] for op in ops if op.f == "commit"}
    for group in sorted(groups if witness.group is None else groups & {witness.group}):
        past = list(_past(witness, ops, group))
        if not past:
            continue
        yield from past
        yield from _before(witness, ops, group)
        last_ns = max(event.time_ns for event in past)
        yield from owners_between(witness, ops, group, since_ns, last_ns)


def _past(witness: Finding, ops: Iterable[Op], group: str) -> Iterator[Event]:
    """Yield the first commit, the first start of a reader and the first delivery past the message."""
    seen: set[str] = set()
    for op in ops:
        if op.f in seen or op.value.get("group") != group:
            continue
        text = _past_text(witness, op, group)
        if text:
            seen.add(op.f)
            yield Event(time_ns=op.time_ns, where=op.node or "", text=text)


def _past_text(witness: Finding, op: Op, group: str) -> str:
    offset, value = witness.queue_offset or 0, op.value
    if op.f == "commit" and op.type == "ok" and value.get("topic") == witness.topic:
        for broker, queue, committed in value["offsets"]:
            if (broker, queue) == (witness.broker, witness.queue) and committed > offset:
                return f"{group} commits offset {committed} of the queue: past it"
    if op.f == "begin" and _is_queue(witness, op) and value["offset"] > offset:
        return f"{group} begins to read the queue at offset {value['offset']}: past it"
    for key, given in _given(witness, op):
        if given > offset:
            return f"{group} gets {key} at offset {given} of the queue, past it"
    return ""


def _before(witness: Finding, ops: Iterable[Op], group: str) -> Iterator[Event]:
    """Return the delivery of the nearest message before it."""
    nearest: tuple[int, Event] | None = None
    for op in ops:
        if op.value.get("group") != group:
            continue
        for key, given in _given(witness, op):
            if given < (witness.queue_offset or 0) and (nearest is None or given > nearest[0]):
                text = f"{group} gets {key} at offset {given} of the queue, before it"
                nearest = given, Event(time_ns=op.time_ns, where=op.node or "", text=text)
    if nearest is not None:
        yield nearest[1]


def _given(witness: Finding, op: Op) -> Iterator[tuple[str | None, int]]:
    """Yield keys and offsets of the messages that an op delivers from the message's queue."""
    if op.type != "invoke":
        return
    if op.f == "consume" and _is_queue(witness, op):
        yield from ((key, offset) for key, offset, *_ in op.value["messages"])
    elif op.f == "consume_many" and _is_queue(witness, op):
        for row in op.value["stretches"]:
            yield from ((key, offset) for key, offset, *_ in messages_of(of_delivery(row)))


def _is_queue(witness: Finding, op: Op) -> bool:
    value = op.value
    wanted = witness.topic, witness.broker, witness.queue
    return (value.get("topic"), value.get("broker"), value.get("queue")) == wanted
