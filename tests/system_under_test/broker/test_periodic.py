"""A periodic job survives what it raises."""

from __future__ import annotations

import asyncio

from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.periodic import Schedule
from staticfire.system_under_test.runtime.env import Env


def test_jobs_go_on_after_an_exception_and_end_when_stopped() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    runs: list[tuple[str, int]] = []

    def note(name: str) -> None:
        runs.append((name, world.now_ns // 1_000_000_000))
        if len(runs) < 4:
            raise ValueError(f"{name} fails")

    async def note_later() -> None:
        note("task")

    async def main(env: Env) -> None:
        schedule = Schedule(env.log)
        schedule.call("timer", 2.0, lambda: note("timer"))
        schedule.await_job("task", 2.0, note_later, first_s=1.0)
        await asyncio.sleep(7)
        await schedule.stop()
        await asyncio.sleep(5)

    async def run() -> None:
        await host.start("node", main).exit

    world.run(run)
    assert runs == [
        ("task", 1),
        ("timer", 2),
        ("task", 3),
        ("timer", 4),
        ("task", 5),
        ("timer", 6),
    ]


def test_an_interval_may_change() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")
    runs: list[int] = []
    interval_s = [1.0]

    def run_and_slow_down() -> None:
        runs.append(world.now_ns // 1_000_000_000)
        interval_s[0] = 3.0

    async def main(env: Env) -> None:
        schedule = Schedule(env.log)
        schedule.call_after("timer", lambda: interval_s[0], run_and_slow_down)
        await asyncio.sleep(7)
        await schedule.stop()

    async def run() -> None:
        await host.start("node", main).exit

    world.run(run)
    assert runs == [1, 2, 5]
