"""Our own cluster in the simulation: the coroutine that each server and each client of the load runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.harness.accounts import ACCOUNTS
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.admin import serve_admin
from staticfire.harness.clients.consumer import ListenerControl, serve_consumer
from staticfire.harness.clients.names import ADMIN
from staticfire.harness.clients.port import ClientPort
from staticfire.harness.clients.producer import serve_producer
from staticfire.harness.targets.own_cluster import OwnCluster
from staticfire.harness.targets.target import Main


class OwnSimulated:
    """Implements `staticfire.harness.targets.target.SimulatedTarget`.

    Args:
        campaign: decides the nodes, and how they keep their data.
        addresses: the IP address of every node.
    """

    def __init__(self, campaign: Campaign, addresses: Mapping[str, str]) -> None:
        self._cluster = OwnCluster(campaign, addresses)

    def server_address(self, node: str) -> str:
        return self._cluster.server_address(node)

    def server_main(self, node: str, name_servers: Sequence[str]) -> Main:
        return self._cluster.server_main(node, name_servers)

    def client_main(
        self,
        node: str,
        name_servers: Sequence[str],
        port: ClientPort,
        listener: ListenerControl,
        process: int,
    ) -> Main:
        cluster = self._cluster
        if node == ADMIN:
            operator = cluster.operator
            return lambda env: serve_admin(env, port, operator)
        if node in cluster.topology.consumers:
            consumer = cluster.consumer_config(node, name_servers)
            spec = cluster.spec(node)
            listener.condensed = spec.condensed
            listener.forward_to, listener.process = spec.forward_to, process
            listener.kind, listener.share = spec.kind, spec.share
            return lambda env: serve_consumer(env, consumer, port, listener)
        producer = cluster.producer_config(node, name_servers)
        return lambda env: serve_producer(env, producer, port, ACCOUNTS)

    def change_specification(self, node: str) -> None:
        self._cluster.changed_specifications[node] = None

    def speaks_tls(self, node: str) -> bool:
        return self._cluster.speaks_tls(node)
