"""A run that can be mutated, what a mutation and an oddity are, and how a site of the run is chosen."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from random import Random
from typing import Any, Literal, TypeVar

from staticfire.checkers.guarantees.facts import FaultFacts, RunFacts
from staticfire.checkers.model.history import Op
from tests.checkers.mutations.events import Delivery, Sent, deliveries_of, sends_of

T = TypeVar("T")
Site = Literal["rest", "fault"]
SITES: tuple[Site, ...] = ("rest", "fault")
EVIDENCE = "evidence"  # the aim of a kind that takes evidence away: the verdict may not be valid
S = 1_000_000_000  # nanoseconds of a second
REST_AFTER_NS = 30 * S  # after a heal until a place counts as at rest
FAULT_AFTER_NS = 3 * S  # after a heal while a place still counts as near the fault
# Faults that may concern any node, whatever their targets are.
EVERYWHERE = ("cluster", "topic", "offsets", "rolling")

WORKLOADS = (
    "queue",
    "ordered",
    "delayed",
    "retry",
    "transactional",
    "filtered",
    "broadcast",
    "batch",
    "bulk",
    "forwarded",
    "rebalance",
    "request-reply",
    "reservations",
)


@dataclass(frozen=True, eq=False)
class Run:
    """What `check_run` takes, and where it came from. Ops are dense and in the order of time."""

    workload: str
    seed: int
    ops: Sequence[Op]
    observations: Sequence[Mapping[str, Any]]
    facts: RunFacts
    links: Mapping[str, tuple[str, ...]] = field(
        default_factory=dict
    )  # fault -> nodes whose links it breaks

    @cached_property
    def sends(self) -> dict[str, Sent]:
        """Each message that was sent, by its key."""
        return sends_of(self.ops)

    @cached_property
    def deliveries(self) -> list[Delivery]:
        """Each message of each delivery, in the order of completions."""
        return deliveries_of(self.ops)

    @cached_property
    def by_key(self) -> dict[str, list[Delivery]]:
        found: dict[str, list[Delivery]] = {}
        for delivery in self.deliveries:
            found.setdefault(delivery.key, []).append(delivery)
        return found

    @cached_property
    def members(self) -> list[Member]:
        """Every process that opened as a consumer."""
        return members_of(self)

    @cached_property
    def tenures(self) -> list[Tenure]:
        """Every stretch of time in which a member announced a queue as its own."""
        return tenures_of(self)

    @cached_property
    def end_ns(self) -> int:
        """When the load ended: the first drain, or the last op."""
        return next((op.time_ns for op in self.ops if op.f == "drain"), self.ops[-1].time_ns)

    @cached_property
    def load_end_ns(self) -> int:
        """The last completion of a send of the load."""
        times = (
            op.time_ns for op in self.ops if op.f in ("send", "send_many") and op.process < 90_000
        )
        return max(times, default=self.end_ns)

    def bitten(self) -> Iterable[FaultFacts]:
        """Faults that were proven to have had an effect."""
        return (fault for fault in self.facts.faults if fault.bitten_ns is not None)

    def is_at(self, site: Site, begin_ns: int, end_ns: int | None = None) -> bool:
        """Whether this time, or all of this span, is at rest, or any of it in the middle of faults."""
        end_ns = begin_ns if end_ns is None else end_ns
        if site == "fault":
            return any(
                fault.fired_ns <= end_ns and begin_ns <= _end(fault) + FAULT_AFTER_NS
                for fault in self.bitten()
                if fault.fired_ns is not None
            )
        return not any(
            fault.fired_ns - S <= end_ns and begin_ns <= _end(fault) + REST_AFTER_NS
            for fault in self.facts.faults
            if fault.fired_ns is not None
        )

    def is_explained(
        self,
        begin_ns: int,
        end_ns: int,
        nodes: Iterable[str],
        after_s: float = 10.0,
        kinds: tuple[str, ...] = ("",),
    ) -> bool:
        """Whether a fault of these kinds that may concern these nodes lay in the span, or ended soon before it."""
        concerned = set(nodes)
        return any(
            fault.fired_ns <= end_ns
            and begin_ns <= _end(fault) + after_s * S
            and fault.kind.startswith(kinds)
            and (
                fault.kind.startswith(EVERYWHERE)
                or not concerned.isdisjoint(fault.targets)
                or not concerned.isdisjoint(self.links.get(fault.fault_id, ()))
            )
            for fault in self.facts.faults
            if fault.fired_ns is not None
        )

    def nodes_of_broker(self, broker: str) -> tuple[str, ...]:
        return tuple(self.facts.replica_sets.get(broker, ()))


@dataclass(frozen=True, slots=True)
class Member:
    """A process of a consumer, and how long it lived."""

    process: int
    node: str | None
    group: str
    topic: str
    begin_ns: int
    end_ns: int  # when its node ended or was opened again, or the run did
    at: int  # index of its open


@dataclass(frozen=True, slots=True)
class Tenure:
    """A member announced this queue as its own from `begin_ns` until `end_ns`."""

    process: int
    node: str | None
    group: str
    topic: str
    broker: str
    queue: int
    begin_ns: int
    end_ns: int
    at: int  # index of the first assign


def _end(fault: FaultFacts) -> float:
    if fault.healed_ns is None:
        return float("inf")
    return fault.healed_ns


def members_of(run: Run) -> list[Member]:
    last_ns = run.ops[-1].time_ns
    opened = [op for op in run.ops if op.f == "open" and op.type == "ok" and "group" in op.value]
    ends = [
        (fault.fired_ns, target)
        for fault in run.bitten()
        for target in fault.targets
        if fault.fired_ns is not None and fault.kind in ("client_crash", "member_leaves")
    ]
    ends += [(op.time_ns, op.node or "") for op in opened]
    return [
        Member(
            process=op.process,
            node=op.node,
            group=op.value["group"],
            topic=op.value["topic"],
            begin_ns=op.time_ns,
            end_ns=min(
                (t for t, node in ends if node == op.node and t > op.time_ns), default=last_ns
            ),
            at=op.index,
        )
        for op in opened
    ]


def tenures_of(run: Run) -> list[Tenure]:
    lives = {member.process: member for member in run.members}
    held: dict[tuple[int, str, str, str, int], Op] = {}
    tenures: list[Tenure] = []

    def end(place: tuple[int, str, str, str, int], time_ns: int) -> None:
        op = held.pop(place)
        tenures.append(Tenure(place[0], op.node, *place[1:], op.time_ns, time_ns, op.index))

    for op in run.ops:
        if op.f != "assign" or op.type != "ok":
            continue
        group, topic = op.value["group"], op.value["topic"]
        now = {(op.process, group, topic, broker, queue) for broker, queue in op.value["queues"]}
        for place in [p for p in held if p[:3] == (op.process, group, topic) and p not in now]:
            end(place, op.time_ns)
        for place in sorted(now):
            held.setdefault(place, op)
    for place in list(held):
        member = lives.get(place[0])
        end(place, member.end_ns if member else run.ops[-1].time_ns)
    return sorted(
        tenures, key=lambda tenure: (tenure.begin_ns, tenure.at, tenure.broker, tenure.queue)
    )


Plant = Callable[[Run, Random, Site], Run | None]


@dataclass(frozen=True, slots=True, kw_only=True)
class Mutation:
    """One wrong, and how it is planted. `plant` returns None where the run has no site for it."""

    name: str
    what: str  # is planted, in one sentence
    aim: str  # the anomaly that a verdict has to name, or EVIDENCE
    plant: Plant
    workloads: tuple[str, ...] = WORKLOADS
    unknown_is_enough: bool = False  # the evidence is gone, so the verdict may not be valid


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Something that looks odd and is legal, with the reason; it may never make a run invalid."""

    name: str
    why: str
    plant: Plant
    workloads: tuple[str, ...] = WORKLOADS


Kind = Mutation | Oddity


def without(*names: str) -> tuple[str, ...]:
    """All workloads but these."""
    return tuple(name for name in WORKLOADS if name not in names)


class NoSuchSite(Exception):
    """The run has no candidate for a mutation."""


CALM = without("broadcast", "request-reply", "forwarded")  # no other op follows from a delivery
MS = S // 1000
ANSWERED = ("request-reply",)  # an answer proves that the request was delivered
PLAIN = without("request-reply", "forwarded")
GROUPED = without("broadcast")
