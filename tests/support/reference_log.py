"""Holes in a log of which only a suffix may be lost, in plain Python over ops; no code shared with the kernel."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Send, deliveries_of, sends_of
from tests.support.reference_semantics import Groups, has_passed


def log_holes(
    ops: Sequence[Op],
    observations: Sequence[Mapping[str, Any]],
    groups: Groups,
    broker: str,
    cut: FaultFacts,
) -> set[str]:
    """Keys of acknowledged messages that the one power cut of `broker` took although its log reached beyond them."""
    copies = [
        send
        for send in sends_of(ops)
        if send.outcome == "ok" and send.queue is not None and send.queue[1] == broker
        if "physical_offset" in ops[send.ended].value
    ]
    got = {given.key for given in deliveries_of(ops) if given.queue[1] == broker}
    missing = [
        send
        for send in copies
        if send.key not in got
        if any(
            send.topic in topics and has_passed(ops, group, send)
            for group, topics in groups.items()
        )
    ]
    assert cut.fired_ns is not None
    before = [
        send
        for send in copies
        if ops[send.ended].time_ns < cut.fired_ns and send not in missing and _is_there(ops, send)
    ]
    reached = max((_physical(ops, send) + 1 for send in before), default=0)
    if observations:
        reached = min(seen["end_offset"] for seen in observations)
    return {
        send.key
        for send in missing
        if ops[send.began].time_ns <= cut.fired_ns and _physical(ops, send) + 1 <= reached
        if observations or _physical(ops, send) + 1 < reached
    }


def _physical(ops: Sequence[Op], send: Send) -> int:
    offset: int = ops[send.ended].value["physical_offset"]
    return offset


def _is_there(ops: Sequence[Op], send: Send) -> bool:
    """Whether its queue was read to an end beyond it, and no member saw another message at its offset."""
    beyond = any(
        (op.value["topic"], queue[0], queue[1]) == send.queue and send.offset < queue[3]
        for op in ops
        if op.f == "drain" and op.type == "ok"
        for queue in op.value["queues"]
    )
    seen = [
        other.key
        for other in sends_of(ops)
        if (other.queue, other.offset) == (send.queue, send.offset)
    ]
    seen += [
        given.key or ""
        for given in deliveries_of(ops)
        if (given.queue, given.offset) == (send.queue, send.offset)
    ]
    return beyond and set(seen) == {send.key}
