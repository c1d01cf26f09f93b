"""Reference for durable acknowledgements, in plain Python over ops and observations; no code shared with the kernel."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Send, sends_of
from tests.support.reference_semantics import began_ns, ended_ns

AFTERMATH_NS = 20 * 10**9
WAITED_NS = {"FLUSH_DISK_TIMEOUT": 5 * 10**9, "FLUSH_SLAVE_TIMEOUT": 3 * 10**9}
_AWAY = {"stops", "stalls", "cuts", "routes"}
# By status: what a fault does, to how many of the replicas (the master is the first), for how long at least, how long
# it counts after the heal, and whether the broker must have waited for its time-out.
MECHANISMS = {
    "FLUSH_DISK_TIMEOUT": [
        ({"stalls", "disk"}, 1, 0, 5 * 10**9, True),
        ({"writes_fail"}, 1, 0, 10 * 10**9, False),
    ],
    "FLUSH_SLAVE_TIMEOUT": [({*_AWAY, "disk", "network"}, 9, 0, AFTERMATH_NS, True)],
    "SLAVE_NOT_AVAILABLE": [
        ({*_AWAY, "writes_fail"}, 9, 0, AFTERMATH_NS, False),
        ({"network", "disk"}, 9, 20 * 10**9, AFTERMATH_NS, False),
    ],
}
STRIKES_ONCE = {
    *("kill", "graceful_stop", "pause", "broker_black_hole", "partition", "partition_halves"),
    *("partition_one", "partition_one_way", "partition_bridge", "partition_ring"),
}
RESTART_NS = 10 * 10**9  # a node that ended by itself is down for so long
REPORTED_WITHIN_NS = 10 * 10**9  # slaves tell how far they are
Facts = Mapping[str, Any]
Seen = Mapping[str, Any]


class Acknowledged(NamedTuple):
    """The outcomes of acknowledgements: keys, one for each observation."""

    acks: int
    looked_at: int  # acknowledgements, each once
    proven: list[str]
    excused: list[str]  # what is missing is what a fault took meanwhile
    unclear: list[str]  # it may be on a node that was not observed
    not_durable: list[str]


class Weak(NamedTuple):
    """What became of weaker statuses."""

    weak: int
    looked_at: int
    wrong: list[str]
    excused: list[str]  # slaves were coming up, or a fault was near
    behind: list[str]  # slaves may have been too far behind


def acknowledged(ops: Sequence[Op], observations: Sequence[Seen], facts: Facts) -> Acknowledged:
    """Of each look at an acknowledged message: whether as many nodes held it as SEND_OK promises."""
    proven, excused, unclear, not_durable = [], [], [], []
    looks = list(_looks(ops, observations, "ok"))
    for send, seen in looks:
        on_disk, held = _copies(facts, _broker_of(send), seen)
        taken = _may_have_lost(ops, facts, send)
        perhaps = taken | set(seen["unobserved"]) - _destroyed_before(ops, facts, send)
        if not _enough(facts, _broker_of(send), on_disk | perhaps, held | perhaps):
            not_durable.append(send.key)
        elif _enough(facts, _broker_of(send), on_disk, held):
            proven.append(send.key)
        elif _enough(facts, _broker_of(send), on_disk | taken, held | taken):
            excused.append(send.key)
        else:
            unclear.append(send.key)
    looked_at = len({send.key for send, _ in looks})
    acks = len(_stored(ops, "ok"))
    return Acknowledged(acks, looked_at, proven, excused, unclear, not_durable)


def weak(ops: Sequence[Op], observations: Sequence[Seen], facts: Facts) -> Weak:
    """Of each look at a message with a weaker status: whether SEND_OK would have been true."""
    wrong: list[str] = []
    excused: list[str] = []
    behind: list[str] = []
    looks = list(_looks(ops, observations, "weak"))
    for send, seen in looks:
        if "SLAVE" in seen["status"] and facts["replication"] != "sync":
            wrong.append(send.key)
        elif _held(facts, _broker_of(send), seen):
            statuses = {seen["status"]} & set(MECHANISMS) or set(MECHANISMS)
            near = any(
                _fault_near(ops, facts, send, status, _in_step_ns(ops, observations, facts, send))
                for status in statuses
            )
            if near or _came_up(ops, send):
                excused.append(send.key)
            elif _left_behind(ops, observations, facts, send):
                behind.append(send.key)
            else:
                wrong.append(send.key)
    looked_at = len({send.key for send, _ in looks})
    return Weak(len(_stored(ops, "weak")), looked_at, wrong, excused, behind)


def _stored(ops: Sequence[Op], outcome: str) -> list[Send]:
    return [send for send in sends_of(ops) if send.outcome == outcome and send.queue is not None]


def _looks(
    ops: Sequence[Op], observations: Sequence[Seen], outcome: str
) -> Iterator[tuple[Send, Seen]]:
    for seen in observations:
        for send in _stored(ops, outcome):
            if seen["kind"] == "ack_durability" and seen["key"] == send.key:
                yield send, seen


def _broker_of(send: Send) -> str:
    assert send.queue is not None
    return send.queue[1]


def _held(facts: Facts, broker: str, seen: Seen) -> bool:
    return _enough(facts, broker, *_copies(facts, broker, seen))


def _copies(facts: Facts, broker: str, seen: Seen) -> tuple[set[str], set[str]]:
    """Which nodes have it on disk, and which have it at all; nodes of other brokers count for nothing."""
    on_disk, held = set(seen["durable_on"]), {*seen["durable_on"], *seen["cached_on"]}
    nodes = set(facts["replica_sets"].get(broker, held))
    return on_disk & nodes, held & nodes


def _left_behind(ops: Sequence[Op], observations: Sequence[Seen], facts: Facts, send: Send) -> bool:
    """Whether slaves may have lacked more than brokers wait for when what this was sent with was stored."""
    began, broker = began_ns(ops, send), _broker_of(send)
    stored_at_once = [
        (other.key, seen["end_offset"])
        for other, seen in _looks(ops, observations, "weak")
        if (other.process, began_ns(ops, other), _broker_of(other)) == (send.process, began, broker)
        if seen["status"] == "SLAVE_NOT_AVAILABLE" and seen["end_offset"] is not None
    ]
    copied = [
        seen["end_offset"]
        for seen in observations
        if seen["kind"] == "ack_durability" and seen["broker_name"] == broker
        if seen["end_offset"] is not None and _held(facts, broker, seen)
        if seen["time_ns"] + (seen["status"] != "SEND_OK") * REPORTED_WITHIN_NS <= began
    ]
    if send.key not in dict(stored_at_once) or not copied:
        return False
    end = max(end for _, end in stored_at_once)
    return bool(end - max(copied) >= facts["follower_behind_max_bytes"])


def _in_step_ns(ops: Sequence[Op], observations: Sequence[Seen], facts: Facts, send: Send) -> int:
    """When the last send began whose copies on the slaves, by their reports, the broker knew when this one began."""
    return max(
        (
            began_ns(ops, other)
            for other, seen in _looks(ops, observations, "weak")
            if _broker_of(other) == _broker_of(send) and _held(facts, _broker_of(other), seen)
            if ended_ns(ops, other) + REPORTED_WITHIN_NS <= began_ns(ops, send)
        ),
        default=-(1 << 62),
    )


def _enough(facts: Facts, broker: str, on_disk: Set[str], held: Set[str]) -> bool:
    """Whether so many nodes are as many as SEND_OK promises, the master among them: of nodes that there are, all."""
    nodes = facts["replica_sets"].get(broker, ("an unknown node",))
    master_flushes = facts["flush"] == "sync"
    slave_has_it = facts["replication"] == "sync"
    slave_flushes = slave_has_it and master_flushes and facts["mode"] == "hardened"
    disks = master_flushes + slave_flushes
    memories = 2 if slave_has_it else 0 if facts["transient_pool"] else 1
    master = set(facts["replica_sets"].get(broker, ())[:1])
    if (disks and master - on_disk) or (memories and master - held):
        return False
    return len(on_disk) >= min(disks, len(nodes)) and len(held) >= min(memories, len(nodes))


def _may_have_lost(ops: Sequence[Op], facts: Facts, send: Send) -> set[str]:
    """The nodes that may have had the message when it was acknowledged, and not at the observation."""
    assert send.queue is not None
    nodes = facts["replica_sets"].get(send.queue[1], ())
    return {
        node
        for number, node in enumerate(nodes)
        for fault in facts["faults"]
        if node in fault.targets
        and fault.bitten_ns is not None
        and _strikes_between(fault, began_ns(ops, send), ended_ns(ops, send))
        and _takes(fault.kind, facts, is_master=number == 0)
    }


def _destroyed_before(ops: Sequence[Op], facts: Facts, send: Send) -> set[str]:
    """The nodes whose disks were gone for good when the send began."""
    found: set[str] = set()
    for fault in facts["faults"]:
        bit = fault.permanent and fault.bitten_ns is not None
        if bit and max(fault.fired_ns, fault.bitten_ns) < began_ns(ops, send):
            found.update(fault.targets)
    return found


def _strikes_between(fault: FaultFacts, since_ns: int, until_ns: int) -> bool:
    """A failing disk strikes at any time until it is mended, the others when they are fired."""
    assert fault.fired_ns is not None
    assert fault.bitten_ns is not None
    last_ns = max(fault.fired_ns, fault.bitten_ns)
    if fault.kind == "failing_disk":
        last_ns = 1 << 62 if fault.healed_ns is None else fault.healed_ns
    return fault.fired_ns <= until_ns and last_ns >= since_ns


def _takes(kind: str, facts: Facts, *, is_master: bool) -> bool:
    in_process: bool = facts["transient_pool"] and is_master
    in_page_cache: bool = facts["flush"] == "async"
    return {
        "kill": in_process,
        "failing_disk": in_page_cache,
        "power_cut": in_page_cache,
        "disk_lost": True,
        "wiped_slave": True,
    }.get(kind, False)


def _fault_near(ops: Sequence[Op], facts: Facts, send: Send, status: str, in_step_ns: int) -> bool:
    replicas = facts["replica_sets"].get(_broker_of(send), ())
    served_ns = max(
        (began_ns(ops, of) for of in _safe(ops, send) if of.ended < send.began), default=-(1 << 62)
    )
    for effects, how_many, least_ns, after_ns, waits in MECHANISMS[status]:
        if waits and _cannot_have_waited(ops, send, WAITED_NS[status]):
            continue
        struck = set(replicas[:how_many])
        for fault in facts["faults"]:
            # Which links a partition cut, these facts do not say.
            if not effects & set(fault.effects) or not (
                struck & set(fault.targets) or fault.kind == "partition"
            ):
                continue
            healed_ns = (1 << 62) if fault.healed_ns is None else fault.healed_ns
            if fault.bitten_ns is None or healed_ns - fault.fired_ns < least_ns:
                continue
            explains_until_ns = fault.bitten_ns if fault.kind in STRIKES_ONCE else healed_ns
            if explains_until_ns < served_ns:
                continue
            if status == "SLAVE_NOT_AVAILABLE" and healed_ns < in_step_ns:
                continue
            if fault.fired_ns <= ended_ns(ops, send) and healed_ns + after_ns >= began_ns(
                ops, send
            ):
                return True
        for ended in facts["exits"]:
            if (
                "stops" in effects
                and ended.node in struck
                and served_ns <= ended.time_ns <= ended_ns(ops, send)
                and (status != "SLAVE_NOT_AVAILABLE" or in_step_ns <= ended.time_ns + RESTART_NS)
                and ended.time_ns + RESTART_NS + after_ns >= began_ns(ops, send)
            ):
                return True
    return False


def _cannot_have_waited(ops: Sequence[Op], send: Send, wait_ns: int) -> bool:
    """Whether at each moment, a time-out after the send began, what was sent less than a time-out before was safe."""
    at_ns = began_ns(ops, send) + wait_ns
    while at_ns <= ended_ns(ops, send):
        later = [
            began_ns(ops, of) + wait_ns
            for of in _safe(ops, send)
            if ended_ns(ops, of) < at_ns <= began_ns(ops, of) + wait_ns
        ]
        if not later:
            return False
        at_ns = max(later) + 1
    return True


def _safe(ops: Sequence[Op], send: Send) -> list[Send]:
    """What the same broker answered with SEND_OK."""
    return [other for other in _stored(ops, "ok") if _broker_of(other) == _broker_of(send)]


def _came_up(ops: Sequence[Op], send: Send) -> bool:
    """Whether its broker has given a SEND_OK, and the first one was not there yet when this send began."""
    safe = [other.ended for other in _safe(ops, send)]
    return bool(safe) and min(safe) >= send.began
