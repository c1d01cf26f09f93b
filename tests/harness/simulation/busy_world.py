"""A world in which much happens, and its digest: `python busy_world.py MODE SEEDS` prints one digest a seed.

MODE is `clean`, or a thing that no seed decides: `set-order` or `clock`. With those the digests must differ between
processes, or else the comparison proves nothing.
"""

from __future__ import annotations

import asyncio
import sys
import time

from staticfire.harness.simulation import World
from staticfire.system_under_test.runtime.env import Env

PORT = 10911
NODES = ("alpha", "beta", "gamma", "delta")


class Peer(asyncio.Protocol):
    def __init__(self, env: Env) -> None:
        self._env = env
        self._file = env.storage.open("/log", create=True)
        self._end = 0
        self._transport: asyncio.Transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._file.pwrite(data, self._end)
        self._end += len(data)
        future = asyncio.get_running_loop().run_in_executor(None, self._file.fsync)
        future.add_done_callback(lambda _: self._transport.write(data))


class Caller(asyncio.Protocol):
    def __init__(self) -> None:
        self.answers: asyncio.Queue[bytes] = asyncio.Queue()

    def data_received(self, data: bytes) -> None:
        self.answers.put_nowait(data)


def names(mode: str) -> list[str]:
    return list(set(NODES)) if mode == "set-order" else sorted(NODES)


async def talk(env: Env, address: str, mode: str) -> None:
    loop = asyncio.get_running_loop()
    pause_s = time.time() % 1 / 100 if mode == "clock" else 0.0
    try:
        async with asyncio.timeout(2):
            transport, caller = await loop.create_connection(Caller, address, PORT)
            for _ in range(20):
                transport.write(env.random.randbytes(env.random.randrange(1, 2000)))
                await caller.answers.get()
                await asyncio.sleep(env.random.random() / 50 + pause_s)
            transport.close()
    except (OSError, TimeoutError) as error:
        env.log.info("gave up", error=repr(error))


def fail() -> None:
    raise ConnectionError("enough")


async def group(env: Env, addresses: list[str], mode: str) -> None:
    try:
        async with asyncio.TaskGroup() as tasks:
            for address in addresses:
                tasks.create_task(talk(env, address, mode))
            await asyncio.sleep(2.2)
            fail()
    except* ConnectionError:
        pass


def digest(seed: int, mode: str) -> str:
    """Run one world and return the digest of its level-2 trace."""
    world = World(seed, trace_level=2, guard=mode == "clean")
    addresses = {name: f"10.0.0.{number}" for number, name in enumerate(NODES, 1)}

    async def node(env: Env) -> None:
        server = await asyncio.get_running_loop().create_server(lambda: Peer(env), "0.0.0.0", PORT)
        others = [addresses[name] for name in names(mode) if name != env.name]
        while server.is_serving():
            await group(env, others, mode)

    for name, address in addresses.items():
        world.add_host(name, address)

    async def main() -> None:
        random = world.stream("faults")
        for host in world.hosts.values():
            host.start(host.name, node)
        for _ in range(12):
            await asyncio.sleep(random.random())
            host = world.hosts[NODES[int(random.random() * 4)]]
            await break_something(world, host.name, int(random.random() * 5))
            if not host.powered:
                host.power_on()
            if host.process is None or not host.process.alive:
                host.start(host.name, node)

    async def break_something(world: World, name: str, kind: int) -> None:
        host = world.hosts[name]
        process = host.process
        assert process is not None
        if kind == 0:
            process.kill()
        elif kind == 1:
            process.terminate()
            await process.exit
        elif kind == 2:
            host.power_cut()
        elif kind == 3:
            host.pause()
            await asyncio.sleep(0.7)
            host.resume()
        else:
            world.network.drop("alpha", name)
            await asyncio.sleep(0.7)
            world.network.heal()

    world.run(main)
    return world.trace.digest()


if __name__ == "__main__":
    print("\n".join(digest(int(seed), sys.argv[1]) for seed in sys.argv[2].split(",")))
