"""A slow disk: the kernel limits how many writes a second the processes of a node may issue to its loop device.

While the disk is slow, the processes are in a cgroup of ours (blkio of version 1, or io.max of version 2); afterwards
they return to their former cgroup. Writes by the kernel itself, such as those of the journal, are not limited.
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
PROBE_S = 0.4  # longer than the 100 ms over which the kernel counts writes
PROBES_MAX = 300
# Files of cgroup versions 1 and 2: a machine that has either one can probably throttle writes.
THROTTLES = (f"{V1_ROOT}/blkio.throttle.write_iops_device", f"{ROOT}/cgroup.controllers")
_FIND = f"""
if [ -e {V1_ROOT}/blkio.throttle.write_iops_device ]; then echo v1
elif grep -qw io {ROOT}/cgroup.controllers 2>/dev/null; then echo v2
else echo none; fi
"""


class DiskSpeedError(FaultError):
    """The disk cannot be slowed down on this machine."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Slowed:
    """Evidence of a slow disk: the mean duration of our own fsync in ns, before the limit and under it."""

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
    """Return the version of cgroups that can throttle writes here. Raises DiskSpeedError if none can."""
    answer = (await machine.run(["sh", "-c", _FIND])).strip()
    if answer == "v1":
        return "v1"
    if answer == "v2":
        return "v2"
    raise DiskSpeedError(f"no cgroup in {ROOT} can throttle: neither blkio.throttle nor io.max")


def limit_line(version: CgroupVersion, device_number: str, writes_per_s: int) -> str:
    """Return the line that sets the limit, for the limit file of this cgroup version."""
    if version == "v1":
        return f"{device_number} {writes_per_s}"
    return f"{device_number} wiops={writes_per_s}"


def home_of(version: CgroupVersion, membership: str) -> str:
    """Return the folder of a process's cgroup. `membership` is the content of its /proc/PID/cgroup.

    Raises DiskSpeedError if the process is in no cgroup that can throttle.
    """
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
        # serializes `hold` and `heal`: a node that starts during the heal must not end up in the cgroup
        self._change = asyncio.Lock()

    async def slow(self, pids: Sequence[int], factor: float) -> Slowed:
        """Make an fsync of these processes take about `factor` times as long as it does now.

        Raises DiskSpeedError if no cgroup can throttle, if `pids` is empty, or if `factor` is not above 1.
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
        """Slow down one more process of the node, such as one started since; does nothing if the disk is not slow."""
        async with self._change:
            if self._cgroup is not None:
                await self._write(f"{self._cgroup.name}/cgroup.procs", str(pid))

    async def heal(self) -> None:
        """Return the processes to their former cgroup; does nothing if the disk is not slow."""
        async with self._change:
            if self._cgroup is not None:
                await self._machine.remove(self._cgroup)
                self._cgroup = None

    async def fsync_ns(self) -> int:
        """Return how long our own fsync takes now; while the disk is slow, in the node's cgroup."""
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
        """Set the limit of a slow disk, also for writes that already wait. Raises DiskSpeedError if it is not slow."""
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
