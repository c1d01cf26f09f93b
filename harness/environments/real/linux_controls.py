"""Network, disk and clock capabilities of nodes with a network namespace and a disk, for every machine provider."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from staticfire.faults.errors import CapabilityMissing
from staticfire.faults.linux.clock import FakeClock
from staticfire.faults.linux.disks.disk_errors import DiskErrors
from staticfire.faults.linux.disks.disk_space import DiskSpace
from staticfire.faults.linux.disks.disk_speed import DiskSpeed
from staticfire.faults.linux.disks.loop_disk import LoopDisk
from staticfire.faults.linux.disks.power_loss import PowerCut, cut_power
from staticfire.faults.linux.executor import CommandFailed
from staticfire.faults.linux.machine import LinuxMachine
from staticfire.faults.linux.network.firewall import Firewall
from staticfire.faults.linux.network.traffic import NodeTraffic
from staticfire.faults.linux.on_node import bit_rot
from staticfire.faults.model.capabilities import Evidence

if TYPE_CHECKING:
    from staticfire.harness.environments.real.environment import RealEnvironment

COUNTERS = ("enospc", "eio", "slow_ns", "lost_bytes", "power_cuts")


class FirewalledNetwork:
    """Implements `NetworkControl` with each node's own packet filter and traffic control."""

    def __init__(
        self,
        firewalls: Mapping[str, Firewall],
        addresses: Mapping[str, str],
        traffic: Mapping[str, NodeTraffic],
    ) -> None:
        self._firewalls = firewalls
        self._addresses = addresses
        self._traffic = traffic

    async def drop(self, *, source: str, target: str) -> None:
        await self._firewalls[target].drop_from(self._addresses[source])

    async def restore(self, *, source: str, target: str) -> None:
        await self._firewalls[target].restore_from(self._addresses[source])

    async def heal(self) -> None:
        await asyncio.gather(*(firewall.heal() for firewall in self._firewalls.values()))
        await asyncio.gather(*(traffic.heal() for traffic in self._traffic.values()))

    async def dropped(self, *, source: str, target: str) -> int:
        return await self._firewalls[target].dropped_from(self._addresses[source])

    async def black_hole(self, node: str) -> None:
        await self._firewalls[node].black_hole()

    async def end_black_hole(self, node: str) -> None:
        await self._firewalls[node].end_black_hole()

    async def swallowed(self, node: str) -> int:
        return await self._firewalls[node].dropped_in_black_hole()

    async def delay(self, node: str, milliseconds: float) -> None:
        await self._traffic[node].change(delay_ms=milliseconds)

    async def lose(self, node: str, percent: float) -> None:
        await self._traffic[node].change(loss_percent=percent)

    async def limit(self, node: str, bits_per_s: int) -> None:
        await self._traffic[node].change(bits_per_s=bits_per_s)

    async def traffic_counters(self, node: str) -> dict[str, int]:
        return await self._traffic[node].counters()


@dataclass(slots=True)
class _Disk:
    """The disk of one node and the faults that are on it."""

    disk: LoopDisk
    space: DiskSpace
    errors: DiskErrors
    speed: DiskSpeed
    counters: Counter[str] = field(default_factory=Counter)
    cut: PowerCut | None = None
    cuts_begun: int = 0
    is_full: bool = False
    is_failing: bool = False


