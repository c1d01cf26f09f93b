"""Random histories of members that come, die, have queues, and are given messages that are not for them."""

from __future__ import annotations

from random import Random
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.model.history import Op
from tests.support.history_language import fault

NODES = ("c1", "c2", "c3")
HALF_S = 500_000_000


def ownership_history(
    random: Random, steps: int
) -> tuple[list[Op], tuple[FaultFacts, ...], tuple[NodeExit, ...]]:
    """Ops at times of half seconds, no two at one time; only in some histories members say what they subscribe to."""
    ops: list[Op] = []
    faults: list[FaultFacts] = []
    exits: list[NodeExit] = []
    process_of: dict[str, int] = {}
    subscribes = random.random() < 0.7
    now = 1

    def op(process: int, f: str, value: dict[str, Any], node: str | None = None) -> None:
        ops.append(
            Op(
                index=len(ops),
                time_ns=now * HALF_S,
                process=process,
                type="ok",
                f=f,
                value=value,
                node=node,
            )
        )

    def of_group() -> dict[str, Any]:
        group = random.choice(["g", "g", "g", "h", "x"] if random.random() < 0.2 else ["g"])
        return {"group": group, "topic": random.choice(["t", "t", "u", f"%DLQ%{group}"])}

    for _ in range(steps):
        now += random.choice([1, 1, 2, 3, 9])
        node = random.choice(NODES)
        process = process_of.get(node, 7)
        what = random.choice(["open", "assign", "assign", "consume", "consume", "consume", "end"])
        if what == "open" or (what != "consume" and node not in process_of):
            process_of[node] = len(ops) + 10
            reported = {"group": "g", "topic": "t", "expression": "*"} if subscribes else {}
            op(process_of[node], "open", reported, node)
        elif what == "assign":
            queues = [["b", queue] for queue in range(2) if random.random() < 0.6]
            op(process, "assign", {**of_group(), "queues": queues})
        elif what == "consume":
            of_any_process = [*process_of.values(), *(op.process for op in ops[-9:]), process]
            first = random.randrange(9)
            messages = [
                [f"p0-{first + n}", first + n, n, True, 0] for n in range(random.choice([1, 3]))
            ]
            place = {"broker": "b", "queue": random.randrange(2), "messages": messages}
            op(random.choice(of_any_process), "consume", {**of_group(), **place})
        elif random.random() < 0.5:
            kind = random.choice(["client_crash", "member_leaves", "pause"])
            bitten = random.random() < 0.8
            faults.append(fault(kind, node, at_s=now / 2, healed_s=now / 2 + 3, bitten=bitten))
        else:
            exits.append(NodeExit(node=node, time_ns=now * HALF_S, error="status 1"))
    return ops, tuple(faults), tuple(exits)
