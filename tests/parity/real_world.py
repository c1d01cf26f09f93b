"""This machine as a world of the parity tests: two network namespaces, processes in them, loop-mounted disks."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from contextlib import suppress
from pathlib import Path
from signal import SIGCONT, SIGSTOP
from typing import Any

from staticfire.faults.linux.disks.disk_errors import DiskErrors
from staticfire.faults.linux.disks.disk_space import DiskSpace
from staticfire.faults.linux.disks.disk_speed import DiskSpeed
from staticfire.faults.linux.disks.loop_disk import MEBIBYTE, FileSystem, LoopDisk
from staticfire.faults.linux.disks.power_loss import PowerCut, cut_power
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import Firewall
from staticfire.faults.linux.network.network import Network, NodeNamespace
from tests.parity.node import Command
from tests.parity.world import Host, Remote, Scenario, World
from tests.support.starved_disk import StarvedDisk

ROOT = Path(__file__).parent.parent.parent
PATIENCE_S = 15.0
SLOW_WRITES_PER_S = 8
DISK_BYTES = {"ext4": 16 * MEBIBYTE, "xfs": 320 * MEBIBYTE}
# /proc/sys/net/ipv4: linear time-outs are Linux 6.5's; without them it retries as all did before.
# Buffers that do not grow to megabytes make a test with full ones short.
KNOBS = {
    "tcp_syn_linear_timeouts": "0",
    "tcp_rmem": "4096 131072 524288",
    "tcp_wmem": "4096 65536 524288",
    "tcp_syn_retries": "6",
    "tcp_retries2": "15",
}
SOON = {"tcp_syn_retries": "1", "tcp_retries2": "2"}


class RealHost(Host):
    def __init__(self, machine: LinuxMachine, namespace: NodeNamespace) -> None:
        self.machine = machine.behind(namespace.prefix)
        self.address = namespace.address
        self.folder = ""
        self.firewall = Firewall(self.machine)
        self.disk: LoopDisk | None = None
        self._prefix = namespace.prefix
        self._process: asyncio.subprocess.Process | None = None
        self._reader: asyncio.Task[None] | None = None
        self._cut: PowerCut | None = None
        self._is_failing = False
        self._speed: DiskSpeed | None = None

    async def start(self) -> Remote:
        argv = [*self._prefix, sys.executable, "-S", "-m", "tests.parity.node", "node"]
        environment = {**os.environ, **self.machine.inventory.mark}
        pipe = asyncio.subprocess.PIPE
        process = await asyncio.create_subprocess_exec(
            *argv, stdin=pipe, stdout=pipe, env=environment, cwd=ROOT
        )
        assert process.stdin is not None
        stdin = process.stdin

        def send(command: Command) -> None:
            stdin.write(json.dumps(command).encode() + b"\n")

        remote = Remote(send, PATIENCE_S)
        self._process = process
        self._reader = asyncio.create_task(self._read(process, remote))
        await remote.ask("hello")
        return remote

    @staticmethod
    async def _read(process: asyncio.subprocess.Process, remote: Remote) -> None:
        assert process.stdout is not None
        while line := await process.stdout.readline():
            remote.take(json.loads(line))

    async def kill(self) -> None:
        process, self._process = self._process, None
        if process is None or self._reader is None:
            return
        process.kill()
        await process.wait()
        await self._reader
        assert process.stdin is not None
        with suppress(ConnectionError):
            process.stdin.close()
            await process.stdin.wait_closed()

    async def pause(self) -> None:
        assert self._process is not None
        self._process.send_signal(SIGSTOP)
        os.waitid(os.P_PID, self._process.pid, os.WSTOPPED | os.WNOWAIT)

    async def resume(self) -> None:
        assert self._process is not None
        self._process.send_signal(SIGCONT)

    async def power_cut(self) -> None:
        await self.firewall.black_hole()
        if self._process is not None:
            await self.pause()
        if self.disk is not None:
            self._cut = await cut_power(self.disk)
        # The RST that this sends are lost: what is left is a kernel that knows no connection, as after a boot.
        await self.machine.run(["ss", "--kill", "--tcp", "--all"])
        await self.kill()

    async def power_on(self) -> None:
        if self._cut is not None:
            await self._cut.come_back()
            self._cut = None
        await self.firewall.end_black_hole()

    async def slow_disk(self) -> None:
        assert self.disk is not None
        assert self._process is not None
        self._speed = speed = DiskSpeed(self.disk)
        factor = 1e9 / SLOW_WRITES_PER_S / await speed.fsync_ns()
        assert (await speed.slow([self._process.pid], max(factor, 2.0))).bitten
        await speed.limit(SLOW_WRITES_PER_S)

    async def stall_disk(self) -> None:
        assert self._speed is not None
        await self._speed.limit(1)

    async def end_slowness(self) -> None:
        assert self._speed is not None
        await self._speed.heal()
        self._speed = None

    async def fail_in_flight(self) -> None:
        """The image of the disk finds no place any more. What was handed to the device before meets it, too."""
        assert self.disk is not None
        self._is_failing = True
        failing = await StarvedDisk(self.disk).starve()
        assert failing.fsync == "ENOSPC"

    async def fill_disk(self, free_bytes: int) -> None:
        assert self.disk is not None
        await DiskSpace(self.disk).fill(free_bytes)

    async def free_disk(self) -> None:
        assert self.disk is not None
        await DiskSpace(self.disk).free()

    async def fail_fsync(self) -> None:
        assert self.disk is not None
        self._is_failing = True
        failing = await DiskErrors(self.disk).fail()
        assert failing.fsync == "EIO"

    async def mend_disk(self) -> None:
        assert self.disk is not None
        self._is_failing = False
        assert await StarvedDisk(self.disk).heal()

    async def set_knobs(self, knobs: dict[str, str]) -> None:
        folder = "/proc/sys/net/ipv4"
        lines = [f"[ ! -e {folder}/{k} ] || echo '{v}' > {folder}/{k}" for k, v in knobs.items()]
        await self.machine.run(["sh", "-c", "\n".join(["set -e", *lines])])

    async def clear(self) -> None:
        """As it was before the test."""
        await self.kill()
        if self._cut is not None:
            await self.power_on()
        await self.firewall.heal()
        if self._speed is not None:
            await self._speed.heal()
            self._speed = None
        if self.disk is not None:
            if self._is_failing:
                await self.mend_disk()
            await self.free_disk()
            await self.machine.answers(
                ["sync", "-f", self.disk.mount_point]
            )  # hears of old failures
            await self.disk.wipe()
            await self.machine.run(["fstrim", self.disk.mount_point])  # all blocks are new again


class RealWorld(World):
    is_simulated = False

    def __init__(self, machine: LinuxMachine, network: Network, disk: LoopDisk | None) -> None:
        """The disk is the server's."""
        self._hosts = [RealHost(machine, network.nodes[name]) for name in ("server", "client")]
        self.server, self.client = self._hosts
        if disk is not None:
            self._hosts[0].disk, self.server.folder = disk, disk.data_folder

    async def drop(self, source: Host, target: Host) -> None:
        host = next(host for host in self._hosts if host is target)
        await host.firewall.drop_from(source.address)

    async def heal(self) -> None:
        for host in self._hosts:
            await host.firewall.heal()

    async def give_up_soon(self) -> None:
        for host in self._hosts:
            await host.set_knobs(SOON)

    async def prepare(self) -> None:
        for host in self._hosts:
            await host.set_knobs(KNOBS)

    async def clear(self) -> None:
        for host in self._hosts:
            await host.clear()


async def make_network(machine: LinuxMachine) -> Network:
    """With a namespace for each of the two hosts."""
    network = Network(machine)
    machine.inventory.will_make_marked_processes()
    await network.create()
    for name in ("server", "client"):
        await network.add(name)
    return network


async def make_disk(machine: LinuxMachine, folder: Path, file_system: FileSystem) -> LoopDisk:
    size = DISK_BYTES[file_system]
    disk = LoopDisk(machine, f"{folder}/disk", size_bytes=size, file_system=file_system)
    await disk.create()
    return disk


async def play_real(
    machine: LinuxMachine, network: Network, disk: LoopDisk | None, scenario: Scenario
) -> Any:
    """What the scenario returns; nothing of it is left."""
    world = RealWorld(machine, network, disk)
    await world.prepare()
    try:
        return await scenario(world)
    finally:
        await world.clear()
