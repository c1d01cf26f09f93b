"""What every fleet on Linux shares: its journal, its folder, and the disk and the packet filter of each node."""

from __future__ import annotations

import asyncio
import shutil
import sys
import tempfile
from collections.abc import Iterable, Set
from pathlib import Path

from faults.linux.clock import LIBRARY, PACKAGE, FakeClock, local_library
from faults.linux.disk_speed import THROTTLES
from faults.linux.executor import LocalExecutor
from faults.linux.firewall import Firewall
from faults.linux.inventory import Inventory
from faults.linux.loop_disk import LoopDisk
from faults.linux.machine import Machine
from harness.environments.fleet import MachineControls
from harness.environments.linux_controls import FakedClocks, FirewalledNetwork, LoopDisks
from harness.environments.real import RealEnvironment
from harness.environments.state import state_folder

NO_CUT_AT = "only the simulation can cut the power inside a chosen disk operation"
CLOCK_NEED = "clock.step"


def lacks_here() -> dict[str, str]:
    """What this host cannot do, by need, each with the reason and the cure."""
    lacks = {"disk.power_cut_at": NO_CUT_AT}
    if local_library() is None:
        lacks["clock"] = f"there is no {LIBRARY} on this machine; install the package {PACKAGE}"
    if not any(Path(file).exists() for file in THROTTLES):
        lacks["disk.slow"] = "no cgroup of this machine can throttle a disk"
    return lacks


class BreakableMachines:
    """On this host: `folder` and the journal are there at once, the rest is made by the fleet's `up`."""

    def __init__(self) -> None:
        self.inventory = Inventory.begin(state_folder())
        self.host = Machine(
            executor=LocalExecutor(), inventory=self.inventory, python=sys.executable
        )
        self.folder = Path(tempfile.mkdtemp(prefix="staticfire-"))
        self.host.will_make("folder", str(self.folder))
        self.addresses: dict[str, str] = {}
        self._disks: dict[str, LoopDisk] = {}
        self._firewalls: dict[str, Firewall] = {}
        self.clocks: dict[str, FakeClock] = {}

    async def make_clocks(self, nodes: Iterable[str], needs: Set[str]) -> None:
        """A clock of its own for each node, if a fault of the plan is to change one: they are slow to look at."""
        library = local_library()
        if CLOCK_NEED not in needs or library is None:
            return
        for node in nodes:
            folder = self.own_folder(node) / "clock"
            folder.mkdir()
            self.clocks[node] = FakeClock(self.host, str(folder / "offset"), library)
            await self.clocks[node].create()

    def variables(self, node: str) -> dict[str, str]:
        """What every process of the node has in its environment."""
        clock = self.clocks[node].environment if node in self.clocks else {}
        return {**self.inventory.mark, **clock}

    async def make_disks(self, nodes: Iterable[str]) -> None:
        """A disk of its own for each of these nodes. Raises CommandFailed."""
        for node in nodes:
            self._disks[node] = LoopDisk(self.host, str(self.folder / node / "disk"))
        await asyncio.gather(*(disk.create() for disk in self._disks.values()))

    def own_folder(self, node: str) -> Path:
        """For what is no business of the node's disk, such as its log."""
        own = self.folder / node
        own.mkdir(exist_ok=True)
        return own

    def data_folder(self, node: str) -> Path:
        """For the node's files: on its disk, if it has one."""
        disk = self._disks.get(node)
        return self.own_folder(node) if disk is None else Path(disk.data_folder)

    def has_network(self, node: str, address: str, network: Machine) -> None:
        """The node is reached at this address, and `network` is its network namespace."""
        self.addresses[node] = address
        self._firewalls[node] = Firewall(network)

    def controls(self, environment: RealEnvironment) -> MachineControls:
        return MachineControls(
            network=FirewalledNetwork(self._firewalls, self.addresses),
            disk=LoopDisks(environment, self._disks, self._firewalls),
            clock=FakedClocks(self.clocks),
        )

    async def remove_disks_and_filters(self) -> None:
        """The processes of the nodes have ended; their network namespaces are still there."""
        for disk in self._disks.values():
            await disk.remove()
        for firewall in self._firewalls.values():
            await firewall.heal()

    async def remove_rest(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for resource in self.inventory.made:
            await self.inventory.remove(resource, LocalExecutor())
        self.inventory.close()
