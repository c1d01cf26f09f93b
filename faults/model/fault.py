"""The interface of a fault: its declaration, the drawing of targets and parameters, fire and heal."""

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

# Lost data of a node, in this order: none; the memory of its process; the dirty pages of a failed fsync; unsynced data;
# everything; single records.
Destroys = Literal["none", "process", "write_error", "power", "disk", "record"]
# When a fault strikes, in this order: all targets when it is fired; some time before its heal; one target after the
# other, each when the previous one answers; all targets when it is fired, and again when it is healed.
Strikes = Literal["at_once", "later", "in_turn", "again"]


@dataclass(frozen=True, slots=True, kw_only=True)
class PlannedFault:
    """One entry of a plan. Times are seconds from the start of the load.

    With `after` the fault strikes at that event, which the harness watches for from `at_s` on. If the load ends before
    the event, the fault does not strike.
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
    """The drawn targets and parameters of one fault."""

    targets: tuple[str, ...]
    params: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterContext:
    """The facts on which the draw of a fault may depend: the cluster, its durability, the topic under load."""

    topology: Topology
    topic: str
    sync_flush: bool
    replication: str  # "none", "async" or "sync"
    acl: bool = False  # whether servers have accounts


class Fault(ABC):
    """One kind of fault. Instances hold no state: heal() gets the evidence that fire() returned."""

    name: ClassVar[str]
    summary: ClassVar[str]  # one line, for `staticfire faults`
    simulated: ClassVar[str]  # its mechanism in the simulation
    on_machines: ClassVar[str] = "the same"  # its mechanism on real machines
    proof: ClassVar[str]  # the observation that proves its effect
    needs: ClassVar[tuple[str, ...]]  # for Controls.require, such as disk.fill
    needs_accounts: ClassVar[bool] = False  # strikes only clusters with access control
    roles: ClassVar[tuple[str, ...]]  # of each target (params.ROLES); none: the whole cluster
    many: ClassVar[bool] = False  # one or more targets of the last role
    params: ClassVar[tuple[Mapping[str, Param], ...]] = ({},)  # the forms that a plan may give
    affects: ClassVar[tuple[str, ...]]  # effects on its targets (declaration.EFFECTS)
    destroys: ClassVar[Destroys] = "none"  # data of its targets that it may destroy
    strikes: ClassVar[Strikes] = "at_once"
    permanent: ClassVar[bool] = False  # never healed: the targets are lost for good
    strikes_all: ClassVar[bool] = False  # every replica is a target
    in_swarms: ClassVar[bool] = True  # False: drawn only if a workload or the user asks for it
    beside_share: ClassVar[float] = 0.0  # share of the seeds that add it to their swarm
    beside_count: ClassVar[int] = 1  # the greatest number of times that such a seed adds it
    share: ClassVar[float] = 1.0  # share of the runs in which a workload that names it draws it
    max_per_run: ClassVar[int] = 99
    duration_s: ClassVar[tuple[float, float]] = (2.0, 8.0)  # the range that a plan draws from

    @property
    def destructive(self) -> bool:
        """Whether it may lose data that is not durable yet, or a whole disk."""
        return self.destroys in ("write_error", "power", "disk")

    @property
    def empties(self) -> bool:
        """Whether it leaves its targets without data, which they must copy again."""
        return self.destroys == "disk" and not self.permanent

    @abstractmethod
    def draw(self, random: Random, context: ClusterContext) -> FaultParams | None:
        """Draw targets and parameters; None if this cluster has no possible target."""

    def links(self, _planned: PlannedFault) -> tuple[tuple[str, str], ...]:
        """Return the (from, to) pairs of nodes between which it drops packets; none for a fault of whole nodes."""
        return ()

    def delay_s(self, _planned: PlannedFault) -> float:
        """Return the time that it adds to each packet from a target; 0 if it does not only delay packets."""
        return 0.0

    @abstractmethod
    async def fire(self, controls: Controls, planned: PlannedFault) -> Evidence:
        """Break the targets; return evidence, which heal() gets."""

    async def struck_ns(self, _controls: Controls, _planned: PlannedFault) -> int | None:
        """Return when it struck, in ns of the run's clock; None: when it was fired. Called after the heal."""
        return None

    @abstractmethod
    async def heal(self, controls: Controls, planned: PlannedFault, fired: Evidence) -> Evidence:
        """Undo the effect. The returned evidence must have `bitten`: whether the fault had an observed effect."""


class AdminFault(Fault):
    """A change that an administrator makes to the whole cluster while it runs; some seeds add it to their swarm."""

    affects = ("admin",)
    roles = ()
    in_swarms = False
    beside_share = 0.15


def a_replica(random: Random, context: ClusterContext) -> tuple[str, ...]:
    """Draw one replica of the cluster, leader or follower, as the only target."""
    return (pick(random, tuple(replica.node for replica in context.topology.replicas)),)
