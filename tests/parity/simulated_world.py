"""The simulation as a world of the parity tests."""

from __future__ import annotations

import asyncio
from typing import Any

from staticfire.harness.simulation import DiskOptions, SimProcess
from staticfire.harness.simulation import Host as SimHost
from staticfire.harness.simulation import World as Simulation
from staticfire.harness.simulation.scheduling.scheduler import Scheduler
from staticfire.system_under_test.runtime.env import Env
from tests.parity.node import Command, Node
from tests.parity.world import Host, Remote, Scenario, World

PATIENCE_S = 4000.0  # virtual
DISK_BYTES = 16 << 20
SLOW_FACTOR = 20_000.0
STALL_FACTOR = 1e6


class SimulatedHost(Host):
    def __init__(self, host: SimHost, scheduler: Scheduler) -> None:
        self._host = host
        self._scheduler = scheduler
        self.address = host.address
        self.folder = "/data"
        host.disk.makedirs(self.folder)
        host.disk.fsync_dir("/")

    @property
    def _process(self) -> SimProcess:
        assert self._host.process is not None
        return self._host.process

    async def start(self) -> Remote:
        commands: asyncio.Queue[Command] = asyncio.Queue()
        remote = Remote(commands.put_nowait, PATIENCE_S)

        async def main(env: Env) -> None:
            await Node(env, report).obey(commands.get)

        def report(message: list[Any]) -> None:
            """What a process says behind a call that blocks it is heard when that has returned."""
            if self._scheduler.debt_ns:
                self._scheduler.at(self._scheduler.local_ns(), hear, message)
            else:
                remote.take(message)

        def hear(message: list[Any]) -> None:
            if process.alive:
                remote.take(message)

        process = self._host.start(self._host.name, main)
        await remote.ask("hello")
        return remote

    async def kill(self) -> None:
        self._process.kill()

    async def pause(self) -> None:
        self._host.pause()

    async def resume(self) -> None:
        self._host.resume()

    async def power_cut(self) -> None:
        self._host.power_cut()

    async def power_on(self) -> None:
        self._host.power_on()

    async def slow_disk(self) -> None:
        self._host.disk.slow(SLOW_FACTOR)

    async def stall_disk(self) -> None:
        self._host.disk.slow(STALL_FACTOR)

    async def end_slowness(self) -> None:
        self._host.disk.slow(1.0)

    async def fail_in_flight(self) -> None:
        self._host.disk.fail_fsync()

    async def fill_disk(self, free_bytes: int) -> None:
        self._host.disk.fill(free_bytes)

    async def free_disk(self) -> None:
        self._host.disk.free()

    async def fail_fsync(self) -> None:
        self._host.disk.fail_fsync()

    async def mend_disk(self) -> None:
        self._host.disk.heal()


class SimulatedWorld(World):
    """Uneven seeds have a page cache that lies after a failed fsync, as ext4's does."""

    is_simulated = True

    def __init__(self, seed: int) -> None:
        self.simulation = Simulation(seed)
        disk = DiskOptions(total_bytes=DISK_BYTES, failed_sync_keeps_cache=seed % 2 == 1)
        add = self.simulation.add_host
        scheduler = self.simulation.scheduler
        self.server = SimulatedHost(add("server", "10.0.0.1", disk=disk), scheduler)
        self.client = SimulatedHost(add("client", "10.0.0.2", disk=disk), scheduler)

    async def drop(self, source: Host, target: Host) -> None:
        self.simulation.network.drop(*self._names(source, target))

    async def heal(self) -> None:
        self.simulation.network.heal()

    async def give_up_soon(self) -> None:
        """Virtual time takes no time."""

    def _names(self, *hosts: Host) -> list[str]:
        return [name for host in hosts for name in self._name(host)]

    def _name(self, host: Host) -> list[str]:
        hosts = self.simulation.hosts.values()
        return [known.name for known in hosts if known.address == host.address]


def play_simulated(scenario: Scenario, seeds: int) -> list[Any]:
    """What each seed's run of the scenario returns."""
    outcomes = []
    for seed in range(seeds):
        world = SimulatedWorld(seed)

        async def run(world: SimulatedWorld = world) -> Any:
            return await scenario(world)

        outcomes.append(world.simulation.run(run))
    return outcomes
