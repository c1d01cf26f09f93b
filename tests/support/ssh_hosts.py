"""Hosts for the environment ssh: an sshd in a network namespace each, with keys of their own. Needs root.

`python -m tests.support.ssh_hosts N` keeps N of them until Ctrl-C and prints the options for `staticfire run`.
"""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from staticfire.faults.linux.executor import LocalExecutor
from staticfire.faults.linux.inventory import Inventory
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.network import Network
from staticfire.harness.machines.options import MachineOptions, SshHost
from staticfire.harness.state import state_folder

READY_POLL_S = 0.02
CONFIG = """\
Port 22
HostKey {folder}/host_key
AuthorizedKeysFile {folder}/user_key.pub
PidFile {folder}/{name}.pid
PermitRootLogin prohibit-password
PasswordAuthentication no
StrictModes no
UsePAM no
# Or bash would read a ~/.bashrc for every command, which takes half a second on some machines.
SetEnv SHLVL=2
"""


@dataclass(frozen=True, slots=True)
class SshHosts:
    """What is there: as options of the provider, and as options of the command line."""

    options: MachineOptions

    @property
    def arguments(self) -> list[str]:
        provider = self.options
        assert provider.ssh_key is not None
        assert provider.known_hosts is not None
        hosts = ",".join(map(str, provider.hosts))
        return [
            *("--ssh-hosts", hosts, "--ssh-key", provider.ssh_key),
            *("--ssh-known-hosts", provider.known_hosts, "--ssh-python", provider.ssh_python),
        ]


@asynccontextmanager
async def ssh_hosts(count: int) -> AsyncIterator[SshHosts]:
    """Hosts that let root in from this machine; nothing is left of them."""
    with tempfile.TemporaryDirectory(prefix="staticfire-sshd-") as name:
        folder = Path(name)
        machine = LinuxMachine(executor=LocalExecutor(), inventory=Inventory.begin(state_folder()))
        network = Network(machine)
        servers: list[asyncio.subprocess.Process] = []
        try:
            await network.create()
            _make_keys(folder)
            addresses = [(await network.add(f"host{number}")).address for number in range(count)]
            servers += [await _start(folder, network, host) for host in network.nodes]
            await asyncio.gather(*(_answers(address) for address in addresses))
            yield SshHosts(_options(folder, addresses))
        finally:
            for server in servers:
                with suppress(ProcessLookupError):  # a signal to the whole group has ended it
                    server.kill()
                await server.wait()
            for host in network.nodes.values():
                await _end_sessions(machine, host.namespace)
            await network.remove()
            machine.inventory.close()


async def _end_sessions(machine: LinuxMachine, namespace: str) -> None:
    """What a dead sshd has left: without the network a session never hears that its client is gone."""
    for pid in (await machine.run(["ip", "netns", "pids", namespace])).split():
        with suppress(ProcessLookupError):
            os.kill(int(pid), signal.SIGKILL)


def _make_keys(folder: Path) -> None:
    for key in ("host_key", "user_key"):
        argv = ["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", str(folder / key)]
        subprocess.run(argv, check=True)
    Path("/run/sshd").mkdir(exist_ok=True)  # sshd insists on it


def _options(folder: Path, addresses: list[str]) -> MachineOptions:
    public = (folder / "host_key.pub").read_text().rpartition(" ")[0]
    known = folder / "known_hosts"
    known.write_text("".join(f"{address} {public}\n" for address in addresses))
    return MachineOptions(
        hosts=tuple(SshHost(name=address) for address in addresses),
        ssh_key=str(folder / "user_key"),
        known_hosts=str(known),
        ssh_python=sys.executable,
    )


async def _start(folder: Path, network: Network, host: str) -> asyncio.subprocess.Process:
    config = folder / f"{host}.config"
    config.write_text(CONFIG.format(folder=folder, name=host))
    prefix = network.nodes[host].prefix
    argv = [*prefix, "/usr/sbin/sshd", "-D", "-f", str(config), "-E", str(folder / f"{host}.log")]
    return await asyncio.create_subprocess_exec(*argv)


async def _answers(address: str) -> None:
    while True:
        try:
            _, writer = await asyncio.open_connection(address, 22)
        except OSError:
            await asyncio.sleep(READY_POLL_S)
        else:
            writer.close()
            return


async def _keep(count: int) -> None:
    ended = asyncio.Event()
    for number in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    async with ssh_hosts(count) as hosts:
        print(" ".join(hosts.arguments), flush=True)
        await ended.wait()


if __name__ == "__main__":
    asyncio.run(_keep(int(sys.argv[1])))
