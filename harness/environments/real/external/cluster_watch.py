"""Watches an external cluster by asking its servers, past the proxy."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass

from staticfire.faults.proxy.core.servers import ServerKind
from staticfire.harness.environments.real.external.external_cluster import asking
from staticfire.harness.targets.own_cluster import BROKER_QUESTION, NAME_SERVER_QUESTION
from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.errors import AdminError

CHECK_INTERVAL_S = 1.0  # between two checks of a server
ANSWER_S = 2.0  # for a server to answer
GONE_S = 10.0  # time for its operator to restart it
CHECKS_MIN = 3  # failed checks in a row: this process may have been suspended itself
QUESTIONS = {ServerKind.NAME_SERVER: NAME_SERVER_QUESTION, ServerKind.BROKER: BROKER_QUESTION}
NAMES = {ServerKind.NAME_SERVER: "name server", ServerKind.BROKER: "broker"}


@dataclass(slots=True)
class _Watched:
    address: str
    kind: ServerKind
    failed: int = 0  # checks in a row
    since: float = 0.0  # when the first of them began


class ClusterWatch:
    """Checks all servers in turn. `gone` gets one sentence once no broker or no name server answered for `GONE_S`."""

    def __init__(self, servers: Mapping[str, tuple[str, ServerKind]]) -> None:
        self.gone: asyncio.Future[str] = asyncio.get_running_loop().create_future()
        self._watched = {node: _Watched(*server) for node, server in servers.items()}
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        self._watching = asyncio.create_task(self._watch())

    async def stop(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.wait([self._watching])

    def states(self) -> dict[str, str]:
        """Return the state of each server, as its answers show it."""
        return {node: "silent" if server.failed else "up" for node, server in self._watched.items()}

    async def _watch(self) -> None:
        async with asking([], timeout_s=ANSWER_S) as admin:
            looking = (self._look_at(server, admin) for server in self._watched.values())
            await asyncio.gather(*looking)

    async def _look_at(self, server: _Watched, admin: AdminClient) -> None:
        loop = asyncio.get_running_loop()
        while True:
            began = loop.time()
            try:
                await admin.ask(server.address, QUESTIONS[server.kind])
            except AdminError as error:
                answered = error.code is not None
            else:
                answered = True
            if answered:
                server.failed = 0
            else:
                server.since = server.since if server.failed else began
                server.failed += 1
                self._conclude(server.kind, loop.time())
            await asyncio.sleep(CHECK_INTERVAL_S)

    def _conclude(self, kind: ServerKind, now: float) -> None:
        alike = [server for server in self._watched.values() if server.kind is kind]
        if self.gone.done() or not all(_is_gone(server, now) for server in alike):
            return
        self.gone.set_result(
            f"the cluster is gone: no {NAMES[kind]} ({', '.join(each.address for each in alike)}) "
            f"has answered for {GONE_S:g} s"
        )


def _is_gone(server: _Watched, now: float) -> bool:
    return server.failed >= CHECKS_MIN and now - server.since >= GONE_S
