"""Queries every name server periodically for the topic's route, through the client that no fault touches.

It records answers when they change, and once more at the end with the brokers that run at that moment.
"""

from __future__ import annotations

import asyncio

from staticfire.harness.clients.names import ADMIN
from staticfire.harness.environments.environment import Environment

EVERY_S = 5.0


class RouteWatch:
    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._last: dict[str, tuple[object, list[str]]] = {}
        topology = environment.topology
        self._nodes = {environment.server_address(b.node): b.node for b in topology.replicas}

    async def run(self) -> None:
        """Query until cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(EVERY_S)

    async def look(self, *, last: bool = False) -> None:
        """Query every name server once. `last` also records unchanged answers."""
        servers = [
            node
            for node in self._environment.topology.coordinators
            if not self._environment.is_external(node)
        ]
        await asyncio.gather(*(self._look_at(node, last=last) for node in servers))

    async def _look_at(self, node: str, *, last: bool) -> None:
        """Query a name server, and list the brokers that run when it answers: other ones may answer much later."""
        brokers = await self._ask(node)
        states = self._environment.states()
        up = [b.node for b in self._environment.topology.replicas if states[b.node] == "up"]
        if last or self._last.get(node) != (brokers, up):
            self._last[node] = (brokers, up)
            self._environment.recorder.observe("route", node=node, brokers=brokers, up=up)

    async def _ask(self, node: str) -> dict[str, dict[str, str]] | None:
        """Return broker name -> number -> node, or the address if no node has it; None: no answer."""
        environment = self._environment
        request = {
            "f": "route",
            "topic": environment.campaign.topic,
            "address": environment.server_address(node),
        }
        outcome = await environment.request(ADMIN, request)
        if outcome.type != "ok":
            return None
        return {
            name: {number: self._nodes.get(at, at) for number, at in sorted(addresses.items())}
            for name, addresses in sorted(outcome.value["brokers"].items())
        }
