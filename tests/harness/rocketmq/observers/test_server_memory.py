"""Observers see into a server's process, also where the simulation around it is compiled."""

from __future__ import annotations

import asyncio
import gc
import weakref

from staticfire.harness.rocketmq.observers.server_memory import locals_of
from staticfire.harness.simulation import World
from staticfire.system_under_test.runtime.env import Env


async def serve(text: str) -> None:
    server = f"{text} server"
    await asyncio.Event().wait()
    assert server


async def main(env: Env) -> None:
    name = f"{env.name}'s"
    await serve(name)


def test_local_variables_of_main_and_of_what_it_awaits_are_seen() -> None:
    world = World(1)
    host = world.add_host("node", "10.0.0.1")

    async def harness() -> None:
        process = host.start("node", main)
        assert list(locals_of(process)) == []  # its main has not begun
        await asyncio.sleep(1)
        seen = list(locals_of(process))
        assert "node's" in seen
        assert "node's server" in seen

    world.run(harness)


async def refuses_to_end(env: Env) -> None:
    try:
        await asyncio.Event().wait()
    finally:
        await asyncio.Event().wait()


def test_nothing_of_main_is_left_after_the_run() -> None:
    """What is suspended then would be closed with the interpreter, which a compiled coroutine does not survive."""
    world = World(1)
    host = world.add_host("node", "10.0.0.1")

    async def harness() -> weakref.ref[object]:
        process = host.start("node", refuses_to_end)
        await asyncio.sleep(1)
        return weakref.ref(process.main_coroutine)

    left = world.run(harness)
    gc.collect()  # a compiled coroutine around it is part of a cycle
    assert left() is None
