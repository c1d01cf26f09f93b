"""Places in the commit log and the order of requests, in plain Python over ops and without any fault that excuses."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Queue, Send, deliveries_of, sends_of

Machine = tuple[Queue, int]


class Seen(NamedTuple):
    keys: set[str | None]
    physical: set[int]


def places_of(ops: Sequence[Op]) -> dict[Machine, Seen]:
    """Which messages were seen at which place of a queue, and at which physical offsets."""
    machines: dict[Machine, Seen] = {}
    for send in sends_of(ops):
        if send.queue is not None and send.offset >= 0:
            seen = machines.setdefault((send.queue, send.offset), Seen(set(), set()))
            seen.keys.add(send.key)
            seen.physical.add(ops[send.ended].value.get("physical_offset", -1))
    for given in deliveries_of(ops):
        seen = machines.setdefault((given.queue, given.offset), Seen(set(), set()))
        seen.keys.add(given.key)
        seen.physical.add(given.physical)
    undisputed = {place: seen for place, seen in machines.items() if len(seen.keys) == 1}
    for seen in undisputed.values():
        seen.physical.discard(-1)
    return {place: seen for place, seen in undisputed.items() if seen.keys != {None}}


def storage(ops: Sequence[Op]) -> set[tuple[str, Queue, int]]:
    """(anomaly, queue, offset); of two neighbours the later one."""
    machines = places_of(ops)
    found = {
        ("inconsistent_physical_offset", *place)
        for place, seen in machines.items()
        if len(seen.physical) > 1
    }
    stored = sorted(place for place, seen in machines.items() if len(seen.physical) == 1)
    for lower, upper in pairwise(stored):
        if lower[0] == upper[0] and machines[upper].physical <= _up_to(machines[lower].physical):
            found.add(("nonmonotonic_physical_offset", *upper))
    sent = sorted(
        (
            send
            for send in sends_of(ops)
            if send.outcome in ("ok", "weak") and _place(send) in machines
        ),
        key=lambda send: (send.queue or (), send.offset),
    )
    for before, after in pairwise(sent):
        if before.queue == after.queue and _swapped(ops, before, after):
            assert after.queue is not None
            found.add(("int_nonmonotonic_send", after.queue, after.offset))
    return found


def torn_batches(ops: Sequence[Op]) -> set[tuple[str, Queue, int]]:
    """(key, queue, offset) of each acknowledged message that is not where its request has it; of unknown requests a set
    of (first key, queue, -1) where what was delivered cannot be of several attempts to store them."""
    requests: dict[tuple[int, int, Queue | None], list[list[Send]]] = {}
    for send in sorted(sends_of(ops), key=lambda send: send.began):
        begun_ns = ops[send.began].time_ns
        of_time = requests.setdefault((send.process, begun_ns, send.queue), [[]])
        if of_time[-1] and of_time[-1][-1].ended < send.began:
            of_time.append([])  # one after the other, by a clock that did not move meanwhile
        of_time[-1].append(send)
    found = set()
    for queue, request in (
        (queue, request) for (_, _, queue), of_time in requests.items() for request in of_time
    ):
        acked = [send for send in request if send.outcome in ("ok", "weak") and send.offset >= 0]
        for one, other in pairwise(acked):
            up = other.offset - one.offset
            if queue and 0 < up != other.began - one.began:
                found.add((other.key, queue, other.offset))
        unknown = [send for send in request if send.outcome == "unknown"]
        if len(unknown) > 1:
            found |= {(unknown[0].key, where, -1) for where in _impossible(ops, unknown)}
    return found


def _impossible(ops: Sequence[Op], request: Sequence[Send]) -> set[Queue]:
    """Queues with two deliveries of a request that begin differently, the later one not above the earlier one."""
    number = {send.key: send.began - request[0].began for send in request}
    given = [
        (one.queue, one.offset, one.offset - number[one.key])
        for one in deliveries_of(ops)
        if one.key in number and one.queue[0] == request[0].topic
    ]
    return {
        queue
        for queue, offset, begin in given
        for other, _, later in given
        if queue == other and begin < later and (later <= offset or request[0].attempts == 1)
    }


def _up_to(physical: set[int]) -> set[int]:
    return set(range(max(physical) + 1))


def _place(send: Send) -> Machine | None:
    return None if send.queue is None else (send.queue, send.offset)


def _swapped(ops: Sequence[Op], before: Send, after: Send) -> bool:
    """Whether one request held them the other way round."""
    same_process = before.process == after.process
    began = ops[before.began].time_ns == ops[after.began].time_ns
    ended = ops[before.ended].time_ns == ops[after.ended].time_ns
    together = same_process and began and ended and before.began < after.ended
    return together and after.began < before.began


def store_times(ops: Sequence[Op], stepped_ns: int) -> set[tuple[Queue, int]]:
    """(queue, offset) of what was stored before its lower neighbour; `stepped_ns`: when a broker's clock went wrong."""
    times: dict[Machine, set[int]] = {}
    for given in deliveries_of(ops):
        called = ops[given.began]
        contents = next(
            (row[5] for row in called.value["messages"] if row[1] == given.offset and len(row) > 5),
            [None] * 7,
        )
        if contents[4] is not None and called.time_ns < stepped_ns:
            times.setdefault((given.queue, given.offset), set()).add(contents[4])
    known = sorted((place, min(found)) for place, found in times.items() if len(found) == 1)
    return {
        upper
        for (lower, lower_ms), (upper, upper_ms) in pairwise(known)
        if lower[0] == upper[0] and upper_ms < lower_ms
    }
