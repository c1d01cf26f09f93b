"""The time that a processor works for a simulated process: its turns, not its waits."""

from __future__ import annotations

import asyncio

from staticfire.harness.simulation.hosts.world import World
from staticfire.harness.simulation.scheduling.timing import Timing
from staticfire.system_under_test.runtime.env import Env


def busy_ns(turns: int, wait_s: float) -> int:
    """Return the time for a process that has so many turns and then waits."""
    world = World(1)
    host = world.add_host("a", "10.0.0.1")
    found: list[int] = []

    async def work(_env: Env) -> None:
        for _ in range(turns):
            await asyncio.sleep(0)
        await asyncio.sleep(wait_s)

    async def main() -> None:
        process = host.start("a", work)
        await process.exit
        found.append(process.queue.busy_ns)

    world.run(main)
    return found[0]


def test_turns_count_and_waits_do_not() -> None:
    few, many, late = busy_ns(10, 0.1), busy_ns(1010, 0.1), busy_ns(10, 1000)
    timing = Timing()
    least_ns = timing.iteration_min_ns + timing.handle_ns
    assert many - few >= 1000 * least_ns
    assert many - few <= 1000 * (least_ns + timing.iteration_spread_ns)
    assert abs(late - few) < 1_000_000
