"""The environment `ssh`: nodes on hosts that let root in. Each server has a host of its own; clients share the rest."""

from __future__ import annotations

import asyncio
import io
import shlex
import socket
import sys
import tarfile
from collections.abc import Mapping, Sequence, Set
from pathlib import Path

from faults.linux.executor import CommandFailed
from faults.linux.firewall import Firewall
from faults.linux.machine import Machine
from faults.linux.traffic import has_netem
from harness.environments import cpp_library
from harness.environments.all_ended import all_or_first_error
from harness.environments.broken_machines import (
    NETEM_NEEDS,
    NO_CUT_AT,
    NO_NETEM,
    BreakableMachines,
)
from harness.environments.errors import EnvironmentFailed
from harness.environments.fleet import MachineControls
from harness.environments.fleet_options import (
    FleetOptionError,
    FleetOptions,
    SshHost,
    check_hosts,
)
from harness.environments.namespaces import TOOLS
from harness.environments.place import Order, Place
from harness.environments.real import RealEnvironment
from harness.environments.ssh_connection import SshExecutor, SshProcess, connect
from harness.targets.interpreter import code_folders

PACKAGES = ("system_under_test", "harness", "faults", "checkers")  # what nodes and clients import
UPLOAD_TIMEOUT_S = 120.0
# What a host needs: its answer is who we are there, where it sees us, and the tools that it lacks.
CHECK_HOST = """\
id -u; echo "${SSH_CLIENT%% *}"
for tool in "$@"; do command -v "$tool" > /dev/null || echo "$tool"; done
"""
# Not imported: that would take as long as the start of a node. Says which byte code this Python reads.
CHECK_PYTHON = """
import sys
from importlib.util import find_spec
lacks = [name for name in ("orjson", "numpy") if find_spec(name) is None]
if sys.version_info < (3, 11):
    lacks.insert(0, "3.11: it is " + sys.version.split()[0])
print(sys.implementation.cache_tag)
sys.exit("lacks " + ", ".join(lacks) if lacks else 0)
"""
UNPACK = 'mkdir -p "$1" && tar --extract --gzip --directory "$1"'


class SshPlace:
    """Implements `harness.environments.place.Place`."""

    def __init__(
        self,
        node: str,
        address: str,
        folder: str,
        log: Path,
        *,
        host: SshHost,
        options: FleetOptions,
        executor: SshExecutor,
        variables: Mapping[str, str],
    ) -> None:
        self.node = node
        self.address = address
        self.folder = folder
        self.log = log
        self._host = host
        self._options = options
        self._executor = executor
        self._variables = variables

    async def launch(self, order: Order) -> SshProcess:
        for path, data in order.files.items():
            script = 'mkdir -p "$(dirname "$1")" && cat > "$1"'
            await self._executor.run(["sh", "-c", script, "sh", path], input=data)
        variables = [
            f"{name}={value}" for name, value in {**order.variables, **self._variables}.items()
        ]
        command = shlex.join(["env", *variables, *order.argv])
        process = await asyncio.to_thread(self._start, command)
        process.listen()
        return process

    def _start(self, command: str) -> SshProcess:
        return SshProcess(connect(self._host, self._options), command, self.log, self._executor)

    async def read_files(self, folder: str) -> dict[str, bytes]:
        archive = await self._executor.run(
            ["tar", "--create", "--directory", folder, "."], timeout_s=UPLOAD_TIMEOUT_S
        )
        with tarfile.open(fileobj=io.BytesIO(archive)) as files:
            found = (
                (member.name.removeprefix("./"), files.extractfile(member)) for member in files
            )
            return {f"{folder}/{name}": file.read() for name, file in found if file is not None}


