"""Reference for ownership of queues, in plain Python: one delivery after the other."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.model.history import Op

S = 10**9
Found = Counter[tuple[Any, ...]]


def wrong_readers(
    ops: Sequence[Op],
    groups: Mapping[str, tuple[str, ...]],
    faults: Sequence[FaultFacts],
    exits: Sequence[NodeExit],
) -> Found:
    """(unknown_consumer | delivery_after_exit | unowned_delivery, op index) -> messages. A call is one op here.

    (unowned_commit, op index) -> offsets.
    """
    found: Found = Counter()
    for op in ops:
        if op.f == "commit":
            strange = [row for row in op.value["offsets"] if not _ever_had(ops, op, list(row[:2]))]
            found["unowned_commit", op.index] += len(strange)
        if op.f == "consume" and not op.value["topic"].startswith("%DLQ%"):
            anomaly = _wrong(ops, groups, faults, exits, op)
            if anomaly is not None:
                found[anomaly, op.index] += len(op.value["messages"])
    return found


def _wrong(
    ops: Sequence[Op],
    groups: Mapping[str, tuple[str, ...]],
    faults: Sequence[FaultFacts],
    exits: Sequence[NodeExit],
    call: Op,
) -> str | None:
    if _is_unknown(ops, groups, call):
        return "unknown_consumer"
    if _is_dead(ops, faults, exits, call):
        return "delivery_after_exit"
    return None if _may_have(ops, call) else "unowned_delivery"


def _is_unknown(ops: Sequence[Op], groups: Mapping[str, tuple[str, ...]], call: Op) -> bool:
    opens = [op for op in ops if op.f == "open"]
    members = [op for op in opens if "expression" in op.value]
    known = {*groups, *(op.value["group"] for op in members)}
    own = {op.value["group"] for op in members if op.process == call.process}
    if known and call.value["group"] not in known:
        return True
    if own:
        return call.value["group"] not in own
    group = call.value["group"]
    with_queues = {
        op.process
        for op in ops
        if op.f == "assign" and op.value["group"] == group and op.value["queues"]
    }
    asked = any(op.value["group"] == group for op in members) or any(
        op.process in with_queues for op in opens
    )
    return asked and not any(op.process == call.process for op in opens)


def _is_dead(
    ops: Sequence[Op], faults: Sequence[FaultFacts], exits: Sequence[NodeExit], call: Op
) -> bool:
    starts = [op for op in ops if op.f == "open" and op.process == call.process]
    if not starts:
        return False
    node, started_ns = starts[-1].node, starts[-1].time_ns
    ends = [
        op.time_ns
        for op in ops
        if op.f == "open" and op.node == node and op.process != call.process
        if op.time_ns > started_ns
    ]
    ends += [
        ended.time_ns + 2 * S
        for ended in exits
        if ended.node == node and ended.time_ns > started_ns
    ]
    for fault in faults:
        slow = {"client_crash": 2 * S, "member_leaves": 10 * S}.get(fault.kind)
        struck_ns = fault.fired_ns if fault.bitten_ns and node in fault.targets else None
        if slow and struck_ns and struck_ns > started_ns:
            ends.append(struck_ns + slow)
    return any(end < call.time_ns for end in ends)


def _ever_had(ops: Sequence[Op], commit: Op, place: list[Any]) -> bool:
    group, topic = commit.value["group"], commit.value["topic"]
    reported = [
        op
        for op in ops
        if op.f == "assign" and (op.value["group"], op.value["topic"]) == (group, topic)
    ]
    return not any(op.value["queues"] for op in reported) or any(
        op.process == commit.process
        and place in op.value["queues"]
        and op.time_ns <= commit.time_ns + S
        for op in reported
    )


def _may_have(ops: Sequence[Op], call: Op) -> bool:
    group, topic = call.value["group"], call.value["topic"]
    reported = [
        op
        for op in ops
        if op.f == "assign" and (op.value["group"], op.value["topic"]) == (group, topic)
    ]
    if not any(op.value["queues"] for op in reported):
        return True
    place = [call.value["broker"], call.value["queue"]]
    own = [op for op in reported if op.process == call.process]
    before = [op for op in own if op.index < call.index]
    had = False
    lost_ns = None
    for op in before:
        has = place in op.value["queues"]
        lost_ns = op.time_ns if had and not has else lost_ns
        had = has
    if had or (lost_ns is not None and call.time_ns - lost_ns <= S):
        return True
    changes = [op for op in own if op.index > call.index and place in op.value["queues"]]
    return bool(changes) and changes[0].time_ns - call.time_ns <= S
