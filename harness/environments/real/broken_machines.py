"""Machines whose disks and networks faults can break: shared by all providers on Linux."""

from __future__ import annotations

import functools
import os
import shutil
import subprocess
import sys
from collections.abc import Iterable, Set
from pathlib import Path

from staticfire.faults.linux.clock import LIBRARY, PACKAGE, FakeClock, library_path, local_library
from staticfire.faults.linux.disks.disk_speed import THROTTLES
from staticfire.faults.linux.disks.loop_disk import FileSystem, LoopDisk
from staticfire.faults.linux.executor import SYSTEM_PATHS, Executor, LocalExecutor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import Firewall
from staticfire.faults.linux.network.traffic import TRY_NETEM, NodeTraffic
from staticfire.faults.linux.resources import removal_order
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.environments.real.linux_controls import (
    FakedClocks,
    FirewalledNetwork,
    LoopDisks,
)
from staticfire.harness.environments.real.machine_provider import MachineControls
from staticfire.harness.environments.real.run_files import check_room, make_run_folder
from staticfire.harness.machines.all_ended import all_or_first_error
from staticfire.harness.state import state_folder

NO_CUT_AT = "only the simulation can cut the power inside a chosen disk operation"
# Needs that no real machine can meet, with the reasons.
SIMULATED_ONLY = {"disk.power_cut_at": NO_CUT_AT}
NO_EIO = "on xfs metadata are everywhere, and no fsync can fail alone: --file-system ext4"
NO_NETEM = "this kernel has no netem, and a proxy, which can delay, sees no packets to lose"
LOSS_NEED = "network.lose"
NETEM_NEEDS = frozenset({"network.delay", LOSS_NEED})
CLOCK_NEED = "clock.step"


def lacks_on_disks(file_system: FileSystem) -> dict[str, str]:
    """Return the needs that real machines with disks of this file system cannot meet, with the reasons."""
    return SIMULATED_ONLY if file_system == "ext4" else {**SIMULATED_ONLY, "disk.fail": NO_EIO}


def lacks_here(file_system: FileSystem = "ext4") -> dict[str, str]:
    """Return the needs that this host cannot meet, each with the reason and the remedy."""
    lacks = dict(lacks_on_disks(file_system))
    if not netem_is_here():
        lacks[LOSS_NEED] = NO_NETEM
    if local_library() is None:
        lacks["clock"] = f"there is no {LIBRARY} on this machine; install the package {PACKAGE}"
    if not any(Path(file).exists() for file in THROTTLES):
        lacks["disk.slow"] = "no cgroup of this machine can throttle a disk"
    return lacks


@functools.cache
def netem_is_here() -> bool:
    """Whether this kernel has netem; tried once. Without root no fault can use netem, and the result is true."""
    if os.geteuid() != 0:
        return True
    variables = {**os.environ, "PATH": f"{os.environ.get('PATH', '')}:{SYSTEM_PATHS}"}
    try:
        tried = subprocess.run(TRY_NETEM, env=variables, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return tried.returncode == 0


class BreakableMachines:
    """Journal, run folder, disks and packet filters of the nodes of one run.

    The constructor makes the journal and a folder on this host; the provider's `up` makes the rest.

    A node's machine is this host, unless `is_on` says otherwise.
    """

    def __init__(self) -> None:
        check_room()
        self.inventory = Inventory.begin(state_folder())
        self.folder = make_run_folder()
        self.host = LinuxMachine(
            executor=LocalExecutor(), inventory=self.inventory, python=sys.executable
        )
        self._executors: dict[str, Executor] = {"": self.host.executor}
        self.host.will_make("folder", str(self.folder))
        self._elsewhere: dict[str, tuple[LinuxMachine, str]] = {}
        self.addresses: dict[str, str] = {}
        self._disks: dict[str, LoopDisk] = {}
        self._firewalls: dict[str, Firewall] = {}
        self._traffic: dict[str, NodeTraffic] = {}
        self.clocks: dict[str, FakeClock] = {}

    def has_host(self, machine: LinuxMachine) -> None:
        """Register another machine, on which the journal removes what the run makes there."""
        self._executors[machine.host] = machine.executor

    def is_on(self, node: str, machine: LinuxMachine, folder: str) -> None:
        """Place the node on another machine, with this folder there."""
        self.has_host(machine)
        self._elsewhere[node] = (machine, folder)

    def _where(self, node: str) -> tuple[LinuxMachine, str]:
        return self._elsewhere.get(node) or (self.host, str(self.own_folder(node)))

    async def make_clocks(self, nodes: Iterable[str], needs: Set[str]) -> None:
        """Give each node a clock of its own if a fault of the plan steps one, since reading such a clock is slow."""
        if CLOCK_NEED not in needs:
            return
        for node in nodes:
            machine, folder = self._where(node)
            await machine.run(["mkdir", "-p", f"{folder}/clock"])
            library = await library_path(machine)
            self.clocks[node] = FakeClock(machine, f"{folder}/clock/offset", library)
            await self.clocks[node].create()

    def variables(self, node: str) -> dict[str, str]:
        """Return the environment variables of every process of the node."""
        clock = self.clocks[node].environment if node in self.clocks else {}
        return {**self.inventory.mark, **clock}

    def will_have_disks(self, nodes: Iterable[str], file_system: FileSystem) -> None:
        """Plan a disk for each of these nodes. `data_folder` returns its path at once; `make_disks` makes it."""
        for node in nodes:
            machine, folder = self._where(node)
            self._disks[node] = LoopDisk(machine, f"{folder}/disk", file_system=file_system)

    async def make_disks(self) -> None:
        """Make the planned disks. Raises CommandFailed."""
        await all_or_first_error(disk.create() for disk in self._disks.values())

    def own_folder(self, node: str) -> Path:
        """Return a folder on this host for files that do not belong on the node's disk, such as its log."""
        own = self.folder / node
        own.mkdir(exist_ok=True)
        return own

    def data_folder(self, node: str) -> str:
        """Return the folder of the node's files on its machine; on its own disk, if it has one."""
        disk = self._disks.get(node)
        return self._where(node)[1] if disk is None else disk.data_folder

    def has_network(self, node: str, address: str, firewall: Firewall) -> None:
        """Note the address of the node, and its packet filter, which other nodes may share."""
        self.addresses[node] = address
        self._firewalls[node] = firewall
        self._traffic[node] = NodeTraffic(firewall.machine, address)

    def controls(self, environment: RealEnvironment) -> MachineControls:
        return MachineControls(
            network=FirewalledNetwork(self._firewalls, self.addresses, self._traffic),
            disk=LoopDisks(environment, self._disks, self._firewalls, self._stores()),
            clock=FakedClocks(self.clocks),
        )

    def _stores(self) -> dict[str, tuple[LinuxMachine, str]]:
        return {node: (self._where(node)[0], self.data_folder(node)) for node in self._disks}

    async def remove_disks_and_filters(self) -> None:
        """Remove disks and packet filters. The nodes' processes must have ended, their namespaces still exist."""
        for disk in self._disks.values():
            await disk.remove()
        for traffic in self._traffic.values():
            await traffic.heal()
        for firewall in self._firewalls.values():
            await firewall.heal()

    async def remove_rest(self) -> None:
        shutil.rmtree(self.folder, ignore_errors=True)
        for resource in removal_order(self.inventory.made):
            await self.inventory.remove(resource, self._executors[resource.host])
        self.inventory.close()
