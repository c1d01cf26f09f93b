"""A simulated world: hosts, a network between them, virtual time, and one seed that decides everything."""

from __future__ import annotations

import gc
from collections.abc import Callable, Coroutine
from random import Random
from typing import TypeVar

from staticfire.harness.simulation.disk.disk import DiskOptions
from staticfire.harness.simulation.hosts.guard import Guard
from staticfire.harness.simulation.hosts.host import Host
from staticfire.harness.simulation.hosts.loop import SimLoop
from staticfire.harness.simulation.network.network import Network
from staticfire.harness.simulation.scheduling.scheduler import Scheduler
from staticfire.harness.simulation.scheduling.timing import Timing
from staticfire.harness.simulation.scheduling.trace import Record, Trace

T = TypeVar("T")

EVENT_LIMIT = 1_000_000_000


class World:
    """Runs a simulation that depends on `seed` alone: on no clock, address, hash order or environment.

    `guard` raises Escape if a node uses the real world; `event_limit` ends a run that would never end.
    """

    def __init__(
        self,
        seed: int,
        *,
        trace_level: int = 1,
        trace_sink: Callable[[Record], None] | None = None,
        timing: Timing | None = None,
        guard: bool = True,
        event_limit: int = EVENT_LIMIT,
    ) -> None:
        self.seed = seed
        self.trace = Trace(trace_level, trace_sink)
        self.scheduler = Scheduler()
        self.network = Network(self.stream, self.trace)
        self.hosts: dict[str, Host] = {}
        self._streams: dict[str, Random] = {}
        self._reseeded = ""  # part of the seed of every stream since `reseed`
        self._guard = Guard() if guard else None
        self._event_limit = event_limit
        self.loop = SimLoop(self.scheduler, self.trace, timing or Timing(), self.stream)  # type: ignore[abstract]

    @property
    def now_ns(self) -> int:
        """The time since the start of the world, in ns, as the running callback sees it."""
        return self.scheduler.local_ns()

    def stream(self, purpose: str) -> Random:
        """Return the random numbers of one purpose; drawing from them does not affect other purposes."""
        found = self._streams.get(purpose)
        if found is None:
            found = self._streams[purpose] = Random(0)
            self._seed(found, purpose)
        return found

    def reseed(self, name: str) -> None:
        """Reseed every stream, later ones included, with numbers derived from the seed and `name`."""
        self._reseeded = f"/{name}"
        for purpose, random in self._streams.items():
            self._seed(random, purpose)

    def _seed(self, random: Random, purpose: str) -> None:
        random.seed(f"{self.seed}/{purpose}{self._reseeded}", version=2)  # by SHA-512 of the text

    def add_host(self, name: str, address: str, *, disk: DiskOptions | None = None) -> Host:
        """Add a machine, with power and without a process."""
        host = self.hosts[name] = Host(self, name, address, disk)
        return host

    def run(self, main: Callable[[], Coroutine[object, object, T]]) -> T:
        """Run `main` as the harness's own process until it is done, then end the world; a world runs once.

        Raises what `main` raises, Escape, and SimulationError when every process waits for ever.
        """
        if self.loop.is_closed():
            raise RuntimeError("this world has ended: make a new one for another run")
        was_collecting = gc.isenabled()
        gc.disable()  # a collection would run finalizers at moments that no seed decides
        try:
            if self._guard is None:
                return self._run(main)
            with self._guard.watch(self.scheduler.fail):
                return self._run(main)
        finally:
            self.loop.bury()
            if was_collecting:
                gc.enable()

    def _run(self, main: Callable[[], Coroutine[object, object, T]]) -> T:
        result: T = self.loop.run_harness(main, self._event_limit)
        return result
