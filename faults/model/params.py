"""Parameters of faults: their allowed values, in code and in words. All of them are bounded."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from staticfire.faults.model.topology import Topology

TIME_S_MAX = 86_400  # greatest duration of a load, which also bounds the times of its faults

# The nodes that each role has in a cluster.
ROLES: Mapping[str, Callable[[Topology], tuple[str, ...]]] = {
    "node": lambda topology: topology.servers + topology.clients,
    "server": lambda topology: topology.servers,
    "replica": lambda topology: tuple(replica.node for replica in topology.replicas),
    "leader": lambda topology: tuple(replica.node for replica in topology.leaders),
    "follower": lambda topology: tuple(replica.node for replica in topology.followers),
    "coordinator": lambda topology: topology.coordinators,
    "client": lambda topology: topology.clients,
    "consumer": lambda topology: topology.consumers,
}


@dataclass(frozen=True, slots=True)
class Param(ABC):
    """One parameter. `about` is its meaning, for docs/faults.md."""

    about: str

    @abstractmethod
    def accepts(self, value: object, topology: Topology, topic: str) -> bool:
        """Whether the value is allowed in a plan for this cluster."""

    @abstractmethod
    def allowed(self, topology: Topology, topic: str) -> str:
        """Describe the values that are allowed in a plan for this cluster."""

    @property
    @abstractmethod
    def form(self) -> str:
        """The values that are allowed in any plan, in words."""

    @property
    def mistake(self) -> str:
        """The error in the declaration, in words; empty if there is none."""
        return ""


@dataclass(frozen=True, slots=True)
class Number(Param):
    """A number from `low` to `high`, both included."""

    low: float
    high: float

    def accepts(self, value: Any, topology: Topology, topic: str) -> bool:
        return type(value) in (int, float) and self.low <= value <= self.high

    def allowed(self, topology: Topology, topic: str) -> str:
        return self.form

    @property
    def form(self) -> str:
        return f"a number from {self.low:g} to {self.high:g}"

    @property
    def mistake(self) -> str:
        if not -float("inf") < self.low <= self.high < float("inf"):
            return (
                f"is bounded by {self.low} and {self.high}; allowed: two finite, ascending bounds"
            )
        return ""


@dataclass(frozen=True, slots=True)
class Whole(Number):
    """A whole number from `low` to `high`, both included."""

    low: int
    high: int

    def accepts(self, value: object, topology: Topology, topic: str) -> bool:
        return type(value) is int and self.low <= value <= self.high

    @property
    def form(self) -> str:
        return f"a whole number from {self.low} to {self.high}"


class _Choice(Param):
    """One of several texts, which may depend on the cluster."""

    __slots__ = ()

    @abstractmethod
    def choices(self, topology: Topology, topic: str) -> Sequence[str]:
        """Return the allowed texts."""

    def accepts(self, value: object, topology: Topology, topic: str) -> bool:
        return type(value) is str and value in self.choices(topology, topic)

    def allowed(self, topology: Topology, topic: str) -> str:
        return f"one of {', '.join(self.choices(topology, topic))}"


@dataclass(frozen=True, slots=True)
class OneOf(_Choice):
    """One of a list of texts."""

    texts: tuple[str, ...]

    def choices(self, topology: Topology, topic: str) -> Sequence[str]:
        return self.texts

    @property
    def form(self) -> str:
        return f"one of {', '.join(f'`{text}`' for text in self.texts)}"

    @property
    def mistake(self) -> str:
        return "" if self.texts else "has no choices; allowed: one or more"


@dataclass(frozen=True, slots=True)
class NodeOf(_Choice):
    """A node with a given role."""

    role: str

    def choices(self, topology: Topology, topic: str) -> Sequence[str]:
        return ROLES[self.role](topology)

    @property
    def form(self) -> str:
        return f"a {self.role}"

    @property
    def mistake(self) -> str:
        if self.role not in ROLES:
            return f"is a node of role {self.role!r}; allowed: one of {', '.join(ROLES)}"
        return ""


@dataclass(frozen=True, slots=True)
class LoadTopic(_Choice):
    """The topic of the load."""

    def choices(self, topology: Topology, topic: str) -> Sequence[str]:
        return (topic,)

    @property
    def form(self) -> str:
        return "the topic of the load"


@dataclass(frozen=True, slots=True)
class Nodes(Param):
    """Any nodes of the cluster."""

    def accepts(self, value: object, topology: Topology, topic: str) -> bool:
        nodes = ROLES["node"](topology)
        return isinstance(value, list | tuple) and all(
            isinstance(node, str) and node in nodes for node in value
        )

    def allowed(self, topology: Topology, topic: str) -> str:
        return self.form

    @property
    def form(self) -> str:
        return "a list of nodes"


@dataclass(frozen=True, slots=True)
class NodePairs(Nodes):
    """Pairs (from, to) of nodes of the cluster."""

    def accepts(self, value: object, topology: Topology, topic: str) -> bool:
        return isinstance(value, list | tuple) and all(
            Nodes.accepts(self, pair, topology, topic) and len(pair) == 2 and pair[0] != pair[1]
            for pair in value
        )

    @property
    def form(self) -> str:
        return "a list of pairs of two nodes"
