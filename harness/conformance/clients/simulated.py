"""Our own clients in the simulation: each on a host of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from staticfire.harness.clients import configuration as configurations
from staticfire.harness.clients.consumer import ListenerControl, serve_consumer
from staticfire.harness.clients.port import ClientPort, Outcome, Request
from staticfire.harness.clients.producer import serve_producer
from staticfire.harness.conformance.client import ADMINISTRATOR, CONSUMER, PRODUCER, Emit
from staticfire.harness.conformance.clients.administrator import serve_administrator
from staticfire.harness.simulation.hosts.process import Main, SimProcess
from staticfire.harness.simulation.hosts.world import World

STOP_S = 30.0


class SimulatedClients:
    """Producers, consumers and administrators of our system in a world."""

    name = "own"
    roles: tuple[str, ...] = (PRODUCER, CONSUMER, ADMINISTRATOR)

    def __init__(self, world: World) -> None:
        self.broken = ""
        self._world = world
        self._count = 0

    async def start(
        self, role: str, configuration: Mapping[str, object], emit: Emit
    ) -> SimulatedClient:
        self._count += 1
        port = ClientPort(emit)
        host = self._world.add_host(f"client-{self._count}", f"10.8.0.{self._count}")
        process = host.start(role, _main(role, dict(configuration), port))
        return SimulatedClient(process, port)


def _main(role: str, fields: dict[str, Any], port: ClientPort) -> Main:
    if role == ADMINISTRATOR:
        return lambda env: serve_administrator(env, fields["name_servers"], port)
    if role == PRODUCER:
        producer = configurations.producer_config(fields)
        return lambda env: serve_producer(env, producer, port)
    consumer, listening = configurations.consumer_config(fields)
    control = ListenerControl(**asdict(listening))
    return lambda env: serve_consumer(env, consumer, port, control)


class SimulatedClient:
    """One simulated client process. Implements RunningClient."""

    def __init__(self, process: SimProcess, port: ClientPort) -> None:
        self._process = process
        self._port = port
        process.exit.add_done_callback(lambda _: port.abandon("the client ended"))

    @property
    def ended(self) -> str:
        if not self._process.exit.done():
            return ""
        status = self._process.exit.result()
        reason = "" if status.error is None else f" ({status.error!r})"
        return f"the client ended: it was {status.kind}{reason}"

    async def request(self, request: Request) -> Outcome:
        return await self._port.request(request)

    def kill(self) -> None:
        self._process.kill()

    async def stop(self) -> None:
        self._process.terminate()
        await self.gone()

    async def gone(self) -> None:
        await asyncio.wait([self._process.exit], timeout=STOP_S)
