"""Random histories of clients that wait: sends that fail for a while, consumers that start late, retries elsewhere."""

from __future__ import annotations

from random import Random
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.history_builder import HistoryBuilder
from tests.support.history_language import fault

GROUPS = {"g": ("t",), "h": ("t", "u")}
PRODUCERS = {0: "p1", 1: "p1", 2: "p2"}  # process -> node
CONSUMERS = {7: "c1", 8: "c2"}
GAP_MAX_S = 3.0
FACTS: dict[str, Any] = {
    "groups": GROUPS,
    "topics": ("t", "u"),
    "producers": ("p1", "p2"),
    "consumers": ("c1", "c2"),
    "gap_max_s": GAP_MAX_S,
    "replica_sets": {"b": ("n0",)},
}
PAUSES_NS = [1, 1, 10**8, 10**8, 5 * 10**8, 10**9, 4 * 10**9]


class _Run(HistoryBuilder):
    """Ops so far, and what lies where."""

    def __init__(self, random: Random, together: bool) -> None:
        super().__init__(random, [0 if together and ns == 1 else ns for ns in PAUSES_NS])
        self._ends: dict[tuple[str, int], int] = {}
        self._stored: list[tuple[str, str, int, int]] = []
        self._waiting: list[tuple[int, str]] = []

    def op(self, process: int, type: str, f: str, value: dict[str, Any]) -> None:
        self.pause()
        why = ["timeout", "FLUSH_DISK_TIMEOUT"]
        error = self._random.choice(why) if type == "info" else None
        node = {**PRODUCERS, **CONSUMERS, 9: "probe"}[process]
        self.add(process, type, f, value, node=node, error=error)

    def begin(self) -> None:
        """A send that some process begins; most end soon."""
        process = self._random.choice([*PRODUCERS, 9])
        key = f"p{process}-{len(self.ops)}"
        topic = self._random.choice(["t", "t", "u"])
        self.op(process, "invoke", "send", {"key": key, "topic": topic})
        self._waiting.append((process, key))
        if self._random.random() < 0.7:
            self.end()

    def end(self) -> None:
        if not self._waiting:
            return
        process, key = self._waiting.pop(self._random.randrange(len(self._waiting)))
        topic = next(op.value["topic"] for op in self.ops if op.value.get("key") == key)
        ending = self._random.choice(["ok", "ok", "ok", "info", "fail"])
        value: dict[str, Any] = {"key": key, "topic": topic, "attempts": 1}
        if ending == "ok":
            queue = self._random.randrange(2)
            offset = self._ends.get((topic, queue), 0)
            self._ends[topic, queue] = offset + 1
            self._stored.append((key, topic, queue, offset))
            value |= {"broker": "b", "queue": queue, "queue_offset": offset}
            value["physical_offset"] = offset * 100
        self.op(process, ending, "send", value)

    def consume(self) -> None:
        if not self._stored:
            return
        random = self._random
        key, topic, queue, offset = random.choice(self._stored)
        group = random.choice(["g", "h"])
        if random.random() < 0.3:
            topic, queue, offset = f"%RETRY%{group}", 0, random.randrange(5)
        value = {"group": group, "topic": topic, "broker": "b", "queue": queue}
        value["messages"] = [[key, offset, offset * 100, True, 0]]
        self.op(
            random.choice(list(CONSUMERS)), random.choice(["ok", "ok", "info"]), "consume", value
        )

    def assign(self) -> None:
        queues = [["b", number] for number in range(self._random.randrange(3))]
        value = {"group": self._random.choice(["g", "h"]), "topic": "t", "queues": queues}
        self.op(self._random.choice(list(CONSUMERS)), "ok", "assign", value)


def gap_history(seed: int, *, together: bool = False) -> tuple[list[Op], tuple[FaultFacts, ...]]:
    """Ops, and the crashes of clients that were planned; `together`: some ops happen at the same time."""
    random = Random(seed)
    run = _Run(random, together)
    for process in (0, 2, 7, 8):
        if random.random() < 0.9:
            run.op(process, "ok", "open", {})
    steps = (run.begin, run.begin, run.begin, run.end, run.consume, run.consume, run.assign)
    for _ in range(random.randrange(5, 60)):
        random.choice(steps)()
    return run.ops, tuple(_crashes(random, run.ops[-1].time_ns / 1e9 if run.ops else 1.0))


def _crashes(random: Random, end_s: float) -> list[FaultFacts]:
    found = []
    for _ in range(random.randrange(3)):
        at_s = round(random.uniform(0, end_s), 3)
        healed_s = random.choice([None, round(at_s + random.uniform(0, end_s / 3), 3)])
        node = random.choice(["p1", "p2", "c1"])
        found.append(fault("client_crash", node, at_s=at_s, healed_s=healed_s))
    return found
