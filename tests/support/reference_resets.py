"""Reference for resets of offsets, in plain Python: queue by queue, over the ops in their order."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import OffsetsReset
from staticfire.checkers.model.history import Op

CARRIED_OUT_NS = 11 * 10**9  # a member has gone on at its new offset
PLACE = ("group", "topic", "broker", "queue")
Found = Counter[tuple[Any, ...]]


def ignored(ops: Sequence[Op], resets: Sequence[OffsetsReset]) -> Found:
    """Queues of drained groups that one member had all the time, of which a message that must come again is missing."""
    found: Found = Counter()
    for reset in resets:
        ends = _drained(ops, reset)
        for queue, (lowest, end) in ends.items():
            until_ns = reset.answered_ns + CARRIED_OUT_NS
            owners = [_owners(ops, reset, queue, at_ns) for at_ns in (reset.asked_ns - 1, until_ns)]
            changes = list(_changes(ops, reset, queue))
            moved = any(reset.asked_ns <= at <= until_ns for at in changes)
            if moved or len(owners[0]) != 1 or owners[0] != owners[1]:
                continue
            new_offsets = [offset for number, offset in reset.offsets if number == queue]
            if reset.offsets and not new_offsets:
                continue
            given = list(_given(ops, reset, queue))
            consumed = {
                offset
                for at_ns, type_, offset, _ in given
                if type_ == "ok" and at_ns < reset.asked_ns
            }
            owed = [of for of in sorted(consumed) if max(sum(new_offsets), lowest) <= of < end]
            stops = [at for at in changes if at > until_ns]
            stops += [other.asked_ns for other in resets if other.asked_ns > reset.asked_ns]
            if stops:
                by_owner = [
                    offset
                    for at_ns, type_, offset, process in given
                    if type_ == "invoke"
                    and reset.asked_ns < at_ns < min(stops)
                    and process in owners[0]
                ]
                highest = max(by_owner, default=-1)
                owed = [*owed[:1], *(of for of in owed[1:] if of < highest)]
            again = {
                of
                for at_ns, type_, of, _ in given
                if (type_, at_ns > reset.asked_ns) == ("invoke", True)
            }
            if set(owed) - again:
                found["reset_ignored", reset.group, queue] += 1
    return found


def _drained(ops: Sequence[Op], reset: OffsetsReset) -> dict[int, tuple[int, int]]:
    """The bounds of each queue at the end; nothing if the group did not come to the ends."""
    ends: dict[int, tuple[int, int]] = {}
    for op in ops:
        if (
            op.f == "drain"
            and op.value["group"] == reset.group
            and op.value["topic"] == reset.topic
        ):
            rows = op.value["queues"] if op.type == "ok" else []
            ends = {queue: (low, end) for home, queue, low, end, _ in rows if home == reset.stream}
    return ends


def _assigned(
    ops: Sequence[Op], reset: OffsetsReset, queue: int
) -> Iterator[tuple[int, int, bool]]:
    """Time, process, and whether it has the queue from then on."""
    for op in ops:
        if (
            op.f == "assign"
            and op.value["group"] == reset.group
            and op.value["topic"] == reset.topic
        ):
            yield op.time_ns, op.process, [reset.stream, queue] in op.value["queues"]


def _owners(ops: Sequence[Op], reset: OffsetsReset, queue: int, at_ns: int) -> set[int]:
    changes = _assigned(ops, reset, queue)
    has_it = {process: has for time_ns, process, has in changes if time_ns <= at_ns}
    return {process for process, has in has_it.items() if has}


def _changes(ops: Sequence[Op], reset: OffsetsReset, queue: int) -> Iterator[int]:
    had: dict[int, bool] = {}
    for time_ns, process, has in _assigned(ops, reset, queue):
        if had.get(process, False) != has:
            yield time_ns
        had[process] = has


def _given(
    ops: Sequence[Op], reset: OffsetsReset, queue: int
) -> Iterator[tuple[int, str, int, int]]:
    """Time, type, offset and process of everything that listeners of the group were called with."""
    place = reset.group, reset.topic, reset.stream, queue
    for op in ops:
        if op.f == "consume" and place == tuple(map(op.value.get, PLACE)):
            for message in op.value["messages"]:
                yield op.time_ns, op.type, message[1], op.process
