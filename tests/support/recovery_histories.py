"""Random histories of a run after its faults: two brokers that die and come back, and what groups are given late.

Some messages are kept back, filtered or never delivered; what lies where is never doubted.
"""

from __future__ import annotations

from random import Random
from typing import Any, NamedTuple

from staticfire.checkers.guarantees.facts import FaultFacts
from staticfire.checkers.model.history import Op
from tests.support.history_language import fault

GROUPS = {"g": ("t",), "h": ("t", "u")}
TAGS = ("Aa", "BB", "red")  # the first two have the same hash
FACTS: dict[str, Any] = {
    "groups": GROUPS,
    "topics": ("t", "u"),
    "orderly": ("g",),
    "wanted_tags": {"h": ("Aa",)},
    "replica_sets": {"b": ("n0",), "c": ("n1", "n2")},
}
PAUSES_S = [0.001, 0.001, 0.1, 1, 40, 40]
TARGETS = ("n0", "n0", "n1", "n2", "b", "c1")


class Recovered(NamedTuple):
    """What a run left behind."""

    ops: list[Op]
    faults: tuple[FaultFacts, ...]
    observations: list[dict[str, Any]]


class _Run:
    """Ops so far, what lies where, and calls that have not ended."""

    def __init__(self, random: Random) -> None:
        self.ops: list[Op] = []
        self.now_ns = 0
        self._random = random
        self._ends: dict[tuple[Any, ...], int] = {}
        self._logs = {"b": 0, "c": 0}
        self._stored: list[dict[str, Any]] = []
        self._open: list[tuple[int, dict[str, Any]]] = []

    def op(self, process: int, type: str, f: str, value: dict[str, Any]) -> None:
        self.now_ns += round(self._random.choice(PAUSES_S) * 1e9)
        self.ops.append(
            Op(
                index=len(self.ops),
                time_ns=self.now_ns,
                process=process,
                type=type,  # type: ignore[arg-type]  # one of the four
                f=f,
                value=value,
            )
        )

    def send(self) -> None:
        random = self._random
        topic, broker, queue = random.choice("ttu"), random.choice("bbc"), random.randrange(2)
        value: dict[str, Any] = {"key": f"p0-{len(self.ops)}", "topic": topic}
        value["attempts"] = random.choice([1, 1, 2])
        if random.random() < 0.4:
            value["sharding_key"] = random.choice(["s0", "s0", "s1"])
        if random.random() < 0.5:
            value["tag"] = random.choice(TAGS)
        is_kept_back = random.random() < 0.2
        if is_kept_back:
            value["delay_ms"] = random.choice([10, 2000, 50_000])
        self.op(0, "invoke", "send", dict(value))
        offset = self._ends.setdefault((topic, broker, queue), 0)
        self._ends[topic, broker, queue] += 1
        place = {"broker": broker, "queue": queue, "queue_offset": offset}
        place["physical_offset"] = self._logs[broker]
        self._logs[broker] += 100
        self._stored.append(value | place)
        if is_kept_back:
            place |= {"queue_offset": -1, "physical_offset": -1}
        end = random.choice(["ok", "ok", "ok", "info", "fail"])
        self.op(0, end, "send", value if end == "fail" else value | place)

    def consume(self) -> None:
        if not self._stored:
            return
        random = self._random
        stored = random.choice(self._stored)
        place = {name: stored[name] for name in ("topic", "broker", "queue")}
        group = random.choice("gh") if stored["topic"] == "t" else "h"
        lies_at = stored["physical_offset"] + random.choice([0, 0, 0, 100])
        event = [stored["key"], stored["queue_offset"], lies_at, True, random.choice([0, 0, 1])]
        process = random.choice([10, 11])
        value = {**place, "group": group, "messages": [event]}
        self.op(process, "invoke", "consume", value)
        self._open.append((process, value))
        if random.random() < 0.6:
            self.finish()

    def finish(self) -> None:
        if self._open:
            process, value = self._open.pop(self._random.randrange(len(self._open)))
            self.op(process, self._random.choice(["ok", "ok", "info"]), "consume", value)

    def assign(self) -> None:
        queues = [["b", queue] for queue in range(2) if self._random.random() < 0.5]
        value = {"group": self._random.choice("gh"), "topic": "t", "queues": queues}
        self.op(self._random.choice([10, 11]), "ok", "assign", value)


def recovery_history(seed: int) -> Recovered:
    """Faults strike at the times of ops, or near them."""
    random = Random(seed)
    run = _Run(random)
    for _ in range(random.randrange(3, 60)):
        random.choice([run.send, run.send, run.consume, run.consume, run.finish, run.assign])()
    times_ns = [op.time_ns for op in run.ops] or [0]
    faults = []
    for number in range(random.randrange(4)):
        at_s = random.choice(times_ns) / 1e9
        healed_s = random.choice([None, at_s, random.choice(times_ns) / 1e9, at_s + 5])
        bitten = random.random() < 0.8
        struck = random.sample(TARGETS, random.choice([1, 1, 2]))
        kind = f"kill_{number}"
        faults.append(fault(kind, *struck, at_s=at_s, healed_s=healed_s, bitten=bitten))
    seen = [
        {
            "kind": "recovery",
            "node": random.choice(["n0", "n0", "n0", "n1"]),
            "time_ns": random.choice(times_ns),
            "end_offset": 100 * random.choice([0, 0, 1, 2, 5]),
        }
        for _ in range(random.randrange(3))
    ]
    return Recovered(run.ops, tuple(faults), seen)