class SshFleet:
    """Implements `harness.environments.fleet.Fleet`."""

    def __init__(self, options: FleetOptions) -> None:
        self.lacks: Mapping[str, str] = {"disk.power_cut_at": NO_CUT_AT}
        self._options = options
        self._machines: BreakableMachines | None = None
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
    ) -> dict[str, Place]:
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
            await all_or_first_error(self._check_cpp(host, machines) for host in clients)
        if needs & NETEM_NEEDS:
            await self._check_netem(machines)
        firewalls = dict(zip(self._executors, found, strict=True))
        for node, host in hosts.items():
            machine = self._machine(host, machines)
            machines.is_on(node, machine, f"{self._root}/{node}")
            address = await asyncio.to_thread(socket.gethostbyname, host.name)
            machines.has_network(node, address, firewalls[host])
        machines.will_have_disks(servers)
        await machines.make_disks()
        await machines.make_clocks(nodes, needs)
        return {node: self._place(node, host, machines) for node, host in hosts.items()}

    async def _prepare(
        self, host: SshHost, machines: BreakableMachines, archive: bytes
    ) -> Firewall:
        """Look whether the host has what nodes need, and bring our code there."""
        machine = self._machine(host, machines)
        told_from = await check_host(host, machine)
        cache_tag = await self._check_python(host, machine)
        machine.will_make("folder", self._root)
        machines.inventory.will_make_marked_processes(str(host))
        await machine.executor.run(
            ["sh", "-c", UNPACK, "sh", *self.code], input=archive, timeout_s=UPLOAD_TIMEOUT_S
        )
        if cache_tag != sys.implementation.cache_tag:  # or every node would compile on every start
            compiling = [self.python, "-m", "compileall", "-q", *self.code]
            await machine.run(compiling, timeout_s=UPLOAD_TIMEOUT_S)
        return Firewall(machine, spared=told_from)

    async def _check_python(self, host: SshHost, machine: Machine) -> str:
        """Which byte code the Python of the nodes there reads."""
        try:
            return (await machine.run([self.python, "-c", CHECK_PYTHON])).strip()
        except CommandFailed as error:
            raise EnvironmentFailed(
                f"{self.python} on {host} is no Python 3.11 with orjson and numpy ({error.stderr.strip()[-200:]}); "
                "install them, or name another one with --ssh-python"
            ) from error

    async def _check_cpp(self, host: SshHost, machines: BreakableMachines) -> None:
        try:
            await self._machine(host, machines).run([self.python, "-c", cpp_library.CHECK])
        except CommandFailed as error:
            said = error.stderr.strip().rpartition("\n")[2]
            cure = f"run `{self.python} -m pip install rocketmq==0.4.4` there"
            raise cpp_library.failure(str(host), said, cure) from error

    async def _check_netem(self, machines: BreakableMachines) -> None:
        for host in self._executors:
            if not await has_netem(self._machine(host, machines)):
                raise EnvironmentFailed(
                    f"{host}: {NO_NETEM}; allowed there: faults other than network-latency and packet-loss"
                )

    def _machine(self, host: SshHost, machines: BreakableMachines) -> Machine:
        return Machine(
            executor=self._executors[host],
            inventory=machines.inventory,
            host=str(host),
            python=self.python,
        )

    def _place(self, node: str, host: SshHost, machines: BreakableMachines) -> Place:
        return SshPlace(
            node,
            machines.addresses[node],
            machines.data_folder(node),
            machines.own_folder(node) / "log.jsonl",
            host=host,
            options=self._options,
            executor=self._executors[host],
            variables=machines.variables(node),
        )

    def controls(self, environment: RealEnvironment) -> MachineControls:
        assert self._machines is not None, "the machines are up"
        return self._machines.controls(environment)

    async def down(self) -> None:
        """Everything that was made, also half of it; the processes have ended."""
        machines, self._machines = self._machines, None
        if machines is not None:
            await machines.remove_disks_and_filters()
            await machines.remove_rest()
        for executor in self._executors.values():
            executor.close()


async def check_host(host: SshHost, machine: Machine) -> str:
    """The address under which the host sees us. Raises EnvironmentFailed for what it lacks."""
    said = await machine.run(["sh", "-c", CHECK_HOST, "sh", *TOOLS])
    user, told_from, *lacking = said.splitlines()
    if user != "0":
        raise EnvironmentFailed(f"{host} lets us in as {host.user}, who is not root; allowed: root")
    for tool in lacking:
        raise EnvironmentFailed(
            f"{host} has no command {tool}; install the package {TOOLS[tool]} there"
        )
    return told_from


def share_out(
    nodes: Sequence[str], servers: Sequence[str], hosts: Sequence[SshHost]
) -> dict[str, SshHost]:
    """A host for each node. Raises EnvironmentFailed for fewer hosts than servers and one more."""
    try:
        check_hosts(hosts, len(servers))
    except FleetOptionError as error:
        raise EnvironmentFailed(str(error)) from error
    found = dict(zip(servers, hosts, strict=False))
    rest = hosts[len(servers) :]
    others = [node for node in nodes if node not in found]
    found |= {node: rest[number % len(rest)] for number, node in enumerate(others)}
    return {node: found[node] for node in nodes}


def pack(folders: Sequence[str]) -> bytes:
    """A compressed archive of our packages, each from the first folder that has it."""
    output = io.BytesIO()
    with tarfile.open(fileobj=output, mode="w:gz", compresslevel=1) as archive:
        for package in PACKAGES:
            folder = next(Path(f) / package for f in folders if (Path(f) / package).is_dir())
            archive.add(folder, package, filter=_sources_and_our_byte_code)
    return output.getvalue()


def _sources_and_our_byte_code(member: tarfile.TarInfo) -> tarfile.TarInfo | None:
    """A host with our Python need not compile; a file of byte code names the source that it was made of."""
    ours = f".{sys.implementation.cache_tag}.pyc"
    return None if member.name.endswith(".pyc") and not member.name.endswith(ours) else member
