"""How fast the simulator is: messages, timers and task switches per CPU second.

    python tests/benchmarks/bench_simulation.py [--level 1]

CPU time, not wall time; 10 % of noise is normal on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import time
from collections.abc import Callable, Coroutine
from typing import Any

from staticfire.harness.simulation import World
from staticfire.system_under_test.runtime.env import Env

PORT = 10911
Main = Callable[[Env], Coroutine[Any, Any, None]]


class Echo(asyncio.Protocol):
    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        self.transport.write(data)


class Pinger(Echo):
    def __init__(self, count: int, done: asyncio.Future[None]) -> None:
        self._left = count
        self._done = done

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.transport.write(b"x" * 64)

    def data_received(self, data: bytes) -> None:
        self._left -= 1
        if self._left:
            self.transport.write(data)
        elif not self._done.done():
            self._done.set_result(None)


async def serve_echo(env: Env) -> None:
    server = await asyncio.get_running_loop().create_server(Echo, "0.0.0.0", PORT)
    await server.serve_forever()


def echo_protocols(count: int) -> Main:
    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        await asyncio.sleep(0.1)
        done = loop.create_future()
        await loop.create_connection(lambda: Pinger(count // 2, done), "10.0.0.1", PORT)
        await done

    return main


def echo_streams(count: int) -> Main:
    async def main(env: Env) -> None:
        await asyncio.sleep(0.1)
        reader, writer = await asyncio.open_connection("10.0.0.1", PORT)
        for _ in range(count // 2):
            writer.write(b"x" * 64)
            await reader.readexactly(64)
        writer.close()

    return main


def timers(count: int) -> Main:
    async def main(env: Env) -> None:
        for _ in range(count):
            await asyncio.sleep(0.001)

    return main


def switches(count: int) -> Main:
    async def main(env: Env) -> None:
        for _ in range(count):
            await asyncio.sleep(0)

    return main


def tasks(count: int) -> Main:
    async def nothing() -> None:
        pass

    async def main(env: Env) -> None:
        for _ in range(count):
            await asyncio.create_task(nothing())

    return main


def jobs(count: int) -> Main:
    async def main(env: Env) -> None:
        loop = asyncio.get_running_loop()
        file = env.storage.open("/file", create=True)
        for number in range(count):
            file.pwrite(b"x" * 64, number * 64)
            await loop.run_in_executor(None, file.fsync)

    return main


def measure(main: Main, level: int, *, guard: bool) -> float:
    """CPU seconds of one run."""
    world = World(1, trace_level=level, guard=guard)
    world.add_host("server", "10.0.0.1").start("server", serve_echo)
    client = world.add_host("client", "10.0.0.2")

    async def harness() -> None:
        status = await client.start("client", main).exit
        if status.error is not None:
            raise status.error

    start = time.process_time()
    world.run(harness)
    return time.process_time() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--level", type=int, default=1, help="trace level: 0, 1 or 2")
    parser.add_argument("--no-guard", action="store_true", help="without the runtime guard")
    options = parser.parse_args()
    cases: list[tuple[str, Callable[[int], Main], int]] = [
        ("messages, protocols", echo_protocols, 200_000),
        ("messages, streams", echo_streams, 100_000),
        ("timers", timers, 100_000),
        ("task switches", switches, 300_000),
        ("tasks", tasks, 100_000),
        ("executor jobs with fsync", jobs, 20_000),
    ]
    for name, make, count in cases:
        elapsed_s = measure(make(count), options.level, guard=not options.no_guard)
        print(f"{name:26} {count / elapsed_s:10,.0f} per CPU second")


if __name__ == "__main__":
    main()
