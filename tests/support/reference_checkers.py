"""The same anomalies in plain Python: slow, obvious, over ops, and without any fault that excuses.

Each function returns the set of findings of a run without faults, so that a test can hold a kernel
against it. Nothing here shares code with the kernels.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from checkers.history import Op

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
        for key, offset, physical, body_ok, tries in value["messages"]:
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
    """Pairs of invocation and completion; a lone op stands for both."""
    waiting: dict[Any, Op] = {}
    for op in (op for op in ops if op.f == "consume"):
        value = op.value
        names = ("group", "topic", "broker", "queue")
        first, last = value["messages"][0][1], value["messages"][-1][1]
        identity = (op.process, *(value[name] for name in names), first, last)
        begun = waiting.pop(identity, None)
        if op.type == "invoke":
            if begun is not None:
                yield begun, begun
            waiting[identity] = op
        elif op.type != "fail":
            yield begun or op, op
    for op in waiting.values():
        yield op, op


def loss(ops: Sequence[Op], groups: dict[str, tuple[str, ...]]) -> set[tuple[str, str, str | None]]:
    """(lost | unseen, key, group or None)."""
    deliveries = deliveries_of(ops)
    found: set[tuple[str, str, str | None]] = set()
    for send in sends_of(ops):
        if send.outcome != "ok":
            continue
        passed = {
            g for g, topics in groups.items() if send.topic in topics and _passed(ops, g, send)
        }
        of_message = [delivery for delivery in deliveries if delivery.key == send.key]
        if not of_message and passed:
            found.add(("lost", send.key, None))
        elif of_message:
            consumed = {delivery.group for delivery in of_message if delivery.consumed}
            found.update(("unseen", send.key, group) for group in passed - consumed)
    return found


def _passed(ops: Sequence[Op], group: str, send: Send) -> bool:
    drains = [
        op
        for op in ops
        if op.f == "drain" and op.type in ("ok", "info")
        if (op.value["group"], op.value["topic"]) == (group, send.topic)
    ]
    if not drains or drains[-1].index < send.ended:
        return False
    assert send.queue is not None
    for broker, number, low, end, committed in drains[-1].value["queues"]:
        if (broker, number) == send.queue[1:]:
            return bool(send.offset >= low and (send.offset < committed or send.offset >= end))
    return drains[-1].type == "ok"


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
    elsewhere = send.queue is not None and send.queue != delivery.queue and send.attempts == 1
    return "misrouted" if elsewhere or send.topic != delivery.queue[0] else None


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
    assigns = [(op.process, op.index) for op in ops if op.f == "assign" and op.type == "ok"]
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
        if not any(
            process == later.process and earlier.began < at <= later.began
            for process, at in assigns
        )
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
    ambiguous = send.attempts == 0 and send.outcome in ("unknown", "failed")
    return send.attempts >= copies or send.outcome == "weak" or ambiguous


def _repeats_explained(ops: Sequence[Op], many: list[Delivery]) -> bool:
    for number, later in enumerate(many):
        same = [d for d in many[:number] if (d.queue, d.offset) == (later.queue, later.offset)]
        if same and not _repeat_explained(ops, same[-1], later):
            return False
    return True


def _repeat_explained(ops: Sequence[Op], earlier: Delivery, later: Delivery) -> bool:
    return (
        not earlier.consumed
        or later.tries > earlier.tries
        or earlier.process != later.process
        or _assigned_anew(ops, earlier, later)
    )


def _assigned_anew(ops: Sequence[Op], earlier: Delivery, later: Delivery) -> bool:
    """Whether somebody gained or lost the queue in between."""
    owned: dict[int, bool] = {}
    topic, broker, number = later.queue
    for op in ops:
        if op.f != "assign" or op.type != "ok":
            continue
        if (op.value["group"], op.value["topic"]) != (later.group, topic):
            continue
        owns = [broker, number] in op.value["queues"]
        changed = owns != owned.get(op.process, False)
        owned[op.process] = owns
        if changed and earlier.began < op.index <= later.began:
            return True
    return False


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


def poll_anomalies(ops: Sequence[Op], groups: Groups) -> Counter[tuple[Any, ...]]:
    """(anomaly, whether it is allowed, group, queue, offset, op index of the call) -> how often."""
    found: Counter[tuple[Any, ...]] = Counter()
    deliveries = deliveries_of(ops)
    for number, later in enumerate(deliveries):
        stream = [
            earlier
            for earlier in deliveries[:number]
            if (earlier.group, earlier.queue) == (later.group, later.queue)
        ]
        poll = _poll_anomaly(ops, groups, stream, later)
        if poll is not None:
            found[*poll, later.group, later.queue, later.offset, later.began] += 1
    return found


def _poll_anomaly(
    ops: Sequence[Op], groups: Groups, stream: list[Delivery], later: Delivery
) -> tuple[str, bool] | None:
    """What is wrong with a delivery after those that its group had of its queue, and whether it is allowed."""
    own = [earlier for earlier in stream if earlier.process == later.process]
    committed = _committed_before(ops, later)
    if not own or _assigned_between(ops, own[-1], later):
        skips = committed is not None and _skips(ops, groups, stream, later, committed)
        return ("poll_skip", False) if skips else None
    inside = "int_" if own[-1].began == later.began else ""
    if later.offset > own[-1].offset:
        skips = _skips(ops, groups, stream, later, own[-1].offset + 1)
        return (f"{inside}poll_skip", False) if skips else None
    same = [earlier for earlier in stream if earlier.offset == later.offset]
    if inside:
        return "int_nonmonotonic_poll", False
    if same and (not same[-1].consumed or later.tries > same[-1].tries):
        return None
    return "nonmonotonic_poll", bool(same) and (committed is None or committed <= later.offset)


def _assigned_between(ops: Sequence[Op], earlier: Delivery, later: Delivery) -> bool:
    return any(
        op.f == "assign" and op.type == "ok" and op.process == later.process
        for op in ops[earlier.began + 1 : later.began + 1]
    )


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
    """Whether an acknowledged message from `start` on, below a delivery, was not given to the group before."""
    if later.queue[0] not in groups.get(later.group, ()):
        return False
    given = {earlier.offset for earlier in stream}
    return any(
        send.outcome == "ok"
        and send.queue == later.queue
        and max(start, _deleted_below(ops, later)) <= send.offset < later.offset
        and send.offset not in given
        for send in sends_of(ops)
    )


def _deleted_below(ops: Sequence[Op], later: Delivery) -> int:
    topic, *place = later.queue
    drains = [
        op
        for op in ops
        if op.f == "drain" and op.type in ("ok", "info")
        if (op.value["group"], op.value["topic"]) == (later.group, topic)
    ]
    for broker, number, low, _end, _committed in drains[-1].value["queues"] if drains else ():
        if [broker, number] == place:
            return int(low)
    return 0
