"""A slow disk: the kernel lets the processes of a node write to its loop device only so many times a second.

A cgroup of our own (blkio of version 1, or io.max of version 2) holds the processes while the disk is slow; then they
go back where they were. What the file system does for itself (its journal) keeps its speed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Literal

from staticfire.faults.errors import FaultError
from staticfire.faults.linux.disks.loop_disk import LoopDisk
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.on_node import timed_sync
from staticfire.faults.linux.resources import Resource

ROOT = "/sys/fs/cgroup"
V1_ROOT = f"{ROOT}/blkio"
PROBE_S = 0.4  # longer than the 100 ms in which the kernel counts
PROBES_MAX = 300
# Which hierarchy can do it, and how far its root is prepared.
# Either of them shows that this machine can do it.
THROTTLES = (f"{V1_ROOT}/blkio.throttle.write_iops_device", f"{ROOT}/cgroup.controllers")
_FIND = f"""
if [ -e {V1_ROOT}/blkio.throttle.write_iops_device ]; then echo v1
elif grep -qw io {ROOT}/cgroup.controllers 2>/dev/null; then echo v2
else echo none; fi
"""


class DiskSpeedError(FaultError):
    """This machine cannot make a disk slow."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """Evidence: how long our own fsync took, alone before, within the limit after; nanoseconds on average."""

    fsync_ns_before: int
    fsync_ns: int
    writes_per_s: int

    @property
    def bitten(self) -> bool:
        return self.fsync_ns > 2 * self.fsync_ns_before

    def to_json(self) -> dict[str, object]:
        return {**asdict(self), "bitten": self.bitten}


CgroupVersion = Literal["v1", "v2"]


async def cgroup_version(machine: LinuxMachine) -> CgroupVersion:
    """Which cgroups can throttle here. Raises DiskSpeedError for none."""
    answer = (await machine.run(["sh", "-c", _FIND])).strip()
    if answer == "v1":
        return "v1"
    if answer == "v2":
        return "v2"
    raise DiskSpeedError(f"no cgroup in {ROOT} can throttle: neither blkio.throttle nor io.max")


def limit_line(version: CgroupVersion, device_number: str, writes_per_s: int) -> str:
    """The line to write to the limit's file."""
    if version == "v1":
        return f"{device_number} {writes_per_s}"
    return f"{device_number} wiops={writes_per_s}"


def home_of(version: CgroupVersion, membership: str) -> str:
    """The folder of the cgroup that a process is in, from its /proc/PID/cgroup."""
    for line in membership.splitlines():
        _, controllers, path = line.split(":", 2)
        if version == "v1" and "blkio" in controllers.split(","):
            return f"{V1_ROOT}{path}".rstrip("/")
        if version == "v2" and controllers == "":
            return f"{ROOT}{path}".rstrip("/")
    raise DiskSpeedError(f"a process is in no cgroup that can throttle: {membership!r}")


class DiskSpeed:
    """The speed of one disk for the processes of its node."""

    def __init__(self, disk: LoopDisk) -> None:
        self._disk = disk
        self._machine = disk.machine
        self._cgroup: Resource | None = None
        # a node that starts while the disk heals is not held any more
        self._change = asyncio.Lock()

    async def slow(self, pids: Sequence[int], factor: float) -> Slowed:
        """Let an fsync of these processes take about `factor` times as long as it does now.

        Raises DiskSpeedError where no cgroup can do it, or without a process.
        """
        if not pids or factor <= 1:
            raise DiskSpeedError(
                f"processes {list(pids)} by {factor:g}; allowed: one process or more, and more than 1"
            )
        await self.heal()
        version = await cgroup_version(self._machine)
        before_ns = await self._fsync_ns()
        writes_per_s = max(1, round(1e9 / (before_ns * factor)))
        cgroup = await self._make(version, pids[0])
        await self.limit(writes_per_s)
        for pid in pids:
            await self.hold(pid)
        after_ns = await self._fsync_ns(cgroup)
        return Slowed(fsync_ns_before=before_ns, fsync_ns=after_ns, writes_per_s=writes_per_s)

    async def hold(self, pid: int) -> None:
        """Let one more process of the node feel it, such as one started since. Nothing happens on a healthy disk."""
        async with self._change:
            if self._cgroup is not None:
                await self._write(f"{self._cgroup.name}/cgroup.procs", str(pid))

    async def heal(self) -> None:
        """Let the processes go. Nothing happens if the disk is not slow."""
        async with self._change:
            if self._cgroup is not None:
                await self._machine.remove(self._cgroup)
                self._cgroup = None

    async def fsync_ns(self) -> int:
        """How long our own fsync takes now, in the node's cgroup while the disk is slow."""
        return await self._fsync_ns(self._cgroup.name if self._cgroup else None)

    async def _make(self, version: CgroupVersion, pid: int) -> str:
        membership = await self._machine.run(["cat", f"/proc/{pid}/cgroup"])
        home = home_of(version, membership)
        root = V1_ROOT if version == "v1" else ROOT
        device = self._disk.device.rpartition("/")[2]
        path = f"{root}/staticfire-{self._machine.inventory.identity}-{device}"
        self._cgroup = self._machine.will_make("cgroup", path, home=home)
        if version == "v2":
            await self._write(f"{ROOT}/cgroup.subtree_control", "+io")
        await self._machine.run(["mkdir", "-p", path])
        return path

    async def limit(self, writes_per_s: int) -> None:
        """Let this many writes a second through while the disk is slow, those that wait already included."""
        if self._cgroup is None:
            raise DiskSpeedError("the disk is not slow; slow() comes first")
        cgroup, version = self._cgroup.name, await cgroup_version(self._machine)
        device = self._disk.device.rpartition("/")[2]
        number = (await self._machine.run(["cat", f"/sys/block/{device}/dev"])).strip()
        file = "blkio.throttle.write_iops_device" if version == "v1" else "io.max"
        await self._write(f"{cgroup}/{file}", limit_line(version, number, writes_per_s))

    async def _write(self, file: str, text: str) -> None:
        await self._machine.run(["sh", "-c", 'echo "$2" > "$1"', "sh", file, text])

    async def _fsync_ns(self, cgroup: str | None = None) -> int:
        more = [cgroup] if cgroup else []
        found = await self._machine.script(
            timed_sync, self._disk.probe_file, PROBE_S, PROBES_MAX, *more
        )
        return int(found["total_ns"] / found["count"])
