"""Sharding keys that changed their queue, and messages that overtook others of their key as a result.

Source: MessageQueueSelector of RocketMQ: the queue of a key is its hash modulo the number of queues, which changes when
queues are added. Order is kept within a queue only, and two queues are consumed independently of each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from staticfire.checkers.guarantees.verdict import seconds
from staticfire.checkers.model.history import Op
from staticfire.checkers.op_kinds.values import SendValue
from staticfire.harness.diagnoses.new_deliveries import first_deliveries
from staticfire.harness.results.run_result import RunResult

Queue = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Sent:
    """An acknowledged message with a sharding key."""

    key: str
    sharding_key: str
    queue: Queue
    acked_ns: int


@dataclass(frozen=True, slots=True)
class Overtaking:
    """`later` was consumed before `earlier`, which had been acknowledged before `later` was."""

    earlier: Sent
    later: Sent
    at_ns: int


def moved_keys(result: RunResult) -> list[str]:
    """Return a paragraph if keys of ordered messages have changed their queue."""
    by_key = _by_sharding_key(result.ops)
    moves = {key: _move(sent) for key, sent in by_key.items()}
    moved = {key: move for key, move in moves.items() if move is not None}
    if not moved:
        return []
    first_key, (before, after) = min(moved.items(), key=lambda item: item[1][1].acked_ns)
    overtakings = _overtakings(by_key, moved, first_deliveries(result.ops))
    text = (
        f"{len(moved)} of {len(by_key)} sharding keys changed their queue, the first at t={seconds(after.acked_ns)} "
        f"({first_key}: {_queue(before)} to {_queue(after)}){_cause(result)}. "
    )
    return [text + _consequence(overtakings)]


def _consequence(overtakings: Sequence[Overtaking]) -> str:
    if not overtakings:
        return (
            "No message overtook another one of its key this time: the old queues were empty when the keys moved. To "
            "be sure, stop the producers and let consumers finish before queues are added."
        )
    worst = overtakings[0]
    return (
        f"{len(overtakings)} messages overtook an earlier one of their key, {worst.later.key} in {_queue(worst.later)} "
        f"first: it was consumed at t={seconds(worst.at_ns)}, before {worst.earlier.key} in {_queue(worst.earlier)}. "
        "Order holds within one queue only: stop the producers and let consumers finish before queues are added, or "
        "fix the queues of the topic by an order configuration."
    )


def _cause(result: RunResult) -> str:
    changes = [
        record
        for record in result.faults
        if record.planned.kind == "topic-change" and record.fired_ns is not None
    ]
    if not changes:
        return ""
    fired_ns, count = changes[0].fired_ns, changes[0].planned.params["queues"]
    assert fired_ns is not None
    return f", as the topic got {count} queues a broker at t={seconds(fired_ns)} instead of {result.campaign.queues}"


def _by_sharding_key(ops: Sequence[Op]) -> dict[str, list[Sent]]:
    found: dict[str, list[Sent]] = {}
    for op in ops:
        if op.f == "send" and op.type == "ok" and "sharding_key" in op.value:
            value: SendValue = op.value
            queue = (value["broker"], value["queue"])
            sent = Sent(value["key"], value["sharding_key"], queue, op.time_ns)
            found.setdefault(sent.sharding_key, []).append(sent)
    return found


def _move(sent: Sequence[Sent]) -> tuple[Sent, Sent] | None:
    """Return the last message in the first queue of a key, and the first one in another queue."""
    for before, after in pairwise(sent):
        if after.queue != before.queue:
            return before, after
    return None


def _overtakings(
    by_key: dict[str, list[Sent]],
    moved: dict[str, tuple[Sent, Sent]],
    consumed_ns: dict[str, int],
) -> list[Overtaking]:
    """Return messages of moved keys that were consumed before an earlier acknowledged message of another queue."""
    found = []
    for sharding_key in moved:
        known = [sent for sent in by_key[sharding_key] if sent.key in consumed_ns]
        latest: Sent | None = None  # the earlier message that was consumed last
        for sent in known:
            at_ns = consumed_ns[sent.key]
            if latest is not None and at_ns < consumed_ns[latest.key]:
                if latest.queue != sent.queue:
                    found.append(Overtaking(latest, sent, at_ns))
            else:
                latest = sent
    return sorted(found, key=lambda one: (one.at_ns, one.later.key))


def _queue(sent: Sent) -> str:
    return f"queue {sent.queue[1]} of {sent.queue[0]}"
