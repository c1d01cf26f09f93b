"""Delays packets where the kernel has no netem: nodes with packet filters reach each other through a proxy.

The proxy then also cuts links, because packet filters behind it could not distinguish the nodes. Black holes and
bandwidth limits are still done by the kernel.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace

from staticfire.faults.model.capabilities import NetworkControl
from staticfire.faults.proxy import Proxy, ProxyNetwork
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.environments.real.broken_machines import BreakableMachines
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.environments.real.machine_provider import MachineControls

DELAY_NEED = "network.delay"


class NodeProxy:
    """The proxy of one run, on an address of this host that every node can reach; not started until `start`."""

    def __init__(self) -> None:
        self._proxy: Proxy | None = None
        self._network: ProxyNetwork | None = None

    async def start(self, listen: str, servers: Mapping[str, str]) -> None:
        """Start to proxy the servers, given as nodes with their addresses. Raises OSError."""
        self._proxy = Proxy(listen=listen, on_event=_tell)
        await self._proxy.start()
        every_port = {node: [f"{address}:*"] for node, address in servers.items()}
        self._network = ProxyNetwork(self._proxy, every_port)

    async def stop(self) -> None:
        if self._proxy is not None:
            await self._proxy.stop()
            self._proxy = None

    def reach(self, node: str, address: str, kind: ServerKind) -> str:
        """Implements `staticfire.harness.environments.real.machine_provider.Rerouting`."""
        if self._proxy is None:
            return address
        return self._proxy.address_for(address, kind=kind, client=node)

    @property
    def network(self) -> NetworkControl | None:
        """Return the network control of the proxy alone; None if it was not started."""
        return self._network

    def over(self, kernel: NetworkControl | None) -> NetworkControl | None:
        """Return the network control of a provider: the kernel's, or the proxy's if it is started."""
        if self._network is None or kernel is None:
            return kernel
        return ProxiedNetwork(self._network, kernel)


class ProxiedMachines:
    """The part of a provider of breakable machines that holds their proxy. `up` makes the machines."""

    def __init__(self) -> None:
        self._machines: BreakableMachines | None = None
        self._proxy = NodeProxy()

    def controls(self, environment: RealEnvironment) -> MachineControls:
        assert self._machines is not None, "the machines are up"
        controls = self._machines.controls(environment)
        return replace(controls, network=self._proxy.over(controls.network))

    def reach(self, node: str, address: str, kind: ServerKind) -> str:
        """Implements `staticfire.harness.environments.real.machine_provider.Rerouting`."""
        return self._proxy.reach(node, address, kind)


class ProxiedNetwork:
    """Implements `NetworkControl` by a proxy for links, by the kernel for machines."""

    def __init__(self, links: ProxyNetwork, kernel: NetworkControl) -> None:
        self._links = links
        self._kernel = kernel

    async def drop(self, *, source: str, target: str) -> None:
        await self._links.drop(source=source, target=target)

    async def restore(self, *, source: str, target: str) -> None:
        await self._links.restore(source=source, target=target)

    async def heal(self) -> None:
        await self._links.heal()
        await self._kernel.heal()

    async def dropped(self, *, source: str, target: str) -> int:
        return await self._links.dropped(source=source, target=target)

    async def delay(self, node: str, milliseconds: float) -> None:
        await self._links.delay(node, milliseconds)

    async def lose(self, node: str, percent: float) -> None:
        await self._kernel.lose(node, percent)

    async def limit(self, node: str, bits_per_s: int) -> None:
        await self._kernel.limit(node, bits_per_s)

    async def black_hole(self, node: str) -> None:
        await self._kernel.black_hole(node)

    async def end_black_hole(self, node: str) -> None:
        await self._kernel.end_black_hole(node)

    async def swallowed(self, node: str) -> int:
        return await self._kernel.swallowed(node)

    async def traffic_counters(self, node: str) -> dict[str, int]:
        """Return the counters of both the proxy and the kernel."""
        links = await self._links.traffic_counters(node)
        kernel = await self._kernel.traffic_counters(node)
        return {name: links.get(name, 0) + count for name, count in kernel.items()}


def _tell(text: str) -> None:
    print(f"staticfire: {text}", file=sys.stderr)
