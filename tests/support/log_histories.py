"""Random histories of two brokers, one of which loses power, and messages: the last ones, or some out of the middle."""

from __future__ import annotations

from random import Random
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.history_language import fault

GROUPS = {"g": ("t",), "h": ("t", "u")}
FACTS: dict[str, Any] = {
    "flush": "async",
    "groups": GROUPS,
    "topics": ("t", "u"),
    "replica_sets": {"b": ("n0",), "c": ("n1",)},
}


def log_history(seed: int) -> tuple[list[Op], list[dict[str, Any]], FaultFacts]:
    """Ops a millisecond apart, what was observed of a recovery, and the power cut of broker b."""
    random = Random(seed)
    ops: list[Op] = []
    ends: dict[tuple[str, str, int], int] = {}
    sent: list[dict[str, Any]] = []

    def op(kind: Any, f: str, value: dict[str, Any]) -> None:
        at_ns = len(ops) * 1_000_000
        ops.append(Op(index=len(ops), time_ns=at_ns, process=0, type=kind, f=f, value=value))

    for number in range(random.randrange(2, 20)):
        queue = random.choice("tu"), random.choice("bbc"), random.randrange(2)
        value: dict[str, Any] = {"key": f"p0-{number}", "topic": queue[0], "attempts": 1}
        op("invoke", "send", dict(value))
        value |= {"broker": queue[1], "queue": queue[2], "queue_offset": ends.get(queue, 0)}
        if random.random() < 0.9:
            value["physical_offset"] = number * 100
        if random.random() < 0.8:  # else the next one gets the same place
            ends[queue] = ends.get(queue, 0) + 1
        op(random.choice(["ok", "ok", "ok", "info"]), "send", value)
        sent.append(value)
    cut = fault("power_cut", "n0", at_s=random.randrange(len(ops)) / 1000, healed_s=1.0)
    for value in sent:
        for group in ("g", "h"):
            if value["topic"] in GROUPS[group] and random.random() < 0.6:
                event = [value["key"], value["queue_offset"], 0, True, 0]
                place = {name: value[name] for name in ("topic", "broker", "queue")}
                op("ok", "consume", {**place, "group": group, "messages": [event]})
    for group, topics in GROUPS.items():
        for topic in topics:
            queues = [
                [broker, queue, 0, end, max(end - random.choice([0, 0, 1]), 0)]
                for (of, broker, queue), end in sorted(ends.items())
                if of == topic
            ]
            kind = "ok" if all(end == done for *_, end, done in queues) else "info"
            op(kind, "drain", {"group": group, "topic": topic, "queues": queues, "lag": 0})
    seen = {"kind": "recovery", "node": "n0", "time_ns": len(ops) * 1_000_000}
    seen["end_offset"] = random.randrange(20) * 100
    return ops, [seen] if random.random() < 0.3 else [], cut
