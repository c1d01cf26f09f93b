"""An external cluster as a target: its addresses, and our clients."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from staticfire.faults.proxy.rocketmq.addresses import Address
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.machines.machine import LaunchSpec, Machine
from staticfire.harness.targets.client_processes import ClientProcesses
from staticfire.harness.targets.interpreter import Interpreter
from staticfire.harness.targets.own_cluster import OwnCluster, Reach


class ExternalCluster(ClientProcesses):
    """Implements `staticfire.harness.targets.target.Target`. It starts clients only.

    Args:
        campaign: decides the clients.
        places: the machines of the clients.
        addresses: `host:port` of each server.
        interpreter: runs our clients.
        reach: returns the address by which a client reaches a server, such as a proxy's.
    """

    def __init__(
        self,
        campaign: Campaign,
        machines: Mapping[str, Machine],
        *,
        addresses: Mapping[str, str],
        interpreter: Interpreter,
        reach: Reach,
    ) -> None:
        self._addresses = addresses
        parsed = {node: Address.parse(text) for node, text in addresses.items()}
        hosts = {name: machine.address for name, machine in machines.items()}
        hosts |= {node: str(address).rpartition(":")[0] for node, address in parsed.items()}
        ports = {node: address.port for node, address in parsed.items()}
        cluster = OwnCluster(campaign, hosts, reach=reach, ports=ports)
        super().__init__(campaign, machines, cluster, interpreter)

    def server_address(self, node: str) -> str:
        return self._addresses[node]

    def store_folder(self, node: str) -> str:
        raise LookupError(
            f"{node} belongs to an external cluster; its files cannot be read from here"
        )

    def server_launch_spec(self, node: str, name_servers: Sequence[str]) -> LaunchSpec:
        raise LookupError(f"{node} belongs to an external cluster; it cannot be started from here")
