"""One simulated machine: a disk, a clock, a network stack, and at most one process at a time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from staticfire.harness.simulation.disk.disk import DiskOptions, PowerCutReport, SimDisk
from staticfire.harness.simulation.hosts.process import Main, SimProcess
from staticfire.harness.simulation.hosts.process_log import ProcessLog
from staticfire.harness.simulation.network.kernel import Kernel
from staticfire.harness.simulation.scheduling.clock import EPOCH_MS, HostClock
from staticfire.system_under_test.runtime.env import Env

if TYPE_CHECKING:
    from staticfire.harness.simulation.hosts.world import World


class Host:
    """Made by `World.add_host`. Disk, clock and network stack survive the processes."""

    def __init__(self, world: World, name: str, address: str, disk: DiskOptions | None) -> None:
        self.name = name
        self.address = address
        self.clock = HostClock(world.scheduler)
        self.kernel = Kernel(name, address, world.network, world.stream(f"tcp/{name}").random)
        self.disk = SimDisk(
            random=world.stream(f"disk/{name}"),
            now_ns=world.scheduler.local_ns,
            world_ns=lambda: world.scheduler.now_ns,
            charge=world.scheduler.charge,
            on_power_cut=self._power_failed,
            caller=lambda: world.scheduler.job,
            options=disk,
            epoch_ms=EPOCH_MS,
        )
        self.process: SimProcess | None = None
        self.power_failed_ns: int | None = None  # when it last lost its power, by world time
        self._world = world
        self._incarnation = 0
        world.network.add(self.kernel)

    @property
    def powered(self) -> bool:
        return self.kernel.powered

    def start(self, name: str, main: Main) -> SimProcess:
        """Start a process; its main begins some milliseconds later.

        Raises RuntimeError without power or while a process runs.
        """
        if not self.powered:
            raise RuntimeError(f"host {self.name} has no power: power_on() comes before start()")
        if self.process is not None and self.process.alive:
            raise RuntimeError(f"host {self.name} already runs {self.process.name}")
        self._incarnation += 1
        self.process = self._new_process(name, main)
        return self.process

    def _new_process(self, name: str, main: Main) -> SimProcess:
        world, identity = self._world, f"{name}/{self._incarnation}"
        log = ProcessLog(len(world.loop.queues), world.scheduler.local_ns, world.trace)
        env = Env(
            name=name,
            storage=self.disk,
            clock=self.clock,
            random=world.stream(f"env/{identity}"),
            log=log,
            shares_turns=False,
        )
        process = SimProcess(
            name=name,
            incarnation=self._incarnation,
            host=self,
            loop=world.loop,
            main=main,
            env=env,
            log=log,
        )
        timing = world.loop.timing
        draw = world.stream(f"start/{identity}").random()
        process.start_after(timing.start_min_ns + int(draw * timing.start_spread_ns))
        return process

    def power_cut(self) -> PowerCutReport:
        """Cut the power: the process stops at once, unsynced data is lost, and peers get no RST or FIN."""
        self.power_failed_ns = self._world.scheduler.local_ns()
        report = self.disk.power_cut()
        if self.process is not None:
            self.process.lose_power()
        self.kernel.power_off(self._world.scheduler.local_ns())
        return report

    def _power_failed(self) -> None:
        """Stop the machine at a power cut that the disk chose by `cut_at` or `cut_at_sync`."""
        self.power_cut()

    def power_on(self) -> None:
        """Boot the machine, without a process."""
        self.disk.power_on()
        self.kernel.power_on()

    def pause(self) -> None:
        """Freeze the process. Its kernel still accepts connections and acknowledges bytes, but no answer comes."""
        if self.process is not None:
            self.process.pause()

    def resume(self) -> None:
        if self.process is not None:
            self.process.resume()
