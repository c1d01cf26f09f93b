"""Reference for answers to resets of offsets to a time, in plain Python: message by message."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import OffsetsReset
from staticfire.checkers.model.history import Op

Found = Counter[tuple[Any, ...]]
Rank = tuple[int, int, int]


def wrong_answers(ops: Sequence[Op], resets: Sequence[OffsetsReset], mode: str) -> Found:
    """Answers that a search for the time cannot lead to, because another message comes first in it."""
    found: Found = Counter()
    for reset in resets:
        for queue, answer in reset.answers:
            assert reset.time_ms is not None
            stored = _there(ops, reset, queue)
            ranks = {at: _rank(at, ms, reset.time_ms, mode) for at, ms in stored.items()}
            is_low = answer < dict(reset.committed).get(queue, 0)
            better = (
                _is_better(offset, answer, stored, ranks, reset.time_ms, mode)
                for offset in stored
                if offset < answer or is_low
            )
            found["wrong_time_search", reset.stream, queue] += any(better)
    return +found


def _rank(offset: int, stored_ms: int, time_ms: int, mode: str) -> Rank:
    """The search leads to the message with the lowest rank: the nearest, the earlier one, the one next to the time."""
    if stored_ms < time_ms:
        return time_ms - stored_ms, 0, -offset
    is_any = mode == "faithful" and stored_ms == time_ms
    return stored_ms - time_ms, 1, 0 if is_any else offset


def _is_better(
    offset: int,
    answer: int,
    stored: Mapping[int, int],
    ranks: Mapping[int, Rank],
    time_ms: int,
    mode: str,
) -> bool:
    if answer in ranks:
        return ranks[offset] < ranks[answer]
    if offset > answer:
        return stored[offset] < time_ms
    return stored[offset] > time_ms or (stored[offset] == time_ms and mode == "hardened")


def _there(ops: Sequence[Op], reset: OffsetsReset, queue: int) -> dict[int, int]:
    """The store times of messages that were in a queue when the leader answered."""
    times: dict[int, set[int]] = {}
    given_ns: dict[int, int] = {}
    lowest = 0
    for op in ops:
        if op.f == "drain" and op.value["group"] == reset.group:
            lows = {row[1]: row[2] for row in op.value["queues"] if row[0] == reset.stream}
            lowest = lows.get(queue, 0)
        place = reset.topic, reset.stream, queue
        if op.f != "consume" or op.type != "invoke":
            continue
        if place == (op.value["topic"], op.value["broker"], op.value["queue"]):
            for _, offset, *_, contents in op.value["messages"]:
                if contents[4] is not None:
                    times.setdefault(offset, set()).add(contents[4])
                    given_ns.setdefault(offset, op.time_ns)
    return {
        offset: min(found)
        for offset, found in times.items()
        if len(found) == 1 and offset >= lowest
        if given_ns[offset] < reset.asked_ns or min(found) < (reset.time_ms or 0)
    }