class LoopDisks:
    """Implements `staticfire.faults.model.capabilities.DiskControl`. A node without a disk loses its process only."""

    def __init__(
        self,
        environment: RealEnvironment,
        disks: Mapping[str, LoopDisk],
        firewalls: Mapping[str, Firewall],
        stores: Mapping[str, tuple[LinuxMachine, str]],
    ) -> None:
        """`stores`: the machine of each node, and the folder there that holds its files."""
        self._environment = environment
        self._firewalls = firewalls
        self._stores = stores
        environment.on_start = self._hold
        self._disks = {
            node: _Disk(disk, DiskSpace(disk), DiskErrors(disk), DiskSpeed(disk))
            for node, disk in disks.items()
        }

    async def power_cut(self, nodes: Sequence[str]) -> Evidence:
        """Cut the machines' networks first, then shut their file systems down, then kill their processes."""
        environment = self._environment
        nodes = [node for node in nodes if environment.nodes[node].powered]
        alive = [node for node in nodes if environment.nodes[node].running is not None]
        await asyncio.gather(*(environment.pause(node) for node in nodes))
        await asyncio.gather(*(self._firewalls[node].black_hole() for node in nodes))
        cuts = await asyncio.gather(*(self._cut(node) for node in nodes), return_exceptions=True)
        for node, error in zip(nodes, cuts, strict=True):
            # the node must not stay cut off for the rest of the run
            if isinstance(error, BaseException):
                await self._firewalls[node].end_black_hole()
                await environment.resume(node)
        for error in cuts:
            if isinstance(error, BaseException):
                raise error
        return {"alive": alive}

    async def _cut(self, node: str) -> None:
        real = self._environment.nodes[node]
        broken = self._disks[node]
        broken.cuts_begun += 1
        broken.cut = await cut_power(broken.disk)
        real.powered = False
        await self._environment.kill(node)
        broken.counters["power_cuts"] += 1

    async def power_cut_at(self, node: str, operation: int) -> None:
        raise NotImplementedError(f"{node}: only the simulation can; see NO_CUT_AT")

    async def power_cut_at_sync(self, node: str, sync: int) -> None:
        raise NotImplementedError(f"{node}: only the simulation can; see NO_CUT_AT")

    async def power_failed_ns(self, node: str) -> int | None:
        return None

    async def cancel_power_cut(self, node: str) -> None:
        """Do nothing: a power cut here has always struck already."""

    async def power_on(self, node: str) -> None:
        real = self._environment.nodes[node]
        broken = self._disks.get(node)
        if real.lost:
            return
        if broken is not None and broken.cut is not None:
            loss = await broken.cut.come_back()
            broken.cut = None
            broken.counters["lost_bytes"] += loss.lost_bytes
            await self._firewalls[node].end_black_hole()
            real.powered = True
        await self._environment.start(node)

    async def fill(self, node: str, free_bytes: int, over_s: float) -> None:
        broken = self._disks[node]
        broken.is_full = True
        if over_s:
            surplus = await broken.disk.free_bytes() - free_bytes
            filled = await broken.space.fill_slowly(int(max(surplus, 0) / over_s), free_bytes)
        else:
            filled = await broken.space.fill(free_bytes)
        broken.counters["enospc"] += filled.bitten

    async def fail(self, node: str, *, writes: int, fsyncs: int) -> None:
        """Make every fsync fail until the disk is healed, regardless of the given numbers."""
        broken = self._disks[node]
        broken.is_failing = True
        failing = await broken.errors.fail()
        broken.counters["eio"] += failing.bitten

    async def slow(self, node: str, factor: float) -> None:
        """Throttle the present and later processes of the node until the disk is healed.

        If a disk loses its power while its speed is measured, it is slow as well, but there is no proof of that.
        """
        broken = self._disks[node]
        process = self._environment.nodes[node].running
        if process is None:
            return
        cuts = broken.cuts_begun
        try:
            slowed = await broken.speed.slow([process.pid], factor)
        except CommandFailed:
            if broken.cuts_begun == cuts:
                raise
            return
        if slowed.bitten:
            broken.counters["slow_ns"] += slowed.fsync_ns - slowed.fsync_ns_before

    async def _hold(self, node: str, pid: int) -> None:
        if node in self._disks:
            await self._disks[node].speed.hold(pid)

    async def rot(self, node: str, share: float) -> Evidence:
        machine, folder = self._stores[node]
        found: Evidence = await machine.script(bit_rot, folder, share)
        return found

    async def wipe(self, node: str) -> int:
        return await self._disks[node].disk.wipe()

    async def destroy(self, node: str) -> None:
        environment, broken = self._environment, self._disks[node]
        real = environment.nodes[node]
        await environment.pause(node)
        await self._firewalls[node].black_hole()
        await broken.disk.destroy()
        real.lost = True
        await environment.kill(node)
        broken.counters["power_cuts"] += 1

    async def heal(self, node: str) -> None:
        broken = self._disks.get(node)
        if broken is None or self._environment.nodes[node].lost:
            return
        await broken.speed.heal()
        if broken.is_full:
            await broken.space.free()
            broken.is_full = False
        if broken.is_failing:
            broken.is_failing = False
            works = await broken.errors.heal()
            if not works and broken.cut is None:  # otherwise the return of power mounts it again
                await self._repair(node, broken)

    async def _repair(self, node: str, broken: _Disk) -> None:
        """Repair a file system that has shut itself down; its process cannot continue either."""
        wanted = self._environment.nodes[node].wanted
        await self._environment.kill(node)
        await broken.errors.repair()
        if wanted:
            await self._environment.start(node)

    async def counters(self, node: str) -> dict[str, int]:
        """Return counters; `enospc` and `eio` count the errors of the harness's own writes."""
        return {name: self._disks[node].counters[name] for name in COUNTERS}


class FakedClocks:
    """Implements `staticfire.faults.model.capabilities.ClockControl`."""

    def __init__(self, clocks: Mapping[str, FakeClock]) -> None:
        self._clocks = clocks

    async def step(self, node: str, milliseconds: int) -> int:
        """Step the clock of a node. Raises CapabilityMissing if its processes were started with the host's clock."""
        if node not in self._clocks:
            raise CapabilityMissing(
                f"{node} has no clock of its own: no fault of the plan changes one"
            )
        return await self._clocks[node].step(milliseconds)

    async def reset(self, node: str) -> None:
        await self._clocks[node].reset()
