"""Random histories of members that forward, mostly as they should: calls, copies, and reports of copies."""

from __future__ import annotations

from random import Random
from typing import Any

from staticfire.checkers.model.history import Op
from tests.support.history_builder import HistoryBuilder

FACTS: dict[str, Any] = {
    "groups": {"g": ("t",)},
    "topics": ("t",),
    "forwarders": ("c1", "c2"),
    "replica_sets": {"b": ("n0",)},
}
NODES = {7: "c1", 8: "c2", 9: "c3"}  # the last one does not forward


class _Run(HistoryBuilder):
    """Ops so far, and how many copies each process has sent."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, [10**6, 10**9])
        self._copies: dict[int, int] = {}
        self._ends = 0

    def op(self, process: int, type: str, f: str, value: dict[str, Any]) -> None:
        self.pause()
        error = "so it ended" if type in ("fail", "info") else None
        self.add(process, type, f, value, node=NODES.get(process), error=error)

    def send(self, process: int, key: str, place: dict[str, Any]) -> None:
        ended = self._random.choice(["ok"] * 9 + ["info", "fail"])
        self._ends += 1
        where = {**place, "queue_offset": self._ends, "physical_offset": 100 * self._ends}
        self.op(process, "invoke", "send", {"key": key, "topic": place["topic"]})
        if ended == "fail" or (ended == "info" and self._random.random() < 0.5):
            where = {"topic": place["topic"]}
        self.op(process, ended, "send", {"key": key, **where})

    def call(self) -> None:
        """A listener is given some messages, and sends them on, or not all of them, or too late."""
        random = self._random
        process, place = random.choice([7, 7, 8, 9]), _place(random)
        first = random.randrange(6)
        offsets = [*range(first, first + random.choice([1, 2, 3]))]
        messages = [[f"p0-{offset}", offset, 100 * offset, True, 0] for offset in offsets]
        value = {"group": "g", **place, "messages": messages}
        if random.random() < 0.9:
            self.op(process, "invoke", "consume", value)
        if process != 9 or random.random() < 0.1:
            self.forward(process, place, offsets)
        end = random.choice(["ok", "ok", "ok", "info", None])
        if end is not None:
            self.op(process, end, "consume", value)
        if random.random() < 0.1:
            self.forward(process, place, offsets)

    def forward(self, process: int, place: dict[str, Any], offsets: list[int]) -> None:
        random = self._random
        reported = list(offsets)
        mistake = random.choice(["none"] * 12 + ["left out", "made up", "elsewhere", "unsent"])
        if mistake == "left out":
            reported.pop(random.randrange(len(reported)))
        elif mistake == "made up":
            reported.append(random.randrange(12))
        elif mistake == "elsewhere":
            place = _place(random) | {"queue": random.randrange(4)}
        number = self._copies.get(process, 0)
        self._copies[process] = number + len(reported)
        for at in range(len(reported) - (mistake == "unsent")):
            self.send(
                process, f"p{process}-{number + at}", {"topic": "w", "broker": "b", "queue": 0}
            )
        if reported:
            value = {"group": "g", **place, "key": f"p{process}-{number}"}
            type = random.choice(["ok"] * 9 + ["info"])
            self.op(process, type, "forward", {**value, "originals": _ranges(reported)})


def _place(random: Random) -> dict[str, Any]:
    topic, queue = random.choice([("t", 0), ("t", 0), ("t", 1), ("u", 0)])
    return {"topic": topic, "broker": "b", "queue": queue}


def _ranges(offsets: list[int]) -> list[list[int]]:
    found: list[list[int]] = []
    for offset in offsets:
        if found and offset == sum(found[-1]):
            found[-1][1] += 1
        else:
            found.append([offset, 1])
    return found


def forwarding_history(seed: int) -> list[Op]:
    run = _Run(Random(seed))
    for process in NODES:
        run.op(process, "ok", "open", {"group": "g", "topic": "t"})
    for _ in range(Random(seed + 1).randrange(1, 9)):
        run.call()
    return run.ops
