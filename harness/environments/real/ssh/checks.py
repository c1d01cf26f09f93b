"""Checks SSH hosts for what nodes need, with one command each, since a command on a host takes long."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

from staticfire.faults.linux.disks.loop_disk import FileSystem
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import Firewall, Spared
from staticfire.harness.environments.real.namespaces import tools_for
from staticfire.harness.machines import cpp_library
from staticfire.harness.machines.errors import EnvironmentFailed

# Prints our user id there, our address as the host sees it, and the tools that the host lacks.
CHECK_HOST = """\
id -u; echo "$SSH_CLIENT"
for tool in "$@"; do command -v "$tool" > /dev/null || echo "$tool"; done
"""
# Finds the modules without importing them, which would take as long as the start of a node. Prints which byte code
# this Python reads.
CHECK_PYTHON = """
import sys
from importlib.util import find_spec
lacks = [name for name in ("orjson", "numpy") if find_spec(name) is None]
if sys.version_info < (3, 11):
    lacks.insert(0, "3.11: it is " + sys.version.split()[0])
print(sys.implementation.cache_tag)
sys.exit("lacks " + ", ".join(lacks) if lacks else 0)
"""
CONNECT = "import socket, sys; socket.create_connection((sys.argv[1], int(sys.argv[2])), 3)"


async def check_host(machine: LinuxMachine, file_system: FileSystem) -> Spared:
    """Return our address as the host sees it. Raises EnvironmentFailed for what the host lacks."""
    tools = tools_for(file_system)
    said = await machine.run(["sh", "-c", CHECK_HOST, "sh", *tools])
    user, ssh_client, *lacking = said.splitlines()
    if user != "0":
        raise EnvironmentFailed(f"{machine.host} lets us in, but not as root; allowed: root")
    for tool in lacking:
        raise EnvironmentFailed(
            f"{machine.host} has no command {tool}; install the package {tools[tool]} there"
        )
    address, _, port = ssh_client.split()  # sshd(8): SSH_CLIENT
    return Spared(address=address, port=int(port))


async def check_python(machine: LinuxMachine) -> str:
    """Return the version of byte code that the nodes' Python there reads.

    Raises EnvironmentFailed for what it lacks.
    """
    try:
        return (await machine.run([machine.python, "-c", CHECK_PYTHON])).strip()
    except CommandFailed as error:
        raise EnvironmentFailed(
            f"{machine.python} on {machine.host} is no Python 3.11 with orjson and numpy "
            f"({_last_line(error)}); install them, or name another one with --ssh-python"
        ) from error


async def check_cpp(machine: LinuxMachine) -> None:
    """Raises EnvironmentFailed without RocketMQ's C++ library."""
    try:
        await machine.run([machine.python, "-c", cpp_library.CHECK])
    except CommandFailed as error:
        cure = f"run `{machine.python} -m pip install rocketmq==0.4.4` there"
        raise cpp_library.failure(machine.host, _last_line(error), cure) from error


async def our_address(why: str, firewalls: Sequence[Firewall]) -> str:
    """Return this machine's address that all hosts can reach. Raises EnvironmentFailed, which begins with `why`."""
    seen = dict.fromkeys(wall.spared.address for wall in firewalls if wall.spared is not None)
    if len(seen) != 1:
        raise EnvironmentFailed(f"{why}; hosts see it under several addresses: {', '.join(seen)}")
    address = next(iter(seen))
    try:
        server = await asyncio.start_server(lambda _, writer: writer.close(), address, 0)
    except OSError as error:
        raise EnvironmentFailed(f"{why}; {address}, as hosts see it, is none of its own") from error
    async with server:
        argv = [CONNECT, address, str(server.sockets[0].getsockname()[1])]
        for wall in firewalls:
            machine = wall.machine
            try:
                await machine.run([machine.python, "-c", *argv])
            except CommandFailed as error:
                raise EnvironmentFailed(
                    f"{why}; {machine.host} cannot connect to {address} ({_last_line(error)})"
                ) from error
    return address


def _last_line(error: CommandFailed) -> str:
    return error.stderr.rpartition("\n")[2][-200:]
