"""The environment `ssh`: nodes on hosts that let root in. Each server has a host of its own; clients share the rest."""

from __future__ import annotations

import asyncio
import io
import socket
import sys
import tarfile
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import Firewall
from staticfire.harness.environments.real.broken_machines import (
    LOSS_NEED,
    NETEM_NEEDS,
    NO_NETEM,
    BreakableMachines,
    lacks_on_disks,
)
from staticfire.harness.environments.real.proxied import ProxiedMachines
from staticfire.harness.environments.real.ssh.checks import (
    check_cpp,
    check_host,
    check_python,
    our_address,
)
from staticfire.harness.environments.real.ssh.survey import NETEM, ask
from staticfire.harness.machines import cpp_library
from staticfire.harness.machines.all_ended import all_or_first_error
from staticfire.harness.machines.errors import EnvironmentFailed
from staticfire.harness.machines.machine import Machine
from staticfire.harness.machines.options import (
    MachineOptionError,
    MachineOptions,
    SshHost,
    check_hosts,
)
from staticfire.harness.machines.ssh.connection import SshExecutor
from staticfire.harness.machines.ssh.machine import SshMachine
from staticfire.harness.targets.interpreter import code_folders

PACKAGES = ("system_under_test", "harness", "faults", "checkers")  # what nodes and clients import
UPLOAD_TIMEOUT_S = 120.0
# Hosts may share a file system and unpack at the same time, so each unpacks beside the final folder; the first wins.
UNPACK = """\
mkdir -p "${1%/*}" && new=$(mktemp -d "$1.XXXXXX") && chmod 755 "$new" || exit
tar --extract --gzip --directory "$new" || exit
mv -T "$new" "$1" 2>/dev/null && exit
rm -rf "$new"
[ -d "$1" ] || { echo "$1 cannot be made" >&2; exit 1; }
"""


