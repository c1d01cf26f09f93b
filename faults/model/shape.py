"""The nodes of a cluster by role: all that a fault needs to know to choose its targets."""

from __future__ import annotations

from dataclasses import dataclass

MASTER_ID = 0  # RocketMQ: MixAll.MASTER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class BrokerNode:
    node: str
    broker_name: str
    broker_id: int  # MASTER_ID is the master

    @property
    def is_master(self) -> bool:
        return self.broker_id == MASTER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterShape:
    name_servers: tuple[str, ...]
    brokers: tuple[BrokerNode, ...]
    producers: tuple[str, ...]
    consumers: tuple[str, ...]

    @property
    def servers(self) -> tuple[str, ...]:
        """Every node that is not a client."""
        return self.name_servers + tuple(broker.node for broker in self.brokers)

    @property
    def clients(self) -> tuple[str, ...]:
        return self.producers + self.consumers

    @property
    def masters(self) -> tuple[BrokerNode, ...]:
        return tuple(broker for broker in self.brokers if broker.is_master)

    @property
    def broker_names(self) -> tuple[str, ...]:
        return tuple(broker.broker_name for broker in self.masters)

    def replicas(self, broker_name: str) -> tuple[BrokerNode, ...]:
        """The master and the slaves that share this broker name."""
        return tuple(broker for broker in self.brokers if broker.broker_name == broker_name)

    def broker(self, node: str) -> BrokerNode:
        return next(broker for broker in self.brokers if broker.node == node)
