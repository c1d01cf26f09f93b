"""Random histories of every semantics, in which much goes wrong: messages with tags, sharding keys, delays and
transactions, groups with retries, dead letters, orderly and broadcasting ones, and times from milliseconds to hours.
"""

from __future__ import annotations

from random import Random
from typing import Any

from staticfire.checkers.model.history import Op
from tests.support.history_builder import HistoryBuilder

GROUPS = {"g": ("t",), "h": ("t", "u"), "all": ("t",)}
TAGS, SHARDS = ["red", "blue"], ["s0", "s1"]
LEVELS_MS = (10, 50, 1000, 5000)
RETRIES_MAX, CHECK_AFTER_S, CHECK_MAX, CHECK_EVERY_S = 2, 5.0, 2, 1.0
FACTS: dict[str, Any] = {
    "groups": GROUPS,
    "topics": ("t", "u"),
    "wanted_tags": {"h": ("red",)},
    "orderly": ("g",),
    "broadcasting": ("all",),
    "retries_max": {"g": RETRIES_MAX},
    "delay_levels_ms": LEVELS_MS,
    "check_after_s": CHECK_AFTER_S,
    "check_max": CHECK_MAX,
    "check_every_s": CHECK_EVERY_S,
}
PAUSES_NS = [10**6, 10**6, 10**6, 2 * 10**7, 10**9, 20 * 10**9, 950 * 10**9]


class _Run(HistoryBuilder):
    """Ops so far, and what may be said about them next."""

    def __init__(self, random: Random) -> None:
        super().__init__(random, PAUSES_NS)
        self._sent: list[str] = []
        self._ends: dict[tuple[str, int], int] = {}
        self._open: list[tuple[int, str, dict[str, Any]]] = []

    def op(self, process: int, type: str, f: str, value: dict[str, Any], node: Any = None) -> None:
        self.pause()
        error = "so it ended" if type in ("fail", "info") else None
        self.add(process, type, f, value, node=node, error=error)

    def send(self) -> None:
        random = self._random
        key, topic = f"p0-{len(self._sent)}", random.choice(["t", "t", "u"])
        self._sent.append(key)
        value: dict[str, Any] = {"key": key, "topic": topic, "attempts": 1}
        kind = random.choice(["plain", "plain", "tag", "shard", "delay", "transaction"])
        if kind == "tag":
            value["tag"] = random.choice(TAGS)
        elif kind == "shard":
            value["sharding_key"] = random.choice(SHARDS)
        elif kind == "delay":
            value["delay_ms"] = random.choice([1, 1000, 60_000])
        elif kind == "transaction":
            value["transaction"] = random.choice(["commit", "rollback", "unknown"])
            if len(self._sent) % 3 == 0:
                value["check_after_s"] = (0, 2, 20)[len(self._sent) // 3 % 3]
        ends = (
            ["info", "info", "info", "ok", "ok", "fail"]
            if kind == "transaction"
            else ["ok", "ok", "ok", "info", "fail"]
        )
        process, end = random.randrange(2), random.choice(ends)
        self.op(process, "invoke", "send", dict(value))
        if end != "fail":
            queue = random.randrange(2)
            offset = self._ends.get((topic, queue), 0)
            kept_back = kind in ("delay", "transaction")
            self._ends[topic, queue] = offset + (not kept_back)
            value |= {"broker": "b", "queue": queue, "physical_offset": offset * 100}
            value["queue_offset"] = -1 if kept_back else offset
            if kind == "transaction" and random.random() < 0.3:
                value["end_sent"] = random.random() < 0.5
        self.op(process, end, "send", value)

    def consume(self) -> None:
        random = self._random
        group = random.choice(["g", "g", "g", "h", "all"])
        retry = group == "g" and random.random() < 0.4
        topic = random.choice(["%RETRY%g", "%RETRY%g", "%DLQ%g"]) if retry else "t"
        value: dict[str, Any] = {
            "group": group,
            "topic": topic,
            "broker": "other" if retry and len(self.ops) % 5 == 0 else "b",
            "queue": 0 if retry else random.randrange(2),
        }
        first = random.randrange(4)
        value["messages"] = [
            [
                self._some_key(),
                first + n,
                0,
                True,
                random.randrange(4) if retry else int(len(self.ops) % 11 == 0),
            ]
            for n in range(random.choice([1, 1, 2, 3]))
        ]
        process = random.choice([10, 11])
        self.op(process, "invoke", "consume", value)
        self._open.append((process, "consume", value))

    def _some_key(self) -> str:
        return self._random.choice(self._sent[-4:] or ["p9-0"])

    def finish(self) -> None:
        if self._open:
            process, f, value = self._open.pop(self._random.randrange(len(self._open)))
            self.op(process, self._random.choice(["ok", "ok", "info", "fail"]), f, value)

    def commit(self) -> None:
        offsets = [["b", queue, self._random.randrange(5)] for queue in range(2)]
        value = {"group": "g", "topic": "t", "offsets": offsets}
        self.op(self._random.choice([10, 11]), "ok", "commit", value)

    def send_back(self) -> None:
        value = {"group": "g", "topic": "t", "broker": "b", "queue": 0}
        value |= {"messages": [[self._some_key(), 0, self._random.randrange(3)]]}
        value |= {"copied": self._random.random() < 0.1}
        self.op(self._random.choice([10, 11]), "ok", "send_back", value)

    def ask(self) -> None:
        value = {
            "key": self._some_key(),
            "topic": "t",
            "state": self._random.choice(["commit", "unknown"]),
        }
        for _ in range(self._random.choice([1, 1, 3])):
            self.op(1, "ok", "check_back", value)

    def drain(self) -> None:
        group = self._random.choice(list(GROUPS))
        end = self._random.choice([1, 3, 3])
        ends = [["b", queue, 0, end, self._random.choice([0, end, end])] for queue in range(2)]
        value = {"group": group, "topic": "t", "queues": ends, "lag": 0}
        self.op(20, self._random.choice(["ok", "ok", "info"]), "drain", value)


def semantic_history(random: Random) -> list[Op]:
    """One history; keys are sent once, anything may be delivered anywhere and at any time."""
    run = _Run(random)
    for process, node in ((10, "c0"), (11, "c1")):
        reported = {"group": "all", "topic": "t", "expression": "*"}
        run.op(process, "ok", "open", reported, node)
    for _ in range(random.randrange(4, 40)):
        steps = [run.send, run.send, run.consume, run.consume, run.consume, run.finish, run.finish]
        steps += [run.commit, run.ask, run.send_back]
        random.choice(steps)()
    for _ in range(random.randrange(5)):
        run.drain()
    return run.ops
