"""Measures the resources of servers, before the clients start and after they have ended: observations `resources`."""

from __future__ import annotations

import asyncio
from typing import Any

from staticfire.checkers.white_box.resources import BEGIN, END, growth
from staticfire.harness.clients.names import ADMIN
from staticfire.harness.environments.environment import Environment

LOOK_AGAIN_S = 2.0
CONNECT_BOUND_S = 10.0  # for the servers of a new cluster to find each other
CONNECT_POLL_S = 0.1
SETTLE_BOUND_S = 180.0  # a silent connection is closed after 120 s


class ResourceWatch:
    """Records the resources of each server."""

    def __init__(self, environment: Environment) -> None:
        self._environment = environment
        self._first: dict[str, dict[str, Any]] = {}

    async def begin(self) -> None:
        """Measure every server, once it has its connections for registration.

        A follower that does not serve yet may still be connecting to its coordinators when the leaders serve. Its later
        connections would look like a leak. After CONNECT_BOUND_S the measurement counts as it is.
        """
        environment = self._environment
        until_ns = environment.now_ns() + int(CONNECT_BOUND_S * 1e9)
        for node in environment.topology.servers:
            seen = await self._seen(node, BEGIN)
            while self._is_alone(node, seen) and environment.now_ns() < until_ns:
                await asyncio.sleep(CONNECT_POLL_S)
                seen = await self._seen(node, BEGIN)
            if seen is not None:
                self._first[node] = seen
                environment.recorder.observe("resources", **seen)

    async def end(self) -> None:
        """End the clients, then measure each server until it is as at the start, for at most SETTLE_BOUND_S seconds."""
        environment = self._environment
        if not self._first:
            return
        await asyncio.gather(*map(environment.end_client, environment.topology.clients))
        until_ns = environment.now_ns() + int(SETTLE_BOUND_S * 1e9)
        for node in self._first:
            if environment.is_lost(node):
                continue
            seen = await self._seen(node, END)
            while self._has_grown(node, seen) and environment.now_ns() < until_ns:
                await asyncio.sleep(LOOK_AGAIN_S)
                seen = await self._seen(node, END)
            if seen is not None:
                environment.recorder.observe("resources", **seen)

    def _is_alone(self, node: str, seen: dict[str, Any] | None) -> bool:
        """Whether a server has fewer sockets than one to listen and one for each of its peers at registration."""
        topology = self._environment.topology
        coordinators = len(topology.coordinators)
        is_coordinator = node in topology.coordinators
        peers = len(topology.servers) - coordinators if is_coordinator else coordinators
        return seen is not None and seen["sockets"] is not None and seen["sockets"] < 1 + peers

    def _has_grown(self, node: str, seen: dict[str, Any] | None) -> bool:
        return seen is not None and any(growth(self._first[node], seen))

    async def _seen(self, node: str, when: str) -> dict[str, Any] | None:
        found = await self._environment.resources(node)
        if found is None:
            return None
        acknowledged = self._environment.recorder.acknowledged
        seen = {"node": node, "when": when, "acknowledged": acknowledged, **found._asdict()}
        return {**seen, "tables": await self._tables(node)}

    async def _tables(self, node: str) -> dict[str, int] | None:
        """Return the sizes of a broker's tables; None for a name server, or without an answer."""
        environment = self._environment
        if node in environment.topology.coordinators:
            return None
        request = {"f": "table_sizes", "address": environment.server_address(node)}
        outcome = await environment.request(ADMIN, request)
        return outcome.value["tables"] if outcome.type == "ok" else None
