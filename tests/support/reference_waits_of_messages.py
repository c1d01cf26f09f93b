"""Reference for messages that waited without a reason, in plain Python: half second by half second."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from staticfire.checkers.model.history import Op

TICK = 500_000_000  # all times are whole ticks
S = 2  # ticks
Found = set[tuple[str, str, int | None]]


def slow_deliveries(
    ops: Sequence[Op],
    broadcasting: Sequence[str],
    *,
    stored: bool = False,
    orderly: Sequence[str] = (),
    held_max: int = 1000,
    span_max: int = 2000,
) -> Found:
    """(group, key, process if the group broadcasts). Ops of these histories have no faults, nodes do not end.

    `stored`: deliveries tell that every message was stored when its send ended. `held_max`: a member that keeps more
    messages of failed calls fetches nothing. `span_max`: nor does it fetch what lies farther behind one of them.
    """
    calls = _calls(ops)
    sends = [op for op in ops if op.f == "send" and (stored or op.type == "ok")]
    acked = {op.value["key"]: op for op in sends}
    found: Found = set()
    done: set[Any] = set()
    for begin, _ in calls:
        value, is_shared = begin.value, begin.value["group"] not in broadcasting
        for _, offset, *_ in value["messages"]:
            reader = value["group"], None if is_shared else begin.process
            place = (*reader, value["topic"], value["queue"], offset)
            sent = [op for op in acked.values() if _place(op) == place[2:]]
            if place not in done and sent:
                of_queue = [
                    call
                    for call in calls
                    if _reader(call[0], is_shared) == reader
                    if (call[0].value["topic"], call[0].value["queue"]) == place[2:4]
                ]
                key = max(sent, key=lambda op: op.index).value["key"]
                acked_ns = max(op.time_ns for op in sent)
                put_off = 10 * S * TICK if value["group"] in orderly else 0
                held = _held_too_much(of_queue, offset, held_max, span_max)
                if _waited(ops, begin, acked_ns, of_queue, is_shared, put_off, held) > 2 * S:
                    found.add((value["group"], key, reader[1]))
            done.add(place)
    return found


def _calls(ops: Sequence[Op]) -> list[tuple[Op, Op]]:
    """Each call of a listener with its end, in the order in which they began. An op without invocation is both."""
    found: list[tuple[Op, Op]] = []
    for op in ops:
        if op.f != "consume":
            continue
        if op.type == "invoke":
            ends = [
                later
                for later in ops[op.index + 1 :]
                if later.f == "consume" and later.type != "invoke"
                if (later.process, later.value) == (op.process, op.value)
            ]
            found.append((op, ends[0] if ends else op))
    return found


def _place(sent: Op) -> tuple[str, int, int]:
    return sent.value["topic"], sent.value["queue"], sent.value["queue_offset"]


def _reader(call: Op, is_shared: bool) -> tuple[str, int | None]:
    return call.value["group"], None if is_shared else call.process


def _waited(
    ops: Sequence[Op],
    begin: Op,
    acked_ns: int,
    of_queue: Sequence[tuple[Op, Op]],
    is_shared: bool,
    put_off: int,
    held: set[int],
) -> int:
    """The longest time, in ticks, in which one owner might have been given the message."""
    busy_ns = [
        (
            call.time_ns,
            max(end.time_ns + put_off, _declined_ns(ops, end)) if end.type != "ok" else end.time_ns,
        )
        for call, end in of_queue
        if call.index < begin.index
    ]
    processes = {op.process for op in ops if op.f == "assign"}
    longest = 0
    for process in processes if is_shared else {begin.process}:
        run = 0
        for now in range(acked_ns, begin.time_ns, TICK):
            has_it = _since(ops, begin, process, now)
            given = [
                call.time_ns
                for call, _ in of_queue
                if call.process == process
                if _since(ops, begin, process, call.time_ns) == has_it
            ]
            able = has_it is not None and (
                now - has_it >= 10 * S * TICK or (bool(given) and min(given) <= now < max(given))
            )
            if any(start == now for start, _ in busy_ns):
                run = 0
            is_busy = any(start <= now < end for start, end in busy_ns) or now in held
            run = run + 1 if able and not is_busy else 0
            longest = max(longest, run)
    return longest


def _declined_ns(ops: Sequence[Op], end: Op) -> int:
    """When the member reported, within 9 s of a failed call, that a broker had made no copy of one of its messages."""
    given = [[key, tries] for key, _, _, _, tries, *_ in end.value["messages"]]
    return max(
        (
            op.time_ns
            for op in ops[end.index :]
            if op.f == "send_back" and op.process == end.process and op.value["copied"]
            if any([key, tries] in given for key, _, tries in op.value["messages"])
            if op.time_ns - end.time_ns <= 9 * S * TICK
        ),
        default=0,
    )


def _held_too_much(
    of_queue: Sequence[tuple[Op, Op]], wanted: int, held_max: int, span_max: int
) -> set[int]:
    """The ticks at which a member kept too many messages of failed calls, or one too far before the wanted offset.

    It keeps each of them for 5 s at most.
    """
    kept: dict[tuple[int, int], int] = {}
    too_far: set[int] = set()
    for call, end in of_queue:
        if end.type != "info" or end is call:
            continue
        for _, offset, *_ in call.value["messages"]:
            again = [
                later.time_ns
                for later, _ in of_queue
                if later.process == call.process and later.index > call.index
                if offset in [other[1] for other in later.value["messages"]]
            ]
            until = min(again, default=end.time_ns + 5 * S * TICK)
            for now in range(end.time_ns, until, TICK):
                kept[call.process, now] = kept.get((call.process, now), 0) + 1
                if wanted - 1 - offset > span_max:
                    too_far.add(now)
    return too_far | {now for (_, now), count in kept.items() if count > held_max}


def _since(ops: Sequence[Op], begin: Op, process: int, now: int) -> int | None:
    """Since when a process has had the queue of a call at some time."""
    value, since = begin.value, None
    for op in ops:
        if op.f != "assign" or op.process != process or op.time_ns > now:
            continue
        if (op.value["group"], op.value["topic"]) == (value["group"], value["topic"]):
            has = [value["broker"], value["queue"]] in op.value["queues"]
            since = (op.time_ns if since is None else since) if has else None
    return since
