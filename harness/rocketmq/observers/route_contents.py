"""Compares, after the drain, name servers' routes of a topic with the table of each master.

A broker registers changes at once and everything again every `registerNameServerPeriod`, so the two agree within that
time. The comparison is repeated until they do, or until the period and ARRIVED_S have passed; then there is one
observation for each pair.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from staticfire.harness.clients.names import ADMIN
from staticfire.harness.environments.environment import Environment

ARRIVED_S = 15.0  # for a registration to reach every name server
PAUSE_S = 3.0


class RouteContents:
    """Queries name servers and masters, through the client that no fault touches."""

    def __init__(self, environment: Environment, register_s: float) -> None:
        self._environment = environment
        self._agreed_s = register_s + ARRIVED_S

    async def run(self, topics: Sequence[str]) -> None:
        """Compare until all agree or the time is over, then record the last comparison."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + self._agreed_s
        while True:
            pairs = [pair for topic in topics for pair in await self._compare(topic)]
            if loop.time() >= until_s or all(pair["route"] == pair["master"] for pair in pairs):
                break
            await asyncio.sleep(PAUSE_S)
        for pair in pairs:
            self._environment.recorder.observe("topic_route", **pair)

    async def _compare(self, topic: str) -> list[Mapping[str, Any]]:
        environment = self._environment
        servers = [n for n in environment.topology.coordinators if not environment.is_external(n)]
        masters = [
            broker
            for broker in environment.topology.leaders
            if environment.states().get(broker.node) == "up"
        ]
        routes = await asyncio.gather(*(self._ask("route", node, topic) for node in servers))
        tables = await asyncio.gather(*(self._ask("topic_queues", m.node, topic) for m in masters))
        return [
            pair
            for master, table in zip(masters, tables, strict=True)
            if table is not None
            for pair in self._pairs(topic, master.replica_set, table, servers, routes)
        ]

    def _pairs(
        self,
        topic: str,
        broker_name: str,
        table: Mapping[str, Any],
        servers: Sequence[str],
        routes: Sequence[Mapping[str, Any] | None],
    ) -> Iterator[Mapping[str, Any]]:
        """Return queue numbers and permission from both; null if the topic is unknown, or not on this broker."""
        for node, route in zip(servers, routes, strict=True):
            if route is not None:
                yield {
                    "node": node,
                    "broker_name": broker_name,
                    "topic": topic,
                    "route": route["queues"].get(broker_name),
                    "master": table["queues"],
                }

    async def _ask(self, f: str, node: str, topic: str) -> Mapping[str, object] | None:
        """Send a request; None: no answer."""
        address = self._environment.server_address(node)
        outcome = await self._environment.request(
            ADMIN, {"f": f, "topic": topic, "address": address}
        )
        return outcome.value if outcome.type == "ok" else None