class SshProvider(ProxiedMachines):
    """Implements `staticfire.harness.environments.real.machine_provider.MachineProvider`."""

    def __init__(self, options: MachineOptions) -> None:
        super().__init__()
        self.lacks: Mapping[str, str] = lacks_on_disks(options.file_system)
        self._options = options
        self._executors: dict[SshHost, SshExecutor] = {}
        self._root = ""

    @property
    def python(self) -> str:
        return self._options.ssh_python

    @property
    def code(self) -> tuple[str, ...]:
        return (f"{self._root}/code",)

    async def up(
        self, nodes: Sequence[str], *, servers: Sequence[str], needs: Set[str]
    ) -> dict[str, Machine]:
        """Raises EnvironmentFailed for too few hosts and for what a host refuses or lacks."""
        hosts = share_out(nodes, servers, self._options.hosts)
        machines = self._machines = BreakableMachines()
        self._root = f"/var/tmp/staticfire-{machines.inventory.identity}"
        self._executors = {
            host: SshExecutor(host, self._options) for host in dict.fromkeys(hosts.values())
        }
        for host in self._executors:
            machines.has_host(self._machine(host, machines))
        archive = pack(code_folders())
        found = await all_or_first_error(
            self._prepare(host, machines, archive) for host in self._executors
        )
        if cpp_library.NEED in needs:
            clients = dict.fromkeys(hosts[node] for node in nodes if node not in servers)
            await all_or_first_error(check_cpp(self._machine(host, machines)) for host in clients)
        firewalls = dict(zip(self._executors, found, strict=True))
        for node, host in hosts.items():
            machine = self._machine(host, machines)
            machines.is_on(node, machine, f"{self._root}/{node}")
            address = await asyncio.to_thread(socket.gethostbyname, host.name)
            machines.has_network(node, address, firewalls[host])
        if needs & NETEM_NEEDS:
            await self._do_without_netem(needs, servers, machines, found)
        machines.will_have_disks(servers, self._options.file_system)
        await machines.make_disks()
        await machines.make_clocks(nodes, needs)
        return {node: self._node_machine(node, host, machines) for node, host in hosts.items()}

    async def _prepare(
        self, host: SshHost, machines: BreakableMachines, archive: bytes
    ) -> Firewall:
        """Check that the host has what nodes need, and copy our code there."""
        machine = self._machine(host, machines)
        spared = await check_host(machine, self._options.file_system)
        cache_tag = await check_python(machine)
        machine.will_make("folder", self._root)
        machines.inventory.will_make_marked_processes(str(host))
        await machine.executor.run(
            ["sh", "-c", UNPACK, "sh", *self.code], input=archive, timeout_s=UPLOAD_TIMEOUT_S
        )
        if (
            cache_tag != sys.implementation.cache_tag
        ):  # without byte code each start of a node would compile
            compiling = [self.python, "-m", "compileall", "-q", *self.code]
            await machine.run(compiling, timeout_s=UPLOAD_TIMEOUT_S)
        return Firewall(machine, spared=spared)

    async def _do_without_netem(
        self,
        needs: Set[str],
        servers: Sequence[str],
        machines: BreakableMachines,
        firewalls: Sequence[Firewall],
    ) -> None:
        """Delay by a proxy on this machine if a host lacks netem. Raises EnvironmentFailed if a proxy cannot do it."""
        hosts = [firewall.machine for firewall in firewalls]
        lacking = await all_or_first_error(ask(machine.executor) for machine in hosts)
        without = [host for host, lacks in zip(hosts, lacking, strict=True) if NETEM in lacks]
        if not without:
            return
        if LOSS_NEED in needs:
            raise EnvironmentFailed(
                f"{without[0].host}: {NO_NETEM}; allowed there: faults other than packet-loss"
            )
        why = f"{without[0].host} has no netem, so delays need a proxy on this machine"
        addresses = {node: machines.addresses[node] for node in servers}
        await self._proxy.start(await our_address(why, firewalls), addresses)

    def _machine(self, host: SshHost, machines: BreakableMachines) -> LinuxMachine:
        return LinuxMachine(
            executor=self._executors[host],
            inventory=machines.inventory,
            host=str(host),
            python=self.python,
        )

    def _node_machine(self, node: str, host: SshHost, machines: BreakableMachines) -> Machine:
        return SshMachine(
            node,
            machines.addresses[node],
            machines.data_folder(node),
            machines.own_folder(node) / "log.jsonl",
            host=host,
            options=self._options,
            executor=self._executors[host],
            variables=machines.variables(node),
        )

    async def down(self) -> None:
        """Remove everything that `up` made or began to make. All processes must have ended."""
        await self._proxy.stop()
        machines, self._machines = self._machines, None
        if machines is not None:
            await machines.remove_disks_and_filters()
            await machines.remove_rest()
        for executor in self._executors.values():
            executor.close()


def share_out(
    nodes: Sequence[str], servers: Sequence[str], hosts: Sequence[SshHost]
) -> dict[str, SshHost]:
    """Assign a host to each node. Raises EnvironmentFailed unless there is a host more than servers."""
    try:
        check_hosts(hosts, len(servers))
    except MachineOptionError as error:
        raise EnvironmentFailed(str(error)) from error
    found = dict(zip(servers, hosts, strict=False))
    rest = hosts[len(servers) :]
    others = [node for node in nodes if node not in found]
    found |= {node: rest[number % len(rest)] for number, node in enumerate(others)}
    return {node: found[node] for node in nodes}


def pack(folders: Sequence[str]) -> bytes:
    """Return a compressed archive of our packages, each from the first folder that has it."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz", compresslevel=1) as archive:
        archive.add(Path(folders[0], "staticfire", "__init__.py"), "staticfire/__init__.py")
        for package in PACKAGES:
            inside = f"staticfire/{package}"
            folder = next(Path(f, inside) for f in folders if Path(f, inside).is_dir())
            archive.add(folder.resolve(), inside, filter=_sources_and_our_byte_code)
    return output.getvalue()


def _sources_and_our_byte_code(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """Keep sources, and byte code of our Python, so that a host with the same Python need not compile.

    A file of byte code names the source from which it was compiled.
    """
    ours = f".{sys.implementation.cache_tag}.pyc"
    return None if member.name.endswith(".pyc") and not member.name.endswith(ours) else member
