"""Random histories of groups: members come, die and share queues badly; what they ask for; answers to requests.

All times are whole seconds, and no two ops happen in the same one.
"""

from __future__ import annotations

from dataclasses import replace
from random import Random
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, QueuesConfirmed
from staticfire.checkers.model.history import Op, OpType
from tests.support.history_language import fault

GROUPS = {"g": ("t",), "h": ("t", "u"), "all": ("u",)}
FACTS: dict[str, Any] = {
    "groups": GROUPS,
    "topics": ("t", "u"),
    "orderly": ("h",),
    "broadcasting": ("all",),
    "replica_sets": {"b": ("n0",)},
}
WISHES: tuple[dict[str, Any], ...] = (
    {},
    {},
    {"expression": "*"},
    {"expression": "*"},
    {"expression": "red", "orderly": True},
)
WHAT = (
    *("open", "assign", "assign", "send", "answer", "consume", "fault"),
    *("request", "reply", "give up"),
)
NS_PER_S = 10**9


def group_history(seed: int) -> tuple[list[Op], tuple[FaultFacts, ...]]:
    """Ops, ended by a drain, and the faults meanwhile."""
    random = Random(seed)
    ops: list[Op] = []
    living: dict[str, int] = {}  # node -> process
    faults: list[FaultFacts] = []
    now_s = 0

    def op(
        process: int,
        f: str,
        value: dict[str, Any],
        node: str | None = None,
        type: OpType = "ok",
    ) -> None:
        at_ns = now_s * NS_PER_S
        ops.append(
            Op(
                index=len(ops),
                time_ns=at_ns,
                process=process,
                type=type,
                f=f,
                value=value,
                node=node,
            )
        )

    def of_group() -> dict[str, Any]:
        group = random.choice(sorted(GROUPS))
        return {"group": group, "topic": random.choice(GROUPS[group])}

    def properties() -> dict[str, Any]:
        return random.choice([{}, {"properties": 0}, {"properties": 77}])

    keys = [f"p0-{number}" for number in range(6)]
    unsent = list(keys)
    waiting: list[dict[str, Any]] = []  # requests without an end
    for number in range(random.randrange(4, 30)):
        now_s += random.choice([1, 1, 5, 20, 45])
        node = random.choice(["c1", "c2", "c3"])
        what = random.choice(WHAT)
        if what == "open" or (what == "assign" and node not in living):
            living[node] = 10 + number
            op(living[node], "open", {**of_group(), **random.choice(WISHES)}, node)
        elif what == "assign":
            queues = [["b", queue] for queue in range(2) if random.random() < 0.6]
            op(living[node], "assign", {**of_group(), "queues": queues})
        elif what == "send" and unsent:
            place = {"broker": "b", "queue": random.randrange(2), "queue_offset": number}
            topic = random.choice(["t", "u"])
            op(0, "send", {"key": unsent.pop(), "topic": topic, **place, "physical_offset": number})
        elif what == "answer":
            asked = random.choice(keys)
            reply = asked if random.random() < 0.7 else random.choice(keys)
            op(0, "answer", {"key": asked, "reply": reply, **properties()})
        elif what == "request" and unsent:
            value = {"key": unsent.pop(), "topic": "t", "size": 9}
            op(0, "send", value, type="invoke")
            waiting.append(value)
        elif what == "reply" and (waiting or unsent != keys):
            asked = random.choice(waiting)["key"] if waiting else keys[-1]
            ended: OpType = "ok" if random.random() < 0.7 else "info"
            value = {"key": asked, "topic": "t", "group": "g", **properties()}
            op(11, "reply", value, type=ended)
        elif what == "give up" and waiting:
            place = {"broker": "b", "queue": 0, "queue_offset": number, "physical_offset": number}
            stored = place if random.random() < 0.5 else {}
            op(0, "send", {**waiting.pop(0), **stored}, type="info")
        elif what == "consume":
            event = [random.choice(keys), number, number, True, 0]
            op(9, "consume", {**of_group(), "broker": "b", "queue": 0, "messages": [event]})
        elif what == "fault" and random.random() < 0.4:
            living.pop(node, None)
            healed_s = now_s + random.choice([1, 10])
            kind = random.choice(["client_crash", "kill"])
            faults.append(fault(kind, node, at_s=now_s, healed_s=healed_s))
    if random.random() < 0.2:
        faults.append(_confirmed(random, now_s))
    now_s += random.choice([1, 40, 100])
    op(9, "drain", {"group": "g", "topic": "t", "queues": [], "lag": 0})
    return ops, tuple(faults)


def _confirmed(random: Random, now_s: int) -> FaultFacts:
    """The leader has confirmed queues to an operator, who does nothing else."""
    at_s = random.randrange(now_s + 1)
    one = QueuesConfirmed(
        topic=random.choice("tu"),
        stream="b",
        queues=random.choice([1, 2, 3]),
        answered_ns=at_s * NS_PER_S,
    )
    asked = fault("topic_change", "op", at_s=at_s, healed_s=at_s + 1)
    return replace(asked, affects=(), confirmed=(one,))
