"""The environment `processes`: every node is a process of this host, on a loopback address of its own.

It needs no root. If a plan holds partitions, delays or limits, nodes reach each other through a proxy.
"""

from __future__ import annotations

import secrets
import socket
import sys
from collections.abc import Mapping, Sequence, Set

from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.resources import Resource, removal_order
from staticfire.faults.proxy.core.network import PROXY_LACKS
from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.environments.real.environment import RealEnvironment
from staticfire.harness.environments.real.linux_controls import LoopDisks
from staticfire.harness.environments.real.machine_provider import MachineControls
from staticfire.harness.environments.real.proxied import NodeProxy
from staticfire.harness.environments.real.run_files import check_room, make_run_folder
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.local import LocalMachine
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import MachineOptions
from staticfire.harness.state import state_folder
from staticfire.harness.targets.interpreter import OurInterpreter

NO_DISKS = "processes share the disk of this host; --environment namespaces has disks of its own"
NO_CLOCKS = "processes share the clock of this host; --environment namespaces can fake clocks"
# Needs that take a disk of the node's own. Changes of a node's files need none.
BREAKS_DISKS = ("power_cut", "power_cut_at", "fill", "fail", "slow", "wipe", "destroy")
LOOPBACK = "127.0.0.1"
PROBED_PORT = 10911
ATTEMPTS = 50


class ProcessProvider(OurInterpreter):
    """Implements `MachineProvider` with nothing but processes and a temporary folder."""

    def __init__(self, options: MachineOptions) -> None:
        self.lacks: Mapping[str, str] = {
            **{f"disk.{what}": NO_DISKS for what in BREAKS_DISKS},
            "clock": NO_CLOCKS,
            **PROXY_LACKS,
        }
        self._inventory: Inventory | None = None
        self._proxy = NodeProxy()
        self._stores: dict[str, tuple[LinuxMachine, str]] = {}

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Raises EnvironmentFailed where loopback has only one address."""
        check_room()
        inventory = self._inventory = Inventory.begin(state_folder())
        folder = make_run_folder()
        inventory.will_make(Resource(kind="folder", name=str(folder)))
        inventory.will_make_marked_processes()
        machine = LinuxMachine(executor=LocalExecutor(), inventory=inventory, python=sys.executable)
        block = _free_block(len(nodes))
        machines: dict[str, Machine] = {}
        for number, node in enumerate(nodes, 1):
            own = folder / node
            own.mkdir()
            self._stores[node] = (machine, str(own))
            log = own / "log.jsonl"
            machines[node] = LocalMachine(
                node, f"{block}.{number}", own, log, variables=inventory.mark
            )
        if any(need.partition(".")[0] == "network" for need in needs):
            await self._proxy.start(LOOPBACK, {node: machines[node].address for node in servers})
        return machines

    def reach(self, node: str, address: str, kind: ServerKind) -> str:
        """Implements `staticfire.harness.environments.real.machine_provider.Rerouting`."""
        return self._proxy.reach(node, address, kind)

    def controls(self, environment: RealEnvironment) -> MachineControls:
        return MachineControls(
            network=self._proxy.network, disk=LoopDisks(environment, {}, {}, self._stores)
        )

    async def down(self) -> None:
        """Remove the proxy and the temporary folder. All processes must have ended."""
        await self._proxy.stop()
        inventory, self._inventory = self._inventory, None
        if inventory is not None:
            for resource in removal_order(inventory.made):
                await inventory.remove(resource, LocalExecutor())
            inventory.close()


def _free_block(count: int) -> str:
    """Return the first three numbers of loopback addresses on which no process listens. Raises EnvironmentFailed."""
    if sys.platform != "linux":
        raise EnvironmentFailed(
            f"--environment processes needs Linux, where all of 127.0.0.0/8 is loopback; this is {sys.platform}"
        )
    for _ in range(ATTEMPTS):
        block = f"127.{secrets.randbelow(200) + 20}.{secrets.randbelow(250) + 1}"
        if all(_is_free(f"{block}.{number}") for number in range(1, count + 1)):
            return block
    raise EnvironmentFailed(
        "no free block of loopback addresses was found; end other clusters first"
    )


def _is_free(address: str) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((address, PROBED_PORT))
            probe.listen()
        except OSError:
            return False
    return True
