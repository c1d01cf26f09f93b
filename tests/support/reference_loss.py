"""Reference for lost and unseen messages, in plain Python over ops and without any fault that excuses."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from staticfire.checkers.model.history import Op
from tests.support.reference_checkers import Send, deliveries_of, sends_of


def loss(ops: Sequence[Op], groups: dict[str, tuple[str, ...]]) -> set[tuple[str, str, str | None]]:
    """(lost | unseen, key, group or None)."""
    deliveries = deliveries_of(ops)
    found: set[tuple[str, str, str | None]] = set()
    for send in stored_sends(ops):
        passed = {
            g for g, topics in groups.items() if send.topic in topics and _passed(ops, g, send)
        }
        of_message = [delivery for delivery in deliveries if delivery.key == send.key]
        if not of_message and passed:
            found.add(("lost", send.key, None))
        elif of_message:
            consumed = {delivery.group for delivery in of_message if delivery.consumed}
            found.update(("unseen", send.key, group) for group in passed - consumed)
    return found


def stored_sends(ops: Sequence[Op]) -> list[Send]:
    """Sends that were acknowledged, and those whose message was delivered all the same, as if acknowledged by then."""
    found = []
    deliveries = deliveries_of(ops)
    for send in sends_of(ops):
        proofs = (
            given
            for given in deliveries
            if given.key == send.key and given.body_ok and given.queue[0] == send.topic
        )
        if send.outcome == "ok":
            found.append(send)
        elif send.outcome != "failed" and (first := next(proofs, None)):
            found.append(replace(send, queue=first.queue, offset=first.offset, ended=first.began))
    return found


def _passed(ops: Sequence[Op], group: str, send: Send) -> bool:
    drains = [
        op
        for op in ops
        if op.f == "drain" and op.type in ("ok", "info")
        if (op.value["group"], op.value["topic"]) == (group, send.topic)
    ]
    if not drains or drains[-1].index < send.ended:
        return False
    assert send.queue is not None
    for broker, number, low, end, committed in drains[-1].value["queues"]:
        if (broker, number) == send.queue[1:]:
            return bool(send.offset >= low and (send.offset < committed or send.offset >= end))
    return drains[-1].type == "ok"
