"""Starts and ends the clients of a case, each behind a frontend of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.harness.conformance.bench import Bench
from staticfire.harness.conformance.client import ADMINISTRATOR, CONSUMER, POLL_S, PRODUCER, Client
from staticfire.harness.conformance.client_proxy import ClientProxy
from staticfire.harness.conformance.failures import NotTriable


class Stage:
    """The clients of one case; its bench ends them."""

    def __init__(self, bench: Bench) -> None:
        self._bench = bench
        self.clients: list[Client] = []
        bench.at_the_end(self._close)

    async def producer(self, topic: str, **fields: object) -> Client:
        """Start a producer. Raises NotTriable, ClientUnusable."""
        return await self._start(PRODUCER, {"topic": topic, "group": "conformance", **fields})

    async def consumer(
        self,
        topic: str,
        group: str,
        *,
        prepare: Callable[[Client], None] = lambda client: None,
        **fields: object,
    ) -> Client:
        """Start a member of a group; `prepare` is called before. Raises NotTriable, ClientUnusable."""
        return await self._start(CONSUMER, {"topic": topic, "group": group, **fields}, prepare)

    async def administrator(self) -> Client:
        """Start an administrator. Raises NotTriable, ClientUnusable."""
        return await self._start(ADMINISTRATOR, {})

    async def _start(
        self,
        role: str,
        fields: dict[str, object],
        prepare: Callable[[Client], None] = lambda client: None,
    ) -> Client:
        target = self._bench.target
        assert target.clients is not None, "the suite runs no such case where there is no client"
        if role not in target.clients.roles:
            raise NotTriable(f"the suite cannot start the {role} of this client library")
        name = self._bench.fresh_name(role)
        proxy = ClientProxy(name, target.listen_host, self._bench.log)
        client = Client(name, f"{target.listen_host}@{name}", proxy)
        self.clients.append(client)
        prepare(client)
        brokers = [broker.address for broker in await self._bench.brokers()]
        await proxy.open(target.name_servers, brokers)
        configuration = {
            "node": name,
            "client_id": client.client_id,
            "name_servers": list(proxy.name_servers),
            **fields,
        }
        await client.open(await target.clients.start(role, configuration, client.emit))
        return client

    async def until(self, holds: Callable[[], bool], *, within_s: float) -> bool:
        """Wait until the condition holds; return whether it does in time. Raises ClientGone."""
        loop = asyncio.get_running_loop()
        until_s = loop.time() + within_s
        while not holds():
            if loop.time() > until_s:
                return False
            for client in self.clients:
                await client.require_alive()
            await asyncio.sleep(POLL_S)
        return True

    def consumed(self) -> set[str]:
        """Return the keys of all messages that clients of the case have consumed."""
        return {key for client in self.clients for key in client.consumed_keys()}

    async def _close(self) -> None:
        for client in self.clients:
            client.kill()
            client.proxy.close()
        for client in self.clients:
            await client.gone()
