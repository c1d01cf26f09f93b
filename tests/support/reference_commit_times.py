"""A plain implementation of `commit_late`, message by message, for histories of one queue without faults."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from staticfire.checkers.model.history import Op

BOUND_NS = 8 * 10**9  # the interval of commits, and a request
NEAR_NS = 20 * 10**9  # a rebalance


def late(ops: Sequence[Op]) -> Counter[tuple[Any, ...]]:
    """(key, reason) of each message that its member finished and did not commit in time.

    All ops are of one group and one queue.
    """
    found: Counter[tuple[Any, ...]] = Counter()
    watched_ns = max((op.time_ns for op in ops if op.f in ("assign", "drain")), default=0)
    if not any(op.f == "commit_to" for op in ops):
        return found
    for op in ops:
        if op.f != "consume" or op.type != "ok" or not _owned(ops, op):
            continue
        key, at_ns = op.value["messages"][0][0], op.time_ns
        lost = next((it for it in _of(ops, op, "assign") if not it.value["queues"]), None)
        end_ns = watched_ns if lost is None else lost.time_ns
        commits = _of(ops, op, "commit")
        if at_ns > end_ns:
            continue
        if at_ns + BOUND_NS < end_ns and not any(it.time_ns <= at_ns + BOUND_NS for it in commits):
            found[key, "for 8"] += 1
        elif lost is not None:
            taken = any(
                it.f == "assign"
                and it.process != op.process
                and it.value["queues"]
                and abs(it.time_ns - lost.time_ns) < NEAR_NS
                and not _owned(ops, it)
                for it in ops
            )
            if taken and not any(it.index < lost.index for it in commits):
                found[key, "gave"] += 1
    return found


def _of(ops: Sequence[Op], given: Op, f: str) -> list[Op]:
    """What the same process reported after an op."""
    return [it for it in ops[given.index + 1 :] if it.f == f and it.process == given.process]


def _owned(ops: Sequence[Op], before: Op) -> bool:
    """Whether the process of an op had the queue right before it."""
    said = [it for it in ops[: before.index] if it.f == "assign" and it.process == before.process]
    return bool(said) and bool(said[-1].value["queues"])
