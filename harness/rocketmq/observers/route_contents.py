"""Compares, after the drain, name servers' routes of a topic with the table of each master and the brokers that run.

A broker registers changes at once and everything again every `registerNameServerPeriod`, so within that time the routes
are complete. The comparison is repeated until they are, or until the period and ARRIVED_S have passed; then there is
one observation for each name server and master. Its `unnamed` are the running brokers of that name that the route
lacks, if any.
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
            if loop.time() >= until_s or all(_agrees(pair) for pair in pairs):
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
                unnamed = self._unnamed(broker_name, route)
                yield {
                    "node": node,
                    "broker_name": broker_name,
                    "topic": topic,
                    "route": route["queues"].get(broker_name),
                    "master": table["queues"],
                    **({"unnamed": unnamed} if unnamed else {}),
                }

    def _unnamed(self, broker_name: str, route: Mapping[str, Any]) -> list[str]:
        """Return the running brokers of this name that a route lacks; none if it lacks the name."""
        environment, named = self._environment, route["brokers"].get(broker_name)
        if named is None:
            return []
        states = environment.states()
        return [
            one.node
            for one in environment.topology.replicas
            if one.replica_set == broker_name and states.get(one.node) == "up"
            if environment.server_address(one.node) not in named.values()
        ]

    async def _ask(self, f: str, node: str, topic: str) -> Mapping[str, object] | None:
        """Send a request; None: no answer."""
        address = self._environment.server_address(node)
        outcome = await self._environment.request(
            ADMIN, {"f": f, "topic": topic, "address": address}
        )
        return outcome.value if outcome.type == "ok" else None


def _agrees(pair: Mapping[str, Any]) -> bool:
    return pair["route"] == pair["master"] and "unnamed" not in pair
