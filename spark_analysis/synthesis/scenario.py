"""A scenario: a few ops of clients that have topics, groups and processes of their own, and what must be found in them.

The slots of a synthetic history know sends, deliveries and commits; what is about tags, delays, retries, transactions,
sharding keys, assignments or requests is written op by op, and put between two chunks. Times are seconds from its
beginning.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.model.history import Op, OpType
from staticfire.spark_analysis.synthesis.workload_profile import NS_PER_S

PROCESSES = 16  # of each scenario
TOOK_S = 0.01
WALL_EPOCH_MS = 1_700_000_000_000  # what wall clocks show at time 0
RECORD_BYTES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One finding that must be made."""

    anomaly: str
    explained: bool = False  # allowed or informational
    key: str | None = None
    group: str | None = None
    topic: str | None = None
    broker: str | None = None
    queue: int | None = None
    queue_offset: int | None = None
    physical_offset: int | None = None


@dataclass(slots=True)
class Scenario:
    """Written by an injection, under a name of its own. What it changes in the facts stands beside it."""

    name: str
    number: int  # of the set of scenarios that it belongs to
    process: int  # the first of its processes
    broker: str
    begin_ns: int
    ops: list[Op] = field(default_factory=list)  # not yet in the order of time
    expected: list[Reported] = field(default_factory=list)
    groups: dict[str, tuple[str, ...]] = field(default_factory=dict)
    facts: dict[str, object] = field(default_factory=dict)  # fields of RunFacts to add to
    faults: list[FaultFacts] = field(default_factory=list)
    exits: list[NodeExit] = field(default_factory=list)
    observations: list[dict[str, object]] = field(default_factory=list)
    _ends: dict[tuple[str, int], int] = field(default_factory=dict)
    _sent: int = 0

    @property
    def topic(self) -> str:
        return self.name

    @property
    def group(self) -> str:
        return f"{self.name}-group"

    @property
    def retry_topic(self) -> str:
        return f"%RETRY%{self.group}"

    @property
    def dead_topic(self) -> str:
        return f"%DLQ%{self.group}"

    @property
    def consumer(self) -> int:
        return self.process + 8

    def ns(self, at_s: float) -> int:
        return self.begin_ns + round(at_s * NS_PER_S)

    def op(
        self,
        at_s: float,
        type_: OpType,
        f: str,
        value: dict[str, Any],
        *,
        process: int | None = None,
        node: str | None = None,
        error: str | None = None,
    ) -> None:
        """Any op. The index follows when all scenarios are known."""
        self.ops.append(
            Op(
                index=0,
                time_ns=self.ns(at_s),
                process=self.process if process is None else process,
                type=type_,
                f=f,
                value=value,
                node=node,
                error=error,
            )
        )

    def send(
        self,
        at_s: float,
        end: OpType = "ok",
        *,
        queue: int = 0,
        process: int = 0,
        status: str = "SEND_OK",
        takes_s: float = TOOK_S,
        **more: object,
    ) -> str:
        """A send that begins then; returns its key. What is kept back at first has no offset."""
        mine = self.process + process
        key = f"p{mine}-{self._sent}"
        self._sent += 1
        value: dict[str, object] = {"key": key, "topic": self.topic, "size": 100, **more}
        self.op(at_s, "invoke", "send", value, process=mine)
        is_kept_back = "delay_ms" in more or "transaction" in more
        offset = -1 if is_kept_back else self.next_offset(self.topic, queue)
        position = {
            "broker": self.broker,
            "queue": queue,
            "queue_offset": offset,
            "physical_offset": -1 if is_kept_back else RECORD_BYTES * offset,
            "status": status,
            "attempts": 1,
        }
        ended = value if end == "fail" else {**position, **value}
        error = None if end == "ok" else "so it ended"
        self.op(at_s + takes_s, end, "send", ended, process=mine, error=error)
        return key

    def observe(self, at_s: float, kind: str, **seen: object) -> None:
        """The harness saw something of a node."""
        self.observations.append({"time_ns": self.ns(at_s), "kind": kind, **seen})

    def next_offset(self, topic: str, queue: int) -> int:
        offset = self._ends.get((topic, queue), 0)
        self._ends[topic, queue] = offset + 1
        return offset

    def consume(
        self,
        at_s: float,
        key: str,
        offset: int,
        end: OpType = "ok",
        *,
        topic: str | None = None,
        queue: int = 0,
        tries: int = 0,
        member: int = 0,
        takes_s: float = TOOK_S,
        also: tuple[tuple[str, int], ...] = (),
        contents: list[Any] | None = None,
    ) -> None:
        """A call of the listener: a message, and `also` further ones with their offsets; what it holds, if known."""
        topic = topic or self.topic
        value = {
            "group": self.group,
            "topic": topic,
            "broker": self.broker,
            "queue": queue,
        }
        messages: list[list[object]] = [
            [of, at, RECORD_BYTES * at, True, tries] for of, at in ((key, offset), *also)
        ]
        begun = messages if contents is None else [[*messages[0], contents], *messages[1:]]
        process = self.consumer + member
        self._ends[topic, queue] = max(self._ends.get((topic, queue), 0), offset + 1)
        self.op(at_s, "invoke", "consume", {**value, "messages": begun}, process=process)
        ended = {**value, "messages": messages}
        self.op(at_s + takes_s, end, "consume", ended, process=process)

    def to_group(
        self, at_s: float, f: str, rows: str, values: list[list[Any]], *, member: int = 0
    ) -> None:
        """An op of a member that speaks of several queues."""
        value = {"group": self.group, "topic": self.topic, rows: values}
        self.op(at_s, "ok", f, value, process=self.consumer + member)

    def opened(self, at_s: float, member: int, **expected: Any) -> None:
        """A member of the group reports what it is to consume."""
        value = {"group": self.group, "topic": self.topic, "expression": "*", **expected}
        node = f"{self.group}-{member}"
        self.op(at_s, "ok", "open", value, process=self.consumer + member, node=node)

    def drained(self, at_s: float, *, lag: int = 0) -> None:
        """The group has read everything, or not; so it is one that facts know."""
        ends = [
            [self.broker, queue, 0, end, end - lag]
            for (topic, queue), end in sorted(self._ends.items())
            if topic == self.topic
        ]
        value = {"group": self.group, "topic": self.topic, "queues": ends, "lag": lag}
        self.groups[self.group] = (self.topic,)
        self.op(at_s, "info" if lag else "ok", "drain", value, process=self.consumer)

    def expect(
        self,
        anomaly: str,
        key: str | None = None,
        queue_offset: int | None = None,
        *,
        queue: int = 0,
        topic: str | None = None,
        in_group: bool = True,
        explained: bool = False,
        in_log: bool = True,
    ) -> None:
        """Something must be found at a position of a queue; `in_log`: and of a record that a client knows."""
        self.expected.append(
            Reported(
                anomaly=anomaly,
                explained=explained,
                key=key,
                group=self.group if in_group else None,
                topic=topic or self.topic,
                broker=self.broker,
                queue=queue,
                queue_offset=queue_offset,
                physical_offset=RECORD_BYTES * queue_offset
                if in_log and queue_offset is not None
                else None,
            )
        )

    def expect_again(self, key: str) -> None:
        """A group got it once more, for a reason."""
        self.expect("duplicate", key, explained=True)

    def expect_of_run(
        self,
        anomaly: str,
        *,
        key: str | None = None,
        group: str | None = None,
        topic: str | None = None,
        broker: str | None = None,
        physical_offset: int | None = None,
        explained: bool = False,
    ) -> None:
        """Something must be found that is at no position of a queue."""
        self.expected.append(
            Reported(
                anomaly=anomaly,
                explained=explained,
                key=key,
                group=group,
                topic=topic,
                broker=broker,
                physical_offset=physical_offset,
            )
        )


ScenarioInjection = Callable[[Scenario, int], None]  # given how many sets of scenarios there are


def in_order(ops: list[Op], index: int) -> list[Op]:
    """Ops by time, numbered from `index` on."""
    ordered = sorted(ops, key=lambda op: op.time_ns)
    return [replace(op, index=index + number) for number, op in enumerate(ordered)]
