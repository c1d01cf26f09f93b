"""Two hosts and recording protocols, so that a test of the network reads like a story."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from staticfire.harness.simulation import Host, SimProcess, World
from staticfire.system_under_test.runtime.env import Env

PORT = 10911
SERVER, CLIENT = "10.0.0.1", "10.0.0.2"


class Recorder(asyncio.Protocol):
    """Writes down what happens to a connection; `gone` gets what connection_lost got."""

    def __init__(self) -> None:
        self.loop = asyncio.get_running_loop()
        self.events: list[str] = []
        self.received = bytearray()
        self.transport: Any = None
        self.gone: asyncio.Future[Exception | None] = self.loop.create_future()
        self.writable = True

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self.events.append("made")

    def data_received(self, data: bytes) -> None:
        self.received += data

    def eof_received(self) -> bool | None:
        self.events.append("eof")
        return None

    def pause_writing(self) -> None:
        self.events.append("pause")
        self.writable = False

    def resume_writing(self) -> None:
        self.events.append("resume")
        self.writable = True

    def connection_lost(self, exc: Exception | None) -> None:
        self.events.append("lost" if exc is None else type(exc).__name__)
        if not self.gone.done():
            self.gone.set_result(exc)


class Echo(Recorder):
    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        self.transport.write(data)


class TwoHosts:
    """A server host that listens and a client host; `accepted` holds the server's connections, oldest first."""

    def __init__(self, seed: int = 1, **options: Any) -> None:
        self.world = World(seed, **options)
        self.server = self.world.add_host("server", SERVER)
        self.client = self.world.add_host("client", CLIENT)
        self.network = self.world.network
        self.accepted: list[Recorder] = []

    def listen(self, protocol: Callable[[], Recorder] = Recorder, backlog: int = 100) -> SimProcess:
        """Start the server process."""

        def accept() -> Recorder:
            self.accepted.append(protocol())
            return self.accepted[-1]

        async def main(_: Env) -> None:
            loop = asyncio.get_running_loop()
            server = await loop.create_server(accept, SERVER, PORT, backlog=backlog)
            await server.serve_forever()

        return self.server.start("server", main)

    def run(
        self, story: Callable[[Env], Coroutine[Any, Any, Any]], *, before_s: float = 0.05
    ) -> Any:
        """Run `story` in a process of the client host, once the server listens; return what it returns."""
        outcome: list[Any] = []

        async def main(env: Env) -> None:
            await asyncio.sleep(before_s)
            outcome.append(await story(env))

        async def harness() -> None:
            status = await self.client.start("client", main).exit
            if status.error is not None:
                raise status.error

        self.world.run(harness)
        return outcome[0] if outcome else None

    async def connect(self, protocol: Callable[[], Recorder] = Recorder) -> Recorder:
        """Connect from the client's process."""
        loop = asyncio.get_running_loop()
        _, made = await loop.create_connection(protocol, SERVER, PORT)
        return made


def run_process(main: Callable[[Env], Coroutine[Any, Any, Any]], seed: int = 1) -> Any:
    """Run `main` alone in a world; return what it returns."""
    return TwoHosts(seed).run(main)


def started(host: Host) -> SimProcess:
    """The process that runs on `host`."""
    assert host.process is not None
    return host.process


async def echoed(client: Recorder, data: bytes) -> bytes:
    """Send `data` and wait for as many bytes."""
    before = len(client.received)
    client.transport.write(data)
    while len(client.received) < before + len(data):
        await asyncio.sleep(0.001)
    return bytes(client.received[before:])
