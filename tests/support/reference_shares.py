"""Reference for even shares of queues, in plain Python: second by second, over ops of whole seconds."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op

S = 10**9
FORGOTTEN_S = 120  # how long after a fault there is no rest


def uneven_shares(
    ops: Sequence[Op], facts: Mapping[str, Any], faults: Sequence[FaultFacts]
) -> set[tuple[str, str]]:
    """Groups and topics of which a living member had two queues more than another one for more than 23 s of rest."""
    return {
        (group, topic)
        for group in facts["evenly"]
        for topic in facts["groups"][group]
        if _is_uneven(
            [op for op in ops if op.value.get("group") == group],
            topic,
            23 + (60 if group in facts["orderly"] else 0),
            faults,
        )
    }


def _is_uneven(ops: Sequence[Op], topic: str, bound_s: int, faults: Sequence[FaultFacts]) -> bool:
    opens = {op.process: op for op in ops if op.f == "open"}
    if len(opens) < 2 or {op.value["topic"] for op in opens.values()} != {topic}:
        return False
    if any(op.f == "assign" and op.value["queues"] and op.process not in opens for op in ops):
        return False
    had: dict[int, int] = {}
    node_of: dict[str | None, int] = {}
    seconds: list[dict[int, int]] = []
    for second in range(ops[-1].time_ns // S):
        for op in (op for op in ops if op.time_ns == second * S):
            if op.f == "open":
                had.pop(node_of.get(op.node, -1), None)
                node_of[op.node] = op.process
                had[op.process] = 0
            elif op.f == "assign" and op.process in had:
                had[op.process] = len(op.value["queues"])
        seconds.append(dict(had))
    last = {process: at for at, of in enumerate(seconds) for process in of if of[process]}
    lasted_s = 0
    for second, of in enumerate(seconds):
        if any(op.f == "open" and op.time_ns == second * S for op in ops):
            lasted_s = 0
        counts = [of[process] for process in of if second <= last.get(process, -1)]
        is_uneven = bool(counts) and max(counts) - min(counts) >= 2
        lasted_s = lasted_s + 1 if is_uneven and _is_rest(second, faults) else 0
        if lasted_s > bound_s:
            return True
    return False


def _is_rest(second: int, faults: Sequence[FaultFacts]) -> bool:
    return not any(
        fault.fired_ns <= second * S < fault.healed_ns + FORGOTTEN_S * S
        for fault in faults
        if fault.fired_ns is not None and fault.healed_ns is not None
    )
