"""Reference for forwarding, in plain Python over ops: searches all of them for each message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from staticfire.checkers.model.history import Op

Found = Counter[tuple[Any, ...]]
Queue = tuple[str, str, int]


class Call(NamedTuple):
    """One call of a listener. `end` is None when its end is unknown."""

    process: int
    queue: Queue
    offsets: list[int]
    begin: int
    end: int | None


def forwarded(ops: Sequence[Op], facts: Mapping[str, Any]) -> Found:
    """Anomaly, queue and offset of each; of the run as a whole with nothing more."""
    calls, reported = list(_calls(ops)), [op for op in ops if op.f == "forward" and op.type == "ok"]
    forwarders = {op.process for op in ops if op.f == "open" and op.node in facts["forwarders"]}
    forwarders |= {op.process for op in reported}
    found: Found = Counter()
    for call in calls:
        if call.process not in forwarders or call.end is None:
            continue
        for offset in call.offsets:
            copies = [
                op.index for op in reported if _queue(op) == call.queue and offset in _offsets(op)
            ]
            if not any(index < call.end for index in copies):
                found["not_forwarded", call.queue, offset] += 1
    touched = {call.queue for call in calls} | {_queue(op) for op in ops if _is_placed(op)}
    for op in reported:
        for offset in _offsets(op) if _queue(op) in touched else ():
            given = [of for of in calls if offset in of.offsets and of.begin < op.index]
            if (op.process, _queue(op)) not in [(of.process, of.queue) for of in given]:
                found["phantom_copy", _queue(op), offset] += 1
    if any(_queue(op) not in touched for op in reported):
        found["phantom_copy",] += 1
    acked = {op.value["key"] for op in ops if op.f == "send" and op.type == "ok"}
    keys = [key for op in reported for key in _copies(op)]
    if len(acked.intersection(keys)) != len(keys):
        found["not_forwarded",] += 1
    return found


def _calls(ops: Sequence[Op]) -> Iterator[Call]:
    begun: dict[tuple[Any, ...], Op] = {}
    for op in ops:
        if op.f != "consume":
            continue
        offsets = [message[1] for message in op.value["messages"]]
        name = (op.process, op.value["group"], _queue(op), offsets[0])
        before = begun.pop(name, None)
        if op.type == "invoke":
            begun[name] = op
            if before is not None:
                yield _never_ended(before)
        else:
            begin = op.index if before is None else before.index
            end = op.index if op.type == "ok" else None
            yield Call(op.process, _queue(op), offsets, begin, end)
    yield from map(_never_ended, begun.values())


def _never_ended(op: Op) -> Call:
    offsets = [message[1] for message in op.value["messages"]]
    return Call(op.process, _queue(op), offsets, op.index, None)


def _queue(op: Op) -> Queue:
    return op.value["topic"], op.value["broker"], op.value["queue"]


def _is_placed(op: Op) -> bool:
    return op.f == "send" and op.type in ("ok", "info") and "broker" in op.value


def _offsets(op: Op) -> list[int]:
    return [first + at for first, count in op.value["originals"] for at in range(count)]


def _copies(op: Op) -> list[str]:
    prefix, _, number = op.value["key"].rpartition("-")
    return [f"{prefix}-{int(number) + at}" for at in range(len(_offsets(op)))]
