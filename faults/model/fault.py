"""What every fault is: a name, the capabilities it needs, a seeded choice of targets, fire and heal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar

from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import pick
from staticfire.faults.model.shape import ClusterShape


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """One entry of a plan. Times are seconds from the start of the load."""

    fault_id: int
    kind: str
    at_s: float
    duration_s: float
    targets: tuple[str, ...]
    params: dict[str, Any] = field(default_factory=dict)

    @property
    def until_s(self) -> float:
        return self.at_s + self.duration_s


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultParams:
    """What a fault drew for one use: where, and with which parameters."""

    targets: tuple[str, ...]
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContext:
    """What the draw of a fault may know: the cluster, how it keeps its data, the topic under load."""

    shape: ClusterShape
    topic: str
    sync_flush: bool
    replication: str  # "none", "async" or "sync"
    acl: bool = False  # whether brokers have accounts


class Fault(ABC):
    """One kind of fault. Instances hold no state: what fire() learnt comes back to heal()."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line, for `staticfire faults`
    needs: ClassVar[tuple[str, ...]]  # attributes of Controls
    affects: ClassVar[
        tuple[str, ...]
    ]  # what it does to its targets, in words of checkers/guarantees/fault_effects.py
    destructive: ClassVar[bool] = False  # may lose data that was not yet durable
    empties: ClassVar[bool] = False  # leaves its targets without any data, to be fetched again
    permanent: ClassVar[bool] = False  # is never healed: the targets are gone for good
    strikes_all: ClassVar[bool] = False  # every broker is a target
    in_swarms: ClassVar[bool] = True  # else drawn only where a workload or the user asks for it
    beside_share: ClassVar[float] = 0.0  # of the seeds that have it beside their swarm
    beside_count: ClassVar[int] = 1  # how often it then comes, at most
    share: ClassVar[float] = 1.0  # of the runs of a workload that has it by itself
    max_per_run: ClassVar[int] = 99
    duration_s: ClassVar[tuple[float, float]] = (2.0, 8.0)  # the range that a plan draws from

    @abstractmethod
    def draw(self, random: Random, situation: ClusterContext) -> FaultParams | None:
        """Choose targets and parameters; None where this cluster offers no target."""

    def links(self, _planned: PlannedFault) -> tuple[tuple[str, str], ...]:
        """The (from, to) pairs of nodes between which packets vanish; none where whole nodes are struck."""
        return ()

    @abstractmethod
    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        """Break it. The evidence is handed to heal()."""

    @abstractmethod
    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        """Put it right. The evidence must hold `bitten`: whether the fault was seen to have an effect."""


def a_broker(random: Random, situation: ClusterContext) -> tuple[str, ...]:
    """Targets: one broker of the cluster, master or slave."""
    return (pick(random, tuple(broker.node for broker in situation.shape.brokers)),)
