"""Random histories of one queue that several groups read: mostly in order, with whatever goes wrong near a border."""

from __future__ import annotations

from dataclasses import dataclass, field
from random import Random
from typing import Any

from staticfire.checkers.guarantees.facts import RunFacts
from staticfire.checkers.model.history import Op
from tests.support.history_language import facts, fault

MS = 1_000_000
GROUPS = ("g", "h", "o")  # h may broadcast, o takes turns
CRASH = fault("client_crash", "n0", at_s=0.02, healed_s=0.03)
KNOWN: tuple[RunFacts, ...] = tuple(
    facts(
        groups={"g": ("t",), "h": ("t",), "o": ("t",)},
        orderly=("o",),
        **{"faults": (CRASH,), **more},
    )
    for more in (
        {},
        {"broadcasting": ("h",)},
        {"wanted_tags": {"g": ("x",)}},
        {"retries_max": {"g": 2}},
        {"flush": "async", "wanted_tags": {"o": ("x",)}},
        {
            "wanted_before": {"g": ("x",)},
            "wanted_tags": {"g": ("y",)},
            "filters_changed_ns": {"g": 120 * MS},
            "faults": (CRASH, fault("filter_change", "n0", at_s=0.08, healed_s=0.12)),
        },
    )
)


@dataclass(slots=True)
class _Story:
    random: Random
    ops: list[Op] = field(default_factory=list)
    open: list[tuple[int, str, str, dict[str, Any]]] = field(default_factory=list)
    log: list[str] = field(default_factory=list)  # keys by offset
    at: dict[str, int] = field(default_factory=lambda: dict.fromkeys(GROUPS, 0))
    owner: dict[str, int] = field(default_factory=lambda: {"g": 10, "h": 20, "o": 30})

    def op(self, process: int, type: str, f: str, value: dict[str, Any]) -> None:
        error = None
        if type == "weak":
            type, error = "info", "FLUSH_DISK_TIMEOUT"
        self.ops.append(
            Op(
                index=len(self.ops),
                time_ns=len(self.ops) * MS,
                process=process,
                type=type,  # type: ignore[arg-type]  # one of the four
                f=f,
                value=value,
                error=error,
            )
        )

    def begin(self, process: int, end: str, f: str, value: dict[str, Any]) -> None:
        self.op(process, "invoke", f, value)
        self.open.append((process, end, f, value))

    def end(self, keep: int) -> None:
        while len(self.open) > keep:
            self.op(*self.open.pop(self.random.randrange(len(self.open))))

    def send(self) -> None:
        process = self.random.choice([p for p in range(4) if all(o[0] != p for o in self.open)])
        key = f"p{process}-{len(self.ops)}"
        value: dict[str, Any] = {"key": key, "topic": "t", "attempts": 1, "tag": self._tag()}
        offset = len(self.log)
        if self.rarely(8):
            offset = max(0, offset - self.random.randint(1, 3))
        else:
            self.log.append(key)
        end = self.random.choice(["ok"] * 8 + ["weak", "info"])
        if end != "info":
            value |= {"broker": "b", "queue": 0, "queue_offset": offset, "physical_offset": offset}
        self.begin(process, end, "send", value)

    def consume(self) -> None:
        group = self.random.choice(GROUPS)
        busy = {process for process, *_ in self.open}
        process = self.owner[group] + (self.random.randint(0, 1) if self.rarely(5) else 0)
        if process in busy:
            return
        first = self.at[group]
        if self.rarely(6):
            first = max(0, first + self.random.choice([-3, -1, -1, 1, 2]))
        offsets = list(range(first, min(first + self.random.randint(1, 3), len(self.log))))
        if self.rarely(8):
            self.random.shuffle(offsets)
        if not offsets:
            return
        self.at[group] = offsets[-1] + 1
        messages = [
            [self.log[offset], offset, offset, not self.rarely(40), int(self.rarely(12))]
            for offset in offsets
        ]
        value = {"group": group, "topic": "t", "broker": "b", "queue": 0, "messages": messages}
        self.begin(process, self.random.choice(["ok"] * 5 + ["info"]), "consume", value)

    def group_op(self) -> None:
        group = self.random.choice(GROUPS)
        if self.rarely(2):
            self.owner[group] ^= 1
            value = {"group": group, "topic": "t", "queues": [["b", 0]]}
            self.op(self.owner[group], "ok", "assign", value)
            return
        offset = max(0, self.at[group] + self.random.choice([0, 0, -1, -2, 1]))
        value = {"group": group, "topic": "t", "offsets": [["b", 0, offset]]}
        self.op(self.owner[group], "ok", "commit", value)

    def rarely(self, of: int) -> bool:
        return self.random.randrange(of) == 0

    def _tag(self) -> str:
        return self.random.choice("xxy")


def one_queue_history(random: Random, steps: int) -> list[Op]:
    """Sends, deliveries, commits and changes of owners in one queue; the groups are those of KNOWN."""
    story = _Story(random)
    for _ in range(steps):
        often = [*[story.send] * 2, *[story.consume] * 3, story.group_op]
        story.random.choice(often)()
        story.end(keep=random.randint(0, 2))
    story.end(keep=0)
    for group in GROUPS if random.randrange(3) else ():
        ends = [["b", 0, random.choice([0, 0, 2]), len(story.log), story.at[group]]]
        value = {"group": group, "topic": "t", "queues": ends, "lag": 0}
        story.op(999, "ok", "drain", value)
    return story.ops
