"""The same anomalies in plain Python: slow, obvious, over ops, and without any fault that excuses.

Each function returns the set of findings of a run without faults, so that a test can hold a kernel
against it. Nothing here shares code with the kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.checkers.model.history import Op

Queue = tuple[str, str, int]
Groups = Mapping[str, tuple[str, ...]]
WEAK = ("FLUSH_DISK_TIMEOUT", "FLUSH_SLAVE_TIMEOUT", "SLAVE_NOT_AVAILABLE")


@dataclass(frozen=True, kw_only=True)
class Send:
    key: str
    topic: str
    outcome: str  # "ok", "weak", "unknown", "failed"
    queue: Queue | None
    offset: int
    attempts: int
    process: int
    began: int
    ended: int


@dataclass(frozen=True, kw_only=True)
class Delivery:
    key: str | None
    group: str
    queue: Queue
    offset: int
    physical: int
    body_ok: bool
    tries: int
    consumed: bool
    process: int
    began: int
    ended: int


def sends_of(ops: Sequence[Op]) -> list[Send]:
    began: dict[str, int] = {}
    ended: dict[str, Op] = {}
    for op in ops:
        if op.f == "send":
            began.setdefault(op.value["key"], op.index)
            if op.type != "invoke":
                ended[op.value["key"]] = op
    return [_send(ops, key, index, ended.get(key)) for key, index in began.items()]


def _send(ops: Sequence[Op], key: str, began: int, end: Op | None) -> Send:
    op = end or ops[began]
    value = op.value
    placed = value.get("broker") is not None
    return Send(
        key=key,
        topic=value["topic"],
        outcome=_outcome(op),
        queue=(value["topic"], value["broker"], value["queue"]) if placed else None,
        offset=value.get("queue_offset", -1),
        attempts=value.get("attempts", 0),
        process=op.process,
        began=began,
        ended=op.index,
    )


def _outcome(op: Op) -> str:
    if op.type == "fail":
        return "failed"
    if op.type == "ok":
        return "ok" if op.value.get("status", "SEND_OK") == "SEND_OK" else "weak"
    return "weak" if op.error in WEAK else "unknown"


def deliveries_of(ops: Sequence[Op]) -> list[Delivery]:
    """Deliveries in the order in which listeners were called."""
    found = []
    for begin, end in _consumes(ops):
        value = end.value
        for key, offset, physical, body_ok, tries, *_ in value["messages"]:
            found.append(
                Delivery(
                    key=key,
                    group=value["group"],
                    queue=(value["topic"], value["broker"], value["queue"]),
                    offset=offset,
                    physical=physical,
                    body_ok=body_ok,
                    tries=tries,
                    consumed=end.type == "ok",
                    process=end.process,
                    began=begin.index,
                    ended=end.index,
                )
            )
    return sorted(found, key=lambda delivery: delivery.began)


def _consumes(ops: Sequence[Op]) -> Iterator[tuple[Op, Op]]:
    """Pairs of invocation and completion; a lone op stands for both.

    Of calls with the same messages that are open at a time the last one ends first.
    """
    waiting: list[tuple[Any, Op]] = []
    for op in (op for op in ops if op.f == "consume"):
        value = op.value
        names = ("group", "topic", "broker", "queue")
        first, last = value["messages"][0][1], value["messages"][-1][1]
        identity = (op.process, *(value[name] for name in names), first, last)
        if op.type == "invoke":
            waiting.append((identity, op))
            continue
        begun = next((one for one in reversed(waiting) if one[0] == identity), None)
        if begun is not None:
            waiting.remove(begun)
        if op.type != "fail":
            yield (op if begun is None else begun[1]), op
    for _, op in waiting:
        yield op, op


def provenance(ops: Sequence[Op]) -> set[tuple[str, str]]:
    """(phantom | aborted_read | misrouted, key)."""
    sends = {send.key: send for send in sends_of(ops)}
    found = set()
    for delivery in deliveries_of(ops):
        if delivery.body_ok and delivery.key is not None:
            anomaly = _provenance_of(sends.get(delivery.key), delivery)
            if anomaly:
                found.add((anomaly, delivery.key))
    return found


def _provenance_of(send: Send | None, delivery: Delivery) -> str | None:
    if send is None:
        return "phantom"
    if send.outcome == "failed":
        return "aborted_read"
    is_there = send.queue == delivery.queue and send.offset in (-1, delivery.offset)
    elsewhere = send.queue is not None and not is_there and send.attempts == 1
    return "misrouted" if elsewhere or send.topic != delivery.queue[0] else None


def delivered_before_send(ops: Sequence[Op]) -> set[str]:
    """Keys of messages of which an intact copy was delivered before their send began."""
    began = {send.key: send.began for send in sends_of(ops)}
    return {
        given.key
        for given in deliveries_of(ops)
        if given.key is not None and given.body_ok and given.began < began.get(given.key, -1)
    }


def corrupt(ops: Sequence[Op]) -> int:
    """How many deliveries had a wrong body."""
    return sum(not delivery.body_ok or delivery.key is None for delivery in deliveries_of(ops))


def inconsistent_offsets(ops: Sequence[Op]) -> set[tuple[Queue, int]]:
    """Places that held two messages."""
    held: dict[tuple[Queue, int], set[str]] = {}
    for send in sends_of(ops):
        if send.queue is not None and send.offset >= 0:
            held.setdefault((send.queue, send.offset), set()).add(send.key)
    for delivery in deliveries_of(ops):
        if delivery.key is not None:
            held.setdefault((delivery.queue, delivery.offset), set()).add(delivery.key)
    return {place for place, keys in held.items() if len(keys) > 1}


def misordered_sends(ops: Sequence[Op]) -> set[str]:
    """Keys of sends with an offset no higher than that of a send acknowledged before they began."""
    acked = [send for send in sends_of(ops) if send.outcome == "ok"]
    return {
        later.key
        for later in acked
        for earlier in acked
        if earlier.queue == later.queue and earlier.ended < later.began
        if earlier.offset >= later.offset
    }


def out_of_order(ops: Sequence[Op]) -> set[tuple[str, Queue, int]]:
    """(group, queue, offset) of first deliveries below one that the same owner was given before."""
    first: dict[tuple[str, Queue, int], Delivery] = {}
    for delivery in deliveries_of(ops):
        first.setdefault((delivery.group, delivery.queue, delivery.offset), delivery)
    return {
        place
        for place, later in first.items()
        for earlier in first.values()
        if (earlier.group, earlier.queue, earlier.process)
        == (later.group, later.queue, later.process)
        if earlier.began < later.began
        or (earlier.began == later.began and _is_before(first, earlier, later))
        if earlier.offset > later.offset
        if not _gained_between(ops, earlier, later)
    }


def _is_before(first: dict[Any, Delivery], earlier: Delivery, later: Delivery) -> bool:
    """Within one call of the listener: the order of the list."""
    order = list(first.values())
    return order.index(earlier) < order.index(later)


def duplicates(ops: Sequence[Op]) -> dict[tuple[str, str], bool]:
    """(key, group) of what a group got more than once -> whether that is explained."""
    sends = {send.key: send for send in sends_of(ops)}
    got: dict[tuple[str, str], list[Delivery]] = {}
    for delivery in deliveries_of(ops):
        if delivery.key is not None:
            got.setdefault((delivery.key, delivery.group), []).append(delivery)
    return {
        place: _copies_explained(sends.get(place[0]), many) and _repeats_explained(ops, many)
        for place, many in got.items()
        if len(many) > 1
    }


def _copies_explained(send: Send | None, many: list[Delivery]) -> bool:
    copies = len({(delivery.queue, delivery.offset) for delivery in many})
    if copies == 1 or send is None:
        return True
    return send.attempts >= copies or send.outcome == "weak" or send.attempts == 0


def _repeats_explained(ops: Sequence[Op], many: list[Delivery]) -> bool:
    for number, later in enumerate(many):
        same = [d for d in many[:number] if (d.queue, d.offset) == (later.queue, later.offset)]
        if same and not _repeat_explained(ops, same[-1], later):
            return False
    return True


def _repeat_explained(ops: Sequence[Op], earlier: Delivery, later: Delivery) -> bool:
    return (
        not earlier.consumed or later.tries > earlier.tries or _changed_hands(ops, earlier, later)
    )


def _changed_hands(ops: Sequence[Op], earlier: Delivery, later: Delivery) -> bool:
    """Whether the queue came to the later process in between, or both had it. No history here lasts for a second."""
    gains = _gains(ops, later)
    if gains is None:
        return earlier.process != later.process
    mine = [at for process, at in gains if process == later.process and at < later.began]
    theirs = [at for process, at in gains if process == earlier.process and at < earlier.began]
    if not mine:
        return False
    return mine[-1] > earlier.began or (earlier.process != later.process and bool(theirs))


def _gains(ops: Sequence[Op], given: Delivery) -> list[tuple[int, int]] | None:
    """The processes that gained the queue of a delivery, each with its op; None if no process ever had it."""
    owned: dict[int, bool] = {}
    gains = []
    topic, broker, number = given.queue
    for op in ops:
        if op.f != "assign" or op.type != "ok":
            continue
        if (op.value["group"], op.value["topic"]) != (given.group, topic):
            continue
        owns = [broker, number] in op.value["queues"]
        if owns and not owned.get(op.process, False):
            gains.append((op.process, op.index))
        owned[op.process] = owns
    return gains or None


def commits_ahead(ops: Sequence[Op]) -> set[tuple[str, Queue, int]]:
    """(group, queue, op index) of commits beyond what the group had consumed."""
    consumed = [delivery for delivery in deliveries_of(ops) if delivery.consumed]
    start: dict[tuple[str, Queue], int] = {}
    found = set()
    for op in ops:
        if op.f != "commit" or op.type != "ok":
            continue
        for broker, number, offset in op.value["offsets"]:
            group, queue = op.value["group"], (op.value["topic"], broker, number)
            read = [
                delivery.offset + 1
                for delivery in consumed
                if (delivery.group, delivery.queue) == (group, queue) and delivery.ended < op.index
            ]
            begin = start.setdefault((group, queue), 0 if read else offset)
            if offset > max([*read, begin]):
                found.add((group, queue, op.index))
    return found


def poll_anomalies(
    ops: Sequence[Op], groups: Groups, broadcasting: Sequence[str] = ()
) -> Counter[tuple[Any, ...]]:
    """(anomaly, whether it is allowed, group, queue, offset, op index of the call) -> how often."""
    found: Counter[tuple[Any, ...]] = Counter()
    deliveries = deliveries_of(ops)
    for number, later in enumerate(deliveries):
        stream = [
            earlier
            for earlier in deliveries[:number]
            if (earlier.group, earlier.queue) == (later.group, later.queue)
            if later.group not in broadcasting or earlier.process == later.process
        ]
        poll = _poll_anomaly(ops, groups, broadcasting, stream, later)
        if poll is not None:
            found[*poll, later.group, later.queue, later.offset, later.began] += 1
    return found


def _poll_anomaly(
    ops: Sequence[Op],
    groups: Groups,
    broadcasting: Sequence[str],
    stream: list[Delivery],
    later: Delivery,
) -> tuple[str, bool] | None:
    """What is wrong with a delivery after those that its group had of its queue, and whether it is allowed."""
    own = [earlier for earlier in stream if earlier.process == later.process]
    committed = None if later.group in broadcasting else _committed_before(ops, later)
    if not own or _gained_between(ops, own[-1], later):
        skips = committed is not None and _skips(ops, groups, stream, later, committed)
        return ("poll_skip", False) if skips else None
    inside = "int_" if own[-1].began == later.began else ""
    if later.offset > own[-1].offset:
        skips = _skips(ops, groups, stream, later, own[-1].offset + 1)
        skips = skips or _leaves_a_hole(ops, groups, broadcasting, later, own[-1].offset + 1)
        return (f"{inside}poll_skip", False) if skips else None
    same = [earlier for earlier in stream if earlier.offset == later.offset]
    if inside:
        return "int_nonmonotonic_poll", False
    if same and (not same[-1].consumed or later.tries > same[-1].tries):
        return None
    return "nonmonotonic_poll", bool(same) and (committed is None or committed <= later.offset)


def _gained_between(ops: Sequence[Op], earlier: Delivery, later: Delivery) -> bool:
    """Whether the process said that it has the queue now, and had said before that it has not, or nothing."""
    topic, *place = later.queue
    had = False
    for op in ops[: later.began + 1]:
        if (op.f, op.type, op.process) == ("assign", "ok", later.process) and (
            op.value["group"],
            op.value["topic"],
        ) == (later.group, topic):
            has = place in list(map(list, op.value["queues"]))
            if has and not had and op.index > earlier.began:
                return True
            had = has
    return False


def _committed_before(ops: Sequence[Op], later: Delivery) -> int | None:
    committed = None
    for op in ops[: later.began]:
        if op.f == "commit" and op.type == "ok" and op.value["group"] == later.group:
            for broker, number, offset in op.value["offsets"]:
                if (op.value["topic"], broker, number) == later.queue:
                    committed = offset
    return committed


def _skips(
    ops: Sequence[Op], groups: Groups, stream: list[Delivery], later: Delivery, start: int
) -> bool:
    """Whether a message from `start` on, below a delivery, was not given to its reader before.

    Messages are there that were acknowledged, and that any group was given at some time.
    """
    if later.queue[0] not in groups.get(later.group, ()):
        return False
    given = {earlier.offset for earlier in stream}
    stored = {(send.queue, send.offset) for send in sends_of(ops) if send.outcome == "ok"}
    stored |= {(any_group.queue, any_group.offset) for any_group in deliveries_of(ops)}
    return any(
        queue == later.queue
        and max(start, _deleted_below(ops, later)) <= offset < later.offset
        and offset not in given
        for queue, offset in stored
    )


def _leaves_a_hole(
    ops: Sequence[Op], groups: Groups, broadcasting: Sequence[str], later: Delivery, start: int
) -> bool:
    """Whether a place from `start` on, below a delivery, is never given to its reader. Of a drained queue."""
    topic, *place = later.queue
    if topic not in groups.get(later.group, ()):
        return False
    drains = _drains(ops, later)
    if not drains or not any(
        [broker, queue] == place for broker, queue, *_ in drains[-1].value["queues"]
    ):
        return False
    given = {
        delivery.offset
        for delivery in deliveries_of(ops)
        if (delivery.group, delivery.queue) == (later.group, later.queue)
        if later.group not in broadcasting or delivery.process == later.process
    }
    first = max(start, _deleted_below(ops, later))
    return any(offset not in given for offset in range(first, later.offset))


def _drains(ops: Sequence[Op], later: Delivery) -> list[Op]:
    topic, *_ = later.queue
    return [
        op
        for op in ops
        if op.f == "drain" and op.type in ("ok", "info")
        if (op.value["group"], op.value["topic"]) == (later.group, topic)
    ]


def _deleted_below(ops: Sequence[Op], later: Delivery) -> int:
    _, *place = later.queue
    drains = _drains(ops, later)
    for broker, number, low, _end, _committed in drains[-1].value["queues"] if drains else ():
        if [broker, number] == place:
            return int(low)
    return 0
