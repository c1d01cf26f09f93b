"""The face of a fault: its name, its needs, a seeded choice of targets, fire and heal."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, field
from random import Random
from typing import Any, ClassVar, Literal

from staticfire.faults.model.anchor import Anchor
from staticfire.faults.model.capabilities import Controls, Evidence
from staticfire.faults.model.draws import pick
from staticfire.faults.model.params import Param
from staticfire.faults.model.topology import Topology

# Of a node: nothing; the memory of its process; the dirty pages of a failed fsync; what was not fsynced; everything;
# single records.
Destroys = Literal["none", "process", "write_error", "power", "disk", "record"]
# All targets when it is fired; some time before its heal; one target after the other, the next when the one before
# answers; all targets when it is fired and again when it is healed.
Strikes = Literal["at_once", "later", "in_turn", "again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """One entry of a plan. Times are seconds from the start of the load.

    With `after` it strikes at that event, watched for from `at_s` on, and not at all if the load ends before.
    """

    fault_id: int
    kind: str
    at_s: float
    duration_s: float
    targets: tuple[str, ...]
    params: dict[str, Any] = field(default_factory=dict)
    after: Anchor | None = None

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

    topology: Topology
    topic: str
    sync_flush: bool
    replication: str  # "none", "async" or "sync"
    acl: bool = False  # whether servers have accounts


class Fault(ABC):
    """One kind of fault. Instances hold no state: what fire() learnt comes back to heal()."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line, for `staticfire faults`
    simulated: ClassVar[str]  # what happens in the simulation
    on_machines: ClassVar[str] = "the same"  # how it is done on real machines
    proof: ClassVar[str]  # what shows that it had an effect
    needs: ClassVar[tuple[str, ...]]  # attributes of Controls
    needs_accounts: ClassVar[bool] = False  # only clusters with access control have it
    roles: ClassVar[tuple[str, ...]]  # of each target (params.ROLES); none: the whole cluster
    many: ClassVar[bool] = False  # one or more targets of the last role
    params: ClassVar[tuple[Mapping[str, Param], ...]] = ({},)  # the forms that a plan may give
    affects: ClassVar[tuple[str, ...]]  # what it does to its targets (declaration.EFFECTS)
    destroys: ClassVar[Destroys] = "none"  # of what its targets hold
    strikes: ClassVar[Strikes] = "at_once"
    permanent: ClassVar[bool] = False  # is never healed: the targets are gone for good
    strikes_all: ClassVar[bool] = False  # every replica is a target
    in_swarms: ClassVar[bool] = True  # else drawn only where a workload or the user asks for it
    beside_share: ClassVar[float] = 0.0  # of the seeds that have it beside their swarm
    beside_count: ClassVar[int] = 1  # how often it then comes, at most
    share: ClassVar[float] = 1.0  # of the runs of a workload that has it by itself
    max_per_run: ClassVar[int] = 99
    duration_s: ClassVar[tuple[float, float]] = (2.0, 8.0)  # the range that a plan draws from

    @property
    def destructive(self) -> bool:
        """Whether it may lose data that was not yet durable."""
        return self.destroys in ("write_error", "power", "disk")

    @property
    def empties(self) -> bool:
        """Whether it leaves its targets without any data, to be fetched again."""
        return self.destroys == "disk" and not self.permanent

    @abstractmethod
    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        """Choose targets and parameters; None where this cluster offers no target."""

    def links(self, _planned: PlannedFault) -> tuple[tuple[str, str], ...]:
        """The (from, to) pairs of nodes between which packets vanish; none where whole nodes are struck."""
        return ()

    def delay_s(self, _planned: PlannedFault) -> float:
        """How much later each packet from a target arrives; 0 where it does more than that, or nothing to packets."""
        return 0.0

    @abstractmethod
    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        """Break it. The evidence is handed to heal()."""

    async def struck_ns(self, _controls: Controls, _planned: PlannedFault) -> int | None:
        """When it really struck, by the clock of the run, asked once it is healed; None: when it was fired."""
        return None

    @abstractmethod
    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        """Put it right. The evidence must hold `bitten`: whether the fault was seen to have an effect."""


def a_replica(random: Random, context: ClusterContext) -> tuple[str, ...]:
    """Targets: one replica of the cluster, leader or follower."""
    return (pick(random, tuple(replica.node for replica in context.topology.replicas)),)
