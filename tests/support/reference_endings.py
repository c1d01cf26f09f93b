"""Reference for the end of a run, in plain Python: nodes live, serve and agree with each other; queues are read.

No code shared with the kernels. Each function returns how often it found what: (anomaly, where, ...) -> times; the
`missing` ones name the things without an observation.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.reference_route_changes import least
from tests.support.reference_semantics import Found

Facts = Mapping[str, Any]
Seen = Mapping[str, Any]
DISK_KINDS = ("failing_disk", "disk_full", "disk_lost")
AFTERMATH_NS = 10 * 10**9


def replicas(observations: Sequence[Seen]) -> Found:
    """The last comparison of each pair counts."""
    pairs = {(of["broker_name"], of["master"], of["slave"]) for of in _of(observations, "replica")}
    found: Found = Counter()
    for broker, master, slave in pairs:
        last = [
            of
            for of in _of(observations, "replica")
            if (of["broker_name"], of["master"], of["slave"]) == (broker, master, slave)
        ][-1]
        if last["first_difference"] is not None:
            found["replica_diverged", broker, last["first_difference"]] += 1
        elif last["slave_end"] > last["master_end"]:
            found["replica_ahead", broker, last["master_end"]] += 1
    return found


def pairs_left(facts: Facts) -> set[str]:
    """Brokers of which two nodes are left."""
    return {name for name in facts["replica_sets"] if len(_left(facts, name)) > 1}


def routes(observations: Sequence[Seen], facts: Facts) -> Found:
    """Each answer of a name server that is not what the master says, or where one has fewer queues than confirmed."""
    found: Found = Counter()
    for of in _of(observations, "topic_route"):
        broker, topic = of["broker_name"], of["topic"]
        queues = least(
            facts["faults"], topic, broker, facts["replica_sets"][broker][0], of["time_ns"]
        )
        few = any(
            min(said[:2]) < queues for said in (of["route"], of["master"]) if said is not None
        )
        found["route_mismatch", broker, topic] += few or of["route"] != of["master"]
    return +found


def resources(observations: Sequence[Seen]) -> Found:
    """What a server has more of in the end than in the beginning, with its name."""
    found: Found = Counter()
    looks = _of(observations, "resources")
    for node in {of["node"] for of in looks}:
        mine = [of for of in looks if of["node"] == node]
        begins = [of for of in mine if of["when"] == "begin"]
        ends = [of for of in mine if of["when"] == "end"]
        if not begins or not ends:
            continue
        more = {"tasks": 2, "threads": 36, "sockets": 4, "surplus_files": 2}
        more["memory_bytes"] = 64 * 1024 * 1024 + 4096 * ends[-1]["acknowledged"]
        for name, most in more.items():
            before, after = begins[0][name], ends[-1][name]
            if None not in (before, after) and after - before > most:
                anomaly = {"surplus_files": "file", "memory_bytes": "memory"}.get(name, name[:-1])
                found[f"{anomaly}_leak", node] += 1
        allowed = dict.fromkeys(("heldPulls", "queueLocks", "consumers", "endedHalfMessages"), 0)
        allowed |= {"producers": 1, "consumerOffsets": 64}
        before, after = begins[0]["tables"] or {}, ends[-1]["tables"] or {}
        shared = before.keys() & after.keys() & allowed.keys()
        if any(after[name] - before[name] > allowed[name] for name in shared):
            found["table_leak", node] += 1
    return found


def internal_errors(observations: Sequence[Seen]) -> Found:
    """Each error that a node logged and only a wrong program raises."""
    return Counter(
        ("internal_error", of["node"], of["error"]) for of in _of(observations, "internal_error")
    )


def servers_not_measured(observations: Sequence[Seen], facts: Facts) -> set[str]:
    looks = _of(observations, "resources")
    both = {of["node"] for of in looks if of["when"] == "begin"}
    both &= {of["node"] for of in looks if of["when"] == "end"}
    servers = {
        *facts["coordinators"],
        *(node for of in facts["replica_sets"].values() for node in of),
    }
    lost = {
        node
        for of in facts["faults"]
        if of.permanent and of.fired_ns is not None
        for node in of.targets
    }
    return servers - lost - both


def brokers_not_compared(observations: Sequence[Seen], facts: Facts) -> set[str]:
    living = facts["living"] or facts["replica_sets"]
    return set(living) - {of["broker_name"] for of in _of(observations, "topic_route")}


def queue_entries(observations: Sequence[Seen]) -> Found:
    """The last look at each node counts."""
    found: Found = Counter()
    looks = _of(observations, "queue_entries")
    for node in {of["node"] for of in looks}:
        last = [of for of in looks if of["node"] == node][-1]
        for topic, queue, offset in last["hole_at"]:
            found["queue_hole", last["broker_name"], topic, queue, offset] += 1
        for topic, queue, offset in last["wrong_at"]:
            found["queue_entry_wrong", last["broker_name"], topic, queue, offset] += 1
        if last["missing"]:
            found["queue_entry_missing", last["broker_name"], None, None, None] += 1
    return found


def nodes_unread(observations: Sequence[Seen], facts: Facts) -> set[str]:
    """Nodes of brokers whose disk could have been read, and was not."""
    read = {of["node"] for of in _of(observations, "queue_entries")}
    return {node for name in facts["replica_sets"] for node in _left(facts, name)} - read


def _left(facts: Facts, broker: str) -> set[str]:
    return {
        node
        for node in facts["replica_sets"][broker]
        if not any(fault.permanent and node in fault.targets for fault in facts["faults"])
    }


def _of(observations: Sequence[Seen], kind: str) -> list[Seen]:
    return [seen for seen in observations if seen["kind"] == kind]


def look_ups(ops: Sequence[Op], mode: str = "hardened") -> Found:
    """What lies in its queue and is not found by its id, or by its key where there is an index; torn answers; searches
    by time that led elsewhere, or at which the broker failed.
    """
    found: Found = Counter()
    for op in ops:
        for key, queue, offset, by_key, by_id, in_queue in (
            op.value["messages"] if op.f == "look_up" else ()
        ):
            place = key, op.value["broker"], queue, offset
            if in_queue and not by_id:
                found["not_found_by_id", *place] += 1
            if in_queue and not by_key and op.value["indexed"]:
                found["not_found_by_key", *place] += 1
        for key, queue, offset, _error in op.value.get("torn", ()) if op.f == "look_up" else ():
            found["torn_answer", key, op.value["broker"], queue, offset] += 1
        for key, queue, offset, _error in op.value.get("refused", ()) if op.f == "look_up" else ():
            held = [row[:3] for row in op.value["messages"] if row[5]]
            if [key, queue, offset] in held:
                found["refused_read", key, op.value["broker"], queue, offset] += 1
        for key, queue, offset, stored, _, there, before in (
            op.value.get("searched", ()) if op.f == "look_up" else ()
        ):
            is_first = stored != before or mode == "faithful"
            if stored != there or not is_first:
                found["wrong_time_search", key, op.value["broker"], queue, offset] += 1
    return found


def unreadable(ops: Sequence[Op]) -> Found:
    """Retry and dead-letter topics that a broker refused to give out."""
    return Counter(
        ("unreadable_topic", op.value["group"], op.value["topic"], op.value["broker"])
        for op in ops
        if op.f == "try_read" and op.type == "fail"
    )


RIGHT_CODES = {
    "body": 13,
    "properties": 13,
    "name of the topic": 1,
    "unknown topic": 17,
    **dict.fromkeys(("signature", "no signature", "unknown account", "no right"), 1),
}


def wrongly_refused(ops: Sequence[Op]) -> Found:
    """Illegal sends that a broker refused with another code, without any fault."""
    return Counter(
        ("wrong_refusal", op.value["key"])
        for op in ops
        if op.f == "refused"
        and op.value["code"] != RIGHT_CODES.get(op.value["illegal"], op.value["code"])
    )


def needlessly_refused(ops: Sequence[Op]) -> Found:
    """Legal sends and send-backs that a broker answered with a code, without any fault."""
    found = Counter(
        ("needless_refusal", op.value["key"])
        for op in ops
        if op.f == "send" and op.type != "ok" and op.value.get("code") is not None
    )
    found.update(
        ("needless_refusal", key)
        for op in ops
        if op.f == "send_back" and op.value.get("code") is not None
        for key, *_ in op.value["messages"]
    )
    return found


def not_answered(ops: Sequence[Op]) -> bool:
    return any(op.f == "look_up" and op.type != "ok" for op in ops)


def died(facts: Facts) -> Found:
    """Nodes that ended by themselves while no disk of theirs was broken, or had been shortly before."""
    return Counter(
        ("node_died", ended.node, ended.time_ns)
        for ended in facts["exits"]
        if not any(
            fault.kind in DISK_KINDS
            and ended.node in fault.targets
            and fault.bitten_ns is not None
            and fault.fired_ns <= ended.time_ns
            and (fault.healed_ns is None or ended.time_ns - fault.healed_ns <= AFTERMATH_NS)
            for fault in facts["faults"]
        )
    )


def liveness(ops: Sequence[Op], facts: Facts) -> Found:
    """Brokers that do not serve by their last probe, and groups that their last drain did not get to the end."""
    found: Found = Counter()
    for broker in _living(facts):
        probes = _probes(ops, broker)
        if probes and probes[-1].type != "ok":
            found["not_serving", broker, None, None] += 1
    for group, topic in _readers(facts):
        drains = _drains(ops, group, topic)
        if drains and drains[-1].type != "ok":
            found["not_drained", None, group, topic] += 1
    return found


def never_asked(ops: Sequence[Op], facts: Facts) -> list[str]:
    """The parts of a run's end without an observation, as sentences."""
    return [
        *(f"broker {of} was never probed" for of in _living(facts) if not _probes(ops, of)),
        *(
            f"group {group} on {topic} was never drained"
            for group, topic in _readers(facts)
            if not _drains(ops, group, topic)
        ),
    ]


