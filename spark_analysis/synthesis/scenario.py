"""A scenario: a few ops of clients with topics, groups and processes of their own, and the findings to expect.

Slots of a synthetic history hold only sends, deliveries and commits. Ops about tags, delays, retries, transactions,
sharding keys, assignments and requests are written one by one, between two chunks. Times are seconds from the begin of
the scenario.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from typing import Any

from staticfire.checkers.guarantees.facts import FaultFacts, NodeExit
from staticfire.checkers.model.history import Op, OpType
from staticfire.spark_analysis.synthesis.workload_profile import NS_PER_S

PROCESSES = 16  # process numbers of each scenario
TOOK_S = 0.01
WALL_EPOCH_MS = 1_700_000_000_000  # wall-clock time at time 0 of the run
RECORD_BYTES = 300


@dataclass(frozen=True, slots=True, kw_only=True)
class Reported:
    """One finding to expect."""

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
    """The ops of one scenario, and its additions to the facts, faults, exits and observations of the run."""

    name: str
    number: int  # of its set of scenarios
    process: int  # the first of its processes
    broker: str
    begin_ns: int
    ops: list[Op] = field(default_factory=list)  # in any order
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
        """Add any op. It gets its index when all scenarios are known."""
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
        """Add a send that begins at `at_s`; return its key. A message that the broker keeps back has offset -1."""
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
        """Add an observation of a node."""
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
        """Add a call of the listener with a message, its `contents` if known, and also further ones (key, offset)."""
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
        """Add an op of a member with a value for several queues."""
        value = {"group": self.group, "topic": self.topic, rows: values}
        self.op(at_s, "ok", f, value, process=self.consumer + member)

    def opened(self, at_s: float, member: int, **expected: Any) -> None:
        """Add a member's report of its subscription."""
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
        """Expect a finding at a position of a queue; `in_log`: the finding also has the physical offset."""
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
        """Expect an explained duplicate: the group got the message again for a reason."""
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
        """Expect a finding without a position in a queue."""
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


ScenarioInjection = Callable[[Scenario, int], None]  # also gets the number of sets


def in_order(ops: list[Op], index: int) -> list[Op]:
    """Return the ops in the order of time, numbered from `index` on."""
    ordered = sorted(ops, key=lambda op: op.time_ns)
    return [replace(op, index=index + number) for number, op in enumerate(ordered)]
