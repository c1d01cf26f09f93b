"""Reference for recovery times and coverage marks, in plain Python; no code shared with kernels."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Queue, Send, deliveries_of, sends_of
from tests.support.reference_semantics import Found, began_ns, ended_ns, value_of

NS_PER_MS = 1_000_000
BUFFERED_NS = 30 * 10**9
HOT_WAIT_NS, HOT_RATIO = 10**9, 3


def recovery_times(
    ops: Sequence[Op], facts: Mapping[str, Any], faults: Sequence[FaultFacts]
) -> list[dict[str, Any]]:
    """Of each fault that bit and healed: how long until sends worked, and until groups had what there was."""
    return [
        {
            "fault_id": fault.fault_id,
            "kind": fault.kind,
            "sends_after_ms": _sends_after_ms(ops, facts, fault, fault.healed_ns),
            "caught_up_after_ms": {
                group: _caught_up_after_ms(ops, facts, group, fault.healed_ns)
                for group in facts["groups"]
            },
        }
        for fault in faults
        if fault.bitten_ns is not None and fault.healed_ns is not None
    ]


def _sends_after_ms(
    ops: Sequence[Op], facts: Mapping[str, Any], fault: FaultFacts, healed_ns: int
) -> int | None:
    struck = {
        broker
        for broker, nodes in facts["replica_sets"].items()
        if broker in fault.targets or any(node in fault.targets for node in nodes)
    }
    waits = [
        ended_ns(ops, send) - healed_ns
        for send in sends_of(ops)
        if send.outcome == "ok" and send.queue is not None
        if not struck or send.queue[1] in struck
    ]
    return min([wait // NS_PER_MS for wait in waits if wait > 0], default=None)


def _caught_up_after_ms(
    ops: Sequence[Op], facts: Mapping[str, Any], group: str, healed_ns: int
) -> int | None:
    waits = [0]
    tags = facts["wanted_tags"].get(group)
    for send in sends_of(ops):
        value = value_of(ops, send)
        asked = send.topic in facts["groups"][group] and (tags is None or value.get("tag") in tags)
        due_ns = began_ns(ops, send) + value.get("delay_ms", 0) * NS_PER_MS
        if send.outcome == "ok" and asked and max(due_ns, ended_ns(ops, send)) <= healed_ns:
            given = [
                began_ns(ops, given)
                for given in deliveries_of(ops)
                if (given.group, given.key, given.queue) == (group, send.key, send.queue)
                if send.offset in (-1, given.offset)
            ]
            if not given:
                return None
            waits.append(min(given) - healed_ns)
    return max(waits) // NS_PER_MS


def read_beyond_recovery(
    ops: Sequence[Op], observations: Sequence[Mapping[str, Any]], facts: Mapping[str, Any]
) -> Found:
    """Deliveries of what lay beyond the end up to which a broker without replicas had recovered its log before."""
    sent = {send.key: send for send in sends_of(ops) if send.outcome == "ok"}
    found: Found = Counter()
    for given in deliveries_of(ops):
        send = sent.get(given.key or "")
        if send is None or send.queue != given.queue:
            continue
        lies_at = value_of(ops, send).get("physical_offset")
        if lies_at == given.physical and any(
            facts["replica_sets"][given.queue[1]] == (seen["node"],)
            and lies_at >= seen["end_offset"]
            and ended_ns(ops, send) < seen["time_ns"]
            and began_ns(ops, given) > seen["time_ns"] + BUFFERED_NS
            for seen in observations
        ):
            found["read_beyond_recovery", given.key, given.group] += 1
    return found


def coverage(ops: Sequence[Op], facts: Mapping[str, Any]) -> dict[str, int]:
    deliveries = deliveries_of(ops)
    counts: Counter[str] = Counter()
    counts["retried_sends"] = sum(send.attempts > 1 for send in sends_of(ops))
    counts["retried_deliveries"] = sum(given.tries > 0 for given in deliveries)
    for group, queue, index in _changes_of_owner(ops):
        counts["rebalanced_at_work"] += any(
            (given.group, given.queue) == (group, queue) and given.began < index < given.ended
            for given in deliveries
        )
    last: dict[tuple[str, Queue], int] = {}
    for given in deliveries:
        if given.group in facts["orderly"]:
            before = last.get((given.group, given.queue), given.process)
            counts["handed_over"] += before != given.process
            last[given.group, given.queue] = given.process
    for group, tags in facts["wanted_tags"].items():
        for send in sends_of(ops):
            tag = value_of(ops, send).get("tag")
            asked = send.topic in facts["groups"][group] and send.outcome == "ok"
            if asked and tag not in tags:
                counts["filtered_out"] += 1
                counts["colliding_tags"] += tag == "BB"  # has the hash of Aa
    return dict(counts)


def _changes_of_owner(ops: Sequence[Op]) -> list[tuple[str, Queue, int]]:
    """(group, queue, op index) of each time that a process gained or lost a queue."""
    owned: set[tuple[int, str, Queue]] = set()
    found = []
    for op in ops:
        if op.f != "assign":
            continue
        group, topic = op.value["group"], op.value["topic"]
        now = {(op.process, group, (topic, *queue)) for queue in op.value["queues"]}
        had = {one for one in owned if one[:2] == (op.process, group) and one[2][0] == topic}
        found += [(group, queue, op.index) for _, _, queue in now ^ had]
        owned = (owned - had) | now
    return found


def hot_key(ops: Sequence[Op]) -> tuple[str, Queue] | None:
    """The last message of the hot key in its queue, and that queue; None when no key is hot."""
    keyed = {
        send.key: send
        for send in sorted(sends_of(ops), key=lambda send: send.ended)
        if send.outcome == "ok" and "sharding_key" in value_of(ops, send)
    }
    shards = {key: value_of(ops, send)["sharding_key"] for key, send in keyed.items()}
    for shard, count in Counter(shards.values()).items():
        if 2 * count > len(keyed):
            mine = [send for key, send in keyed.items() if shards[key] == shard]
            queue = _main_queue(mine)
            here = [send for send in keyed.values() if send.queue == queue]
            elsewhere = [send for send in keyed.values() if send.queue != queue]
            if _is_slow(_waits_ns(ops, keyed, here), _waits_ns(ops, keyed, elsewhere)):
                return [send.key for send in mine if send.queue == queue][-1], queue
    return None


def _main_queue(sends: Sequence[Send]) -> Queue:
    """Where most of them are; the first by name, if there are several such queues."""
    counts = Counter(send.queue for send in sends if send.queue is not None)
    return min(queue for queue, count in counts.items() if count == max(counts.values()))


def _is_slow(here: Sequence[int], elsewhere: Sequence[int]) -> bool:
    if not here or not elsewhere:
        return False
    return _most(here) >= HOT_WAIT_NS and _most(here) >= HOT_RATIO * _most(elsewhere)


def _waits_ns(ops: Sequence[Op], keyed: Mapping[str, Send], sends: Sequence[Send]) -> list[int]:
    """How long some waited for the first listener, of those that got to one; sorted."""
    queues = {send.queue for send in keyed.values()}
    found = []
    for send in sends:
        called = [
            began_ns(ops, given)
            for given in deliveries_of(ops)
            if given.key == send.key and given.queue in queues
        ]
        if called:
            found.append(max(min(called) - ended_ns(ops, send), 0))
    return sorted(found)


def _most(waits_ns: Sequence[int]) -> int:
    """What nine of ten wait at most."""
    return next(wait for n, wait in enumerate(waits_ns, 1) if 10 * n >= 9 * len(waits_ns))
