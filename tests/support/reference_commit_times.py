"""A plain implementation of `commit_late`, message by message, for histories of one queue.

At most one fault happens: its broker pauses.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any

from staticfire.checkers.model.history import Op

SECOND_NS = 10**9
BOUND_NS = 8 * SECOND_NS  # the interval of commits, and a request
NEAR_NS = 20 * SECOND_NS  # a rebalance
SETTLED_NS = 6 * SECOND_NS  # two requests
REFRESH_NS = 33 * SECOND_NS  # until members have asked for routes again, and a request
REGISTERED_NS = 50 * SECOND_NS  # until brokers have registered again, and a rebalance

Pause = tuple[int, int]  # start and end


def late(ops: Sequence[Op], pause: Pause | None = None) -> Counter[tuple[Any, ...]]:
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
        due_ns = at_ns + BOUND_NS
        is_late = due_ns < end_ns and not any(it.time_ns <= due_ns for it in commits)
        if is_late and not _excused(ops, op, pause, at_ns, due_ns, REFRESH_NS):
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
            is_left = taken and not any(it.index < lost.index for it in commits)
            if is_left and not _excused(ops, op, pause, end_ns, end_ns, REGISTERED_NS):
                found[key, "gave"] += 1
    return found


def _excused(
    ops: Sequence[Op], given: Op, pause: Pause | None, since_ns: int, until_ns: int, unknown_ns: int
) -> bool:
    """Whether a pause excuses in a part of this time that a member did not commit what an op reports."""
    if pause is None or until_ns < pause[0]:
        return False
    settled_ns = pause[1] + SETTLED_NS
    sent = [it.f == "send" and it.value["key"] == given.value["messages"][0][0] for it in ops]
    is_new = ops[sent.index(True)].time_ns > settled_ns
    has_sent = any(
        it.f == "commit_to" and it.process == given.process and settled_ns < it.time_ns <= since_ns
        for it in ops
    )
    return since_ns <= settled_ns or (
        since_ns <= pause[1] + unknown_ns and not is_new and not has_sent
    )


def _of(ops: Sequence[Op], given: Op, f: str) -> list[Op]:
    """What the same process reported after an op."""
    return [it for it in ops[given.index + 1 :] if it.f == f and it.process == given.process]


def _owned(ops: Sequence[Op], before: Op) -> bool:
    """Whether the process of an op had the queue right before it."""
    said = [it for it in ops[: before.index] if it.f == "assign" and it.process == before.process]
    return bool(said) and bool(said[-1].value["queues"])
