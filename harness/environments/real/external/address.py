"""The environment `address`: a cluster that runs already, with our clients behind a proxy in front of it.

The proxy breaks links between clients and servers. The harness does not touch servers or the links between them.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Mapping, Sequence, Set

from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.resources import Resource, removal_order
from staticfire.faults.model.capabilities import OWN_BROKERS, OWN_NEED, SERVERS_NEED
from staticfire.faults.proxy import Proxy, ProxyNetwork
from staticfire.faults.proxy.core.network import PROXY_LACKS
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.campaign.campaign import Campaign
from staticfire.harness.clients.names import ADMIN, PROBE
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.environments.real.external.cluster_watch import ClusterWatch
from staticfire.harness.environments.real.external.external_cluster import (
    find_cluster,
    remove_traces,
)
from staticfire.harness.environments.real.machine_provider import MachineControls
from staticfire.harness.environments.real.run_files import check_room, make_run_folder
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.local import LocalMachine
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.state import state_folder
from staticfire.harness.targets.interpreter import OurInterpreter
from staticfire.harness.workloads.catalogue import WORKLOADS
from staticfire.harness.workloads.side_names import side_scopes

HOST = "127.0.0.1"
SERVERS = "servers at --name-server belong to an external cluster, which the harness neither stops nor configures"
BETWEEN = "the proxy is between clients and servers, and sees nothing between servers"
DISKS = "servers at --name-server keep their disks"
CLOCKS = "servers at --name-server keep their clocks"
LACKS: Mapping[str, str] = {
    **PROXY_LACKS,
    "process.server": SERVERS,
    "cluster.set_bootstrap": SERVERS,
    SERVERS_NEED: SERVERS,
    OWN_NEED: OWN_BROKERS,
    "network.between_servers": BETWEEN,
    "disk": DISKS,
    "clock": CLOCKS,
}


class AddressProvider(OurInterpreter):
    """Implements `MachineProvider`: clients are processes of this machine, servers run elsewhere already."""

    def __init__(self, options: MachineOptions) -> None:
        self.lacks: Mapping[str, str] = LACKS
        self.addresses: Mapping[str, str] = {}  # `host:port` of each server
        self._name_servers = options.name_servers
        self._inventory: Inventory | None = None
        self._proxy: Proxy | None = None
        self._network: ProxyNetwork | None = None
        self._watch: ClusterWatch | None = None
        self._traces: list[tuple[str, str]] = []  # topics and groups
        self._masters: list[str] = []  # their addresses

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Raises EnvironmentFailed if the cluster does not answer, or is not the one for which the plan was made."""
        self.addresses = await self._find(servers)
        check_room()
        inventory = self._inventory = Inventory.begin(state_folder())
        folder = make_run_folder()
        inventory.will_make(Resource(kind="folder", name=str(folder)))
        inventory.will_make_marked_processes()
        machines: dict[str, Machine] = {}
        for node in nodes:
            own = folder / node
            own.mkdir()
            log = own / "log.jsonl"
            machines[node] = LocalMachine(node, HOST, own, log, variables=inventory.mark)
        self._proxy = Proxy(on_event=_tell)
        await self._proxy.start()
        self._network = ProxyNetwork(
            self._proxy, {node: [address] for node, address in self.addresses.items()}
        )
        self._watch = ClusterWatch(
            {node: (self.addresses[node], self._kind(node)) for node in servers}
        )
        self._watch.start()
        return machines

    def _kind(self, node: str) -> ServerKind:
        is_name_server = self.addresses[node] in self._name_servers
        return ServerKind.NAME_SERVER if is_name_server else ServerKind.BROKER

    @property
    def gone(self) -> asyncio.Future[str]:
        """Implements `staticfire.harness.environments.real.machine_provider.Vanishing`."""
        assert self._watch is not None, "the machines are up"
        return self._watch.gone

    async def _find(self, servers: Sequence[str]) -> dict[str, str]:
        found = await find_cluster(self._name_servers)
        addresses = {
            **{f"ns-{number}": each for number, each in enumerate(self._name_servers, 1)},
            **{name.replace(":", "-"): each for name, each in found.brokers.items()},
        }
        if sorted(addresses) != sorted(servers):
            raise EnvironmentFailed(
                f"the cluster has changed: it has {', '.join(addresses)} now, "
                f"and the plan is made for {', '.join(servers)}"
            )
        return addresses

    def reach(self, node: str, address: str, kind: ServerKind) -> str:
        """Implements `Rerouting`. The harness's own clients bypass the proxy, since no fault touches them."""
        if self._proxy is None or node in (ADMIN, PROBE):
            return address
        return self._proxy.address_for(address, kind=kind, client=node)

    def controls(self, environment: RealEnvironment) -> MachineControls:
        assert self._watch is not None, "the machines are up"
        environment.foreign_states = self._watch.states
        self._traces = traces_of(environment.campaign)
        self._masters = [self.addresses[master.node] for master in environment.topology.leaders]
        return MachineControls(network=self._network)

    async def down(self) -> None:
        """Remove the proxy and the run's traces in the cluster. All clients must have ended."""
        if self._watch is not None:
            await self._watch.stop()
            self._watch = None
        if self._proxy is not None:
            await self._proxy.stop()
            self._proxy = None
        try:
            for topic, group in self._traces:
                await remove_traces(
                    self._name_servers, self._masters, topic=topic, group=group, say=_tell
                )
        finally:
            await self._remove()

    async def _remove(self) -> None:
        inventory, self._inventory = self._inventory, None
        if inventory is not None:
            for resource in removal_order(inventory.made):
                await inventory.remove(resource, LocalExecutor())
            inventory.close()


def traces_of(campaign: Campaign) -> list[tuple[str, str]]:
    """Return the run's own topics and groups: those whose names begin with the campaign's, which hold its token."""
    members = WORKLOADS[campaign.workload].members(campaign)
    pairs = (
        (campaign.topic, campaign.group),
        *((member.topic, member.group) for member in members),
        *(pair for planned in campaign.plan for pair in side_scopes(campaign, planned)),
    )
    return [
        (topic, group)
        for topic, group in dict.fromkeys(pairs)
        if topic.startswith(campaign.topic) and group.startswith(campaign.group)
    ]


def _tell(text: str) -> None:
    print(f"staticfire: {text}", file=sys.stderr)