def drained_offsets(ops: Sequence[Op], facts: Facts) -> Found:
    """(anomaly, whether it is allowed, group, topic, broker, queue, offset) of last drains."""
    found: Found = Counter()
    for group, topic in {(op.value["group"], op.value["topic"]) for op in ops if op.f == "drain"}:
        for drain in _drains(ops, group, topic)[-1:]:
            for broker, queue, _low, end, committed in drain.value["queues"]:
                place = group, topic, broker, queue, committed
                if committed > end:
                    gone = any(_disk_gone(of, facts, broker, drain) for of in facts["faults"])
                    reported = gone and committed <= _highest_commit(ops, *place[:-1])
                    found["commit_beyond_end", reported, *place] += 1
                if committed < end and drain.type == "ok":
                    found["commit_behind", False, *place] += 1
    return found


def _highest_commit(ops: Sequence[Op], group: str, topic: str, broker: str, queue: int) -> int:
    return max(
        (
            offset
            for op in ops
            if op.f == "commit" and (op.value["group"], op.value["topic"]) == (group, topic)
            for name, number, offset in op.value["offsets"]
            if (name, number) == (broker, queue)
        ),
        default=-1,
    )


def _disk_gone(fault: FaultFacts, facts: Facts, broker: str, drain: Op) -> bool:
    assert fault.fired_ns is not None
    struck = facts["replica_sets"][broker][0] in fault.targets
    bitten = fault.bitten_ns is not None and fault.fired_ns <= drain.time_ns
    return struck and bitten and fault.kind == "disk_lost"


def _living(facts: Facts) -> Sequence[str]:
    return sorted(facts["replica_sets"]) if facts["living"] is None else facts["living"]


def _readers(facts: Facts) -> list[tuple[str, str]]:
    return [(group, topic) for group, topics in facts["groups"].items() for topic in topics]


def _probes(ops: Sequence[Op], broker: str) -> list[Op]:
    return [
        op for op in ops if op.f == "probe" and op.type != "invoke" and op.value["broker"] == broker
    ]


def _drains(ops: Sequence[Op], group: str, topic: str) -> list[Op]:
    """Those that came to an end; a failed one has not happened."""
    return [
        op
        for op in ops
        if op.f == "drain" and op.type in ("ok", "info")
        if (op.value["group"], op.value["topic"]) == (group, topic)
    ]
