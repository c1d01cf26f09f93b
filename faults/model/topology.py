"""The nodes of a cluster by role, and the replica sets of its servers: what a fault needs to choose its targets."""

from __future__ import annotations

from dataclasses import dataclass

LEADER_NUMBER = 0  # RocketMQ: MixAll.MASTER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class Replica:
    """A server that stores messages. In RocketMQ: a broker; its replica set is its broker name."""

    node: str
    replica_set: str
    number: int  # in its set (RocketMQ: the broker id); LEADER_NUMBER leads in a new cluster

    @property
    def is_leader(self) -> bool:
        return self.number == LEADER_NUMBER


@dataclass(frozen=True, slots=True, kw_only=True)
class Topology:
    """Every node that faults can strike.

    `coordinators` know the routes and store no messages (RocketMQ: name servers). A system without coordinators has
    none.
    """

    coordinators: tuple[str, ...]
    replicas: tuple[Replica, ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        """All nodes that are not clients."""
        return self.coordinators + tuple(replica.node for replica in self.replicas)

    @property
    def clients(self) -> tuple[str, ...]:
        return self.producers + self.consumers

    @property
    def leaders(self) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.replicas if replica.is_leader)

    @property
    def followers(self) -> tuple[Replica, ...]:
        return tuple(replica for replica in self.replicas if not replica.is_leader)

    @property
    def replica_sets(self) -> tuple[str, ...]:
        return tuple(replica.replica_set for replica in self.leaders)

    def replicas_of(self, replica_set: str) -> tuple[Replica, ...]:
        """Return the leader and the followers of this replica set."""
        return tuple(replica for replica in self.replicas if replica.replica_set == replica_set)

    def replica(self, node: str) -> Replica:
        return next(replica for replica in self.replicas if replica.node == node)
