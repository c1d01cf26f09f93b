"""The environment `namespaces`: nodes in network namespaces, servers on disks of their own. Needs root on Linux."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from staticfire.faults.linux.disks.loop_disk import FileSystem
from staticfire.faults.linux.executor import SYSTEM_PATHS
from staticfire.faults.linux.network.firewall import Firewall
from staticfire.faults.linux.network.network import Network
from staticfire.harness.environments.real.broken_machines import (
    BreakableMachines,
    lacks_here,
    netem_is_here,
)
from staticfire.harness.environments.real.proxied import DELAY_NEED, ProxiedMachines
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.local import LocalMachine
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.targets.interpreter import OurInterpreter

TOOLS = {
    "ip": "iproute2",
    "nft": "nftables",
    "losetup": "mount",
    "nsenter": "util-linux",
}
MKFS_TOOLS: Mapping[FileSystem, dict[str, str]] = {
    "ext4": {"mkfs.ext4": "e2fsprogs"},
    "xfs": {"mkfs.xfs": "xfsprogs"},
}


class NamespaceProvider(ProxiedMachines, OurInterpreter):
    """Implements `staticfire.harness.environments.real.machine_provider.MachineProvider`."""

    def __init__(self, options: MachineOptions) -> None:
        super().__init__()
        self.lacks: Mapping[str, str] = lacks_here(options.file_system)
        self._file_system = options.file_system
        self._network: Network | None = None

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Raises EnvironmentFailed without root or a tool, CommandFailed where the kernel refuses."""
        check_root("namespaces", tools_for(self._file_system))
        machines = self._machines = BreakableMachines()
        machines.inventory.will_make_marked_processes()
        network = self._network = Network(machines.host)
        await network.create()
        for node in nodes:
            found = await network.add(node)
            machines.has_network(node, found.address, Firewall(machines.host.behind(found.prefix)))
        if DELAY_NEED in needs and not netem_is_here():
            addresses = {node: machines.addresses[node] for node in servers}
            await self._proxy.start(network.host_address, addresses)
        machines.will_have_disks(servers, self._file_system)
        await machines.make_disks()
        await machines.make_clocks(nodes, needs)
        return {node: self._machine(node, machines, network) for node in nodes}

    def _machine(self, node: str, machines: BreakableMachines, network: Network) -> Machine:
        return LocalMachine(
            node,
            machines.addresses[node],
            Path(machines.data_folder(node)),
            machines.own_folder(node) / "log.jsonl",
            prefix=network.nodes[node].prefix,
            variables=machines.variables(node),
        )

    async def down(self) -> None:
        """Remove everything that `up` made or began to make. All processes must have ended."""
        await self._proxy.stop()
        machines, self._machines = self._machines, None
        if machines is None:
            return
        await machines.remove_disks_and_filters()
        if self._network is not None:
            await self._network.remove()
        await machines.remove_rest()


def tools_for(file_system: FileSystem) -> dict[str, str]:
    """Return the commands that machines with such disks need, each with its package."""
    return {**TOOLS, **MKFS_TOOLS[file_system]}


def check_root(environment: str, tools: Mapping[str, str]) -> None:
    """Raises EnvironmentFailed, which names the cure, without root or one of the tools (command: package)."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise EnvironmentFailed(
            f"--environment {environment} needs root on Linux; run it with sudo"
        )
    path = f"{os.environ.get('PATH', '')}:{SYSTEM_PATHS}"
    for tool, package in tools.items():
        if shutil.which(tool, path=path) is None:
            raise EnvironmentFailed(
                f"--environment {environment} needs the command {tool}; install the package {package}"
            )
