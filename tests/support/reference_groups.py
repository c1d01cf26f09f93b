"""Reference for groups, subscriptions and requests, in plain Python: second by second, over ops of whole seconds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from itertools import combinations
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op

NS_PER_S = 10**9
S = 10**9
SETTLED_NS = 60 * S  # until brokers have registered again and clients know it
Found = Counter[tuple[Any, ...]]
Queue = tuple[str, str, int]
Second = int


def ownership(ops: Sequence[Op], facts: Mapping[str, Any], faults: Sequence[FaultFacts]) -> Found:
    """Queues of groups that had no owner, or two, for too long, not counting seconds in which no member lived.

    That is 23 s where no fault was near and the members stayed the same, else 30 s. In an orderly group it is longer
    while a lock lasts that an owner left behind near a fault of its own, of its leader or of a coordinator. No fault of
    these histories keeps two members from finding out that they own the same queue.
    """
    end = ops[-1].time_ns // NS_PER_S
    members = _members(ops)
    owners = _owners(ops, faults, end)
    sent = _first_sent(ops)
    confirmed = _confirmed(faults)
    queues = {queue for _, queue in owners} | set(sent) | set(confirmed)
    found: Found = Counter()
    for group in {group for group, _ in owners} & set(facts["groups"]):
        for queue in queues:
            if queue[0] not in facts["groups"][group]:
                continue
            had = owners.get((group, queue), [set() for _ in range(end)])
            first = min(
                [second for second in range(end) if had[second]] + [sent.get(queue, end) + 30]
            )
            known = min(first, confirmed.get(queue, end))
            alone = [s >= known and not had[s] for s in range(end)]
            away = [_no_member_lives(ops, faults, members[group], second) for second in range(end)]
            locked = _locked(ops, facts, faults, group, queue, had)
            bound = _Bound(ops, faults, members[group] | _asking(ops, group), locked)
            if _too_long(alone, away, bound):
                found["queue_unowned", group, queue] += 1
    for (group, queue), had in owners.items():
        if group in facts["broadcasting"]:
            continue
        for one, other in combinations(_stretches(had), 2):
            both = [s in one[1] and s in other[1] for s in range(end)]
            bound = _Bound(ops, faults, members[group] | _asking(ops, group))
            if one[0] != other[0] and _too_long(both, [False] * end, bound):
                found["double_ownership", group, queue] += 1
    return found


def _no_member_lives(
    ops: Sequence[Op], faults: Sequence[FaultFacts], members: set[str | None], second: Second
) -> bool:
    """Whether a fault is active on a member, and each other one is away too or has not started."""
    on = {node for fault in faults if _is_on(fault, second) for node in fault.targets} & members
    begun = {op.node for op in ops if op.f == "open" and op.time_ns <= second * NS_PER_S}
    return bool(on) and members & begun <= on


def _is_on(fault: FaultFacts, second: Second) -> bool:
    assert fault.fired_ns is not None
    assert fault.healed_ns is not None
    return fault.fired_ns <= second * NS_PER_S < fault.healed_ns


def _members(ops: Sequence[Op]) -> dict[str, set[str | None]]:
    """The nodes of each group that ever were given a queue."""
    nodes = {op.process: op.node for op in ops if op.f == "open"}
    members: dict[str, set[str | None]] = {}
    for op in ops:
        if op.f == "assign" and op.value["queues"]:
            members.setdefault(op.value["group"], set()).add(nodes[op.process])
    return members


def _owners(
    ops: Sequence[Op], faults: Sequence[FaultFacts], end: Second
) -> dict[tuple[str, Queue], list[set[int]]]:
    """The processes that own each queue in each second, without the queues that no process ever owned."""
    nodes = {op.process: op.node for op in ops if op.f == "open"}
    at = {op.time_ns // NS_PER_S: op for op in ops}
    now: dict[tuple[str, Queue], set[int]] = {}
    owners: dict[tuple[str, Queue], list[set[int]]] = {}
    for second in range(end):
        died: list[str | None] = [
            n for f in faults for n in f.targets if f.fired_ns == second * NS_PER_S
        ]
        op = at.get(second)
        if op is not None and op.f == "open":
            died.append(op.node)
        for mine in now.values():
            mine -= {process for process in mine if nodes[process] in died}
        if op is not None and op.f == "assign":
            group, topic = op.value["group"], op.value["topic"]
            given = [(group, (topic, broker, queue)) for broker, queue in op.value["queues"]]
            for pair, mine in now.items():
                if pair[0] == group and pair[1][0] == topic:
                    mine.discard(op.process)
            for pair in given:
                now.setdefault(pair, set()).add(op.process)
        for pair, mine in now.items():
            owners.setdefault(pair, [set() for _ in range(end)])[second] = set(mine)
    return owners


def _first_sent(ops: Sequence[Op]) -> dict[Queue, Second]:
    first: dict[Queue, Second] = {}
    for op in ops:
        if op.f == "send" and op.type == "ok":
            queue = op.value["topic"], op.value["broker"], op.value["queue"]
            first.setdefault(queue, op.time_ns // NS_PER_S)
    return first


def _confirmed(faults: Sequence[FaultFacts]) -> dict[Queue, Second]:
    """When clients must know each queue that a leader has confirmed: 6 s until it is registered, and 30 s more."""
    first: dict[Queue, Second] = {}
    for one in (answer for fault in faults for answer in fault.confirmed):
        second = one.answered_ns // NS_PER_S + 36
        for number in range(one.queues):
            queue = one.topic, one.stream, number
            first[queue] = min(second, first.get(queue, second))
    return first


def _stretches(had: Sequence[set[int]]) -> list[tuple[int, set[Second]]]:
    """Each time that a process owned the queue without a break."""
    found: list[tuple[int, set[Second]]] = []
    for process in {process for owners in had for process in owners}:
        for second, owners in enumerate(had):
            if process not in owners:
                continue
            if second and process in had[second - 1]:
                found[-1][1].add(second)
            else:
                found.append((process, {second}))
    return found


def _asking(ops: Sequence[Op], group: str) -> set[str | None]:
    """The nodes that subscribed for the group."""
    opens = [op for op in ops if op.f == "open" and "expression" in op.value]
    return {op.node for op in opens if op.value["group"] == group}


class _Bound:
    """How many seconds something may last, by what else happened then."""

    def __init__(
        self,
        ops: Sequence[Op],
        faults: Sequence[FaultFacts],
        nodes: set[str | None],
        more: Callable[[Second], int] = lambda _: 0,
    ) -> None:
        self._mine = [fault for fault in faults if set(fault.targets) & nodes]
        times = {op.time_ns for op in ops if op.f == "open" and op.node in nodes}
        times |= {at for fault in self._mine for at in (fault.fired_ns, fault.healed_ns) if at}
        self._changes = [at / NS_PER_S for at in times]
        self._more = more

    def of(self, first: Second, end: Second) -> int:
        calm = not self._is_near(first - 20, end)
        changed = any(first + 3 < at < end for at in self._changes)
        return self._more(first) + (23 if calm and not changed else 30)

    def _is_near(self, first: Second, end: Second) -> bool:
        return any(
            fault.fired_ns <= end * NS_PER_S and fault.healed_ns >= first * NS_PER_S
            for fault in self._mine
            if fault.fired_ns is not None and fault.healed_ns is not None
        )


def _locked(
    ops: Sequence[Op],
    facts: Mapping[str, Any],
    faults: Sequence[FaultFacts],
    group: str,
    queue: Queue,
    had: Sequence[set[int]],
) -> Callable[[Second], int]:
    """How long after a second the lock of an earlier owner may last that could not unlock the queue."""
    nodes = {op.process: op.node for op in ops if op.f == "open"}
    servers = {*facts.get("replica_sets", {}).get(queue[1], ())[:1], *facts.get("coordinators", ())}
    left = [
        max(seconds) + 1
        for process, seconds in _stretches(had)
        if any(
            set(of.targets) & {nodes[process], *servers}
            and (of.fired_ns or 0) < (max(seconds) + 4) * NS_PER_S
            and (of.healed_ns or 0) >= (max(seconds) - 2) * NS_PER_S
            for of in faults
        )
    ]

    def longer(first: Second) -> int:
        if group not in facts["orderly"]:
            return 0
        return max((at + 60 - first for at in left if first - 60 < at <= first), default=0)

    return longer


def _too_long(held: Sequence[bool], not_counted: Sequence[bool], bound: _Bound) -> bool:
    """Whether something held for more seconds in a row than it may, without those that do not count."""
    first = None
    for second, holds in enumerate([*held, False]):
        if holds and first is None:
            first = second
        elif not holds and first is not None:
            counted = sum(not skipped for skipped in not_counted[first:second])
            if counted > bound.of(first, second):
                return True
            first = None
    return False


def differing_groups(ops: Sequence[Op]) -> set[str]:
    """Groups two nodes of which asked for different things at some op, each by its last report."""
    opens = [op for op in ops if op.f == "open" and op.type == "ok"]
    say = {op.process for op in opens if "expression" in op.value}
    groups = {op.value["group"] for op in opens if "expression" in op.value}
    found: set[str] = set()
    for group in groups:
        for end in range(len(opens)):
            last: dict[str | None, Any] = {}
            for op in opens[: end + 1]:
                if op.process not in say:
                    last[op.node] = None
                elif op.value.get("group") == group and "expression" in op.value:
                    value = op.value
                    last[op.node] = value["topic"], value["expression"], value.get("orderly", False)
            if len({wish for wish in last.values() if wish is not None}) > 1:
                found.add(group)
    return found


def answers(ops: Sequence[Op], faults: Sequence[FaultFacts] = ()) -> Found:
    """Answers to another request, second ones, those to what no listener had been given, and replies that are lost."""
    found: Found = Counter()
    for op in ops:
        if op.f != "answer":
            continue
        key, reply, before = op.value["key"], op.value["reply"], ops[: op.index]
        asked = next((of for of in ops if of.f == "send" and of.value["key"] == key), op)
        found["wrong_answer", key] += (key != reply) + (asked.process != op.process)
        reported = [
            of.value.get("properties")
            for of in ops
            if of.f == "reply" and of.type != "invoke" and of.value["key"] == reply
        ]
        known = [op.value.get("properties"), *reported]
        found["wrong_answer", key] += (
            bool(reported) and None not in known and known[0] not in reported
        )
        ended = next(
            (of for of in ops if of.f == "send" and of.type == "ok" and of.value["key"] == key), op
        )
        is_second = any(other.f == "answer" and other.value["key"] == key for other in before)
        if op.time_ns > ended.time_ns + S and not is_second:
            found["duplicate_reply", key] += 1
        if is_second:
            found["duplicate_reply", key] += 1
        given = [
            event[0]
            for other in before
            if other.f == "consume"
            for event in other.value["messages"]
        ]
        if reply not in given:
            found["phantom_reply", key] += 1
    for op in ops:
        if op.f == "reply":
            found["lost_reply", op.value["key"]] += _is_lost(ops, op, faults)
    return found


def _is_lost(ops: Sequence[Op], reply: Op, faults: Sequence[FaultFacts]) -> bool:
    """Whether the requester gave up a second or more behind a reply, and had no answer.

    No fault was near, or the reply was taken and the request acknowledged.
    """
    about = [
        op for op in ops if op.f in ("send", "answer") and op.value.get("key") == reply.value["key"]
    ]
    if any(op.f == "answer" for op in about):
        return False
    begun = [op.time_ns for op in about if op.type == "invoke"]
    ended = [op.time_ns for op in about if op.type == "info" and op.time_ns >= reply.time_ns + S]
    placed = any(op.type == "info" and op.value.get("broker") is not None for op in about)
    if reply.type == "ok" and placed:
        return bool(ended)
    return bool(ended) and not any(
        fault.fired_ns is not None
        and fault.fired_ns < ended[0]
        and begun[0] < (fault.healed_ns or 1 << 62) + SETTLED_NS
        for fault in faults
    )
