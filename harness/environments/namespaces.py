"""The environment `namespaces`: nodes in network namespaces, servers on disks of their own. Needs root on Linux."""

from __future__ import annotations

import asyncio
import os
import shutil
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from faults.linux.executor import LocalExecutor
from faults.linux.firewall import Firewall
from faults.linux.inventory import Inventory
from faults.linux.loop_disk import LoopDisk
from faults.linux.machine import Machine
from faults.linux.network import Network
from harness.environments.errors import EnvironmentFailed
from harness.environments.fleet import MachineControls
from harness.environments.linux_controls import FirewalledNetwork, LoopDisks
from harness.environments.local_place import LocalPlace
from harness.environments.place import Place
from harness.environments.real import RealEnvironment
from harness.environments.state import state_folder

NEEDED = {"ip": "iproute2", "nft": "nftables", "losetup": "mount", "mkfs.ext4": "e2fsprogs"}
NO_CUT_AT = "only the simulation can cut the power inside a chosen disk operation"


class NamespaceFleet:
    """Implements `harness.environments.fleet.Fleet`."""

    def __init__(self) -> None:
        self.lacks: Mapping[str, str] = {
            "disk.power_cut_at": NO_CUT_AT,
            "disk.slow": "not yet",
            "clock": "not yet",
        }
        self._folder: Path | None = None
        self._inventory: Inventory | None = None
        self._network: Network | None = None
        self._disks: dict[str, LoopDisk] = {}
        self._firewalls: dict[str, Firewall] = {}
        self._addresses: dict[str, str] = {}

    async def up(self, nodes: Sequence[str], *, servers: Sequence[str]) -> dict[str, Place]:
        """Raises EnvironmentFailed without root or a tool, CommandFailed where the kernel refuses."""
        check_machine()
        inventory = self._inventory = Inventory.begin(state_folder())
        machine = Machine(executor=LocalExecutor(), inventory=inventory, python=sys.executable)
        self._folder = Path(tempfile.mkdtemp(prefix="staticfire-"))
        machine.will_make("folder", str(self._folder))
        inventory.will_make_marked_processes()
        self._network = Network(machine)
        await self._network.create()
        for node in nodes:
            await self._network.add(node)
        for node in servers:
            self._disks[node] = LoopDisk(machine, str(self._folder / node / "disk"))
        places = {node: self._place(node, machine) for node in nodes}
        await asyncio.gather(*(disk.create() for disk in self._disks.values()))
        return places

    def _place(self, node: str, machine: Machine) -> Place:
        assert self._folder is not None
        assert self._network is not None
        own = self._folder / node
        own.mkdir()
        namespace = self._network.nodes[node]
        self._addresses[node] = namespace.address
        self._firewalls[node] = Firewall(machine.behind(namespace.prefix))
        data = Path(self._disks[node].data_folder) if node in self._disks else own
        return LocalPlace(
            node,
            namespace.address,
            data,
            own / "log.jsonl",
            prefix=namespace.prefix,
            variables=machine.inventory.mark,
        )

    def controls(self, environment: RealEnvironment) -> MachineControls:
        return MachineControls(
            network=FirewalledNetwork(self._firewalls, self._addresses),
            disk=LoopDisks(environment, self._disks, self._firewalls),
        )

    async def down(self) -> None:
        """Everything that was made, also half of it; the processes have ended."""
        if self._inventory is None:
            return
        for disk in self._disks.values():
            await disk.remove()
        for firewall in self._firewalls.values():
            await firewall.heal()
        if self._network is not None:
            await self._network.remove()
        if self._folder is not None:
            shutil.rmtree(self._folder)
        for resource in self._inventory.made:
            await self._inventory.remove(resource, LocalExecutor())
        self._inventory.close()
        self._inventory = None


def check_machine() -> None:
    """Raises EnvironmentFailed, with what is to be done, where namespaces cannot be made."""
    if sys.platform != "linux" or os.geteuid() != 0:
        raise EnvironmentFailed("--environment namespaces needs root on Linux; run it with sudo")
    path = f"{os.environ.get('PATH', '')}:/usr/local/sbin:/usr/sbin:/sbin"
    for tool, package in NEEDED.items():
        if shutil.which(tool, path=path) is None:
            raise EnvironmentFailed(
                f"--environment namespaces needs the command {tool}; install the package {package}"
            )
