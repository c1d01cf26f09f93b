"""What both ways to keep a broker registered with its name servers have in common."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Collection

from system_under_test.broker.config import BrokerConfig
from system_under_test.broker.registering.name_server_calls import (
    NameServerCalls,
    Refused,
    Registered,
    RegistrationEvents,
)
from system_under_test.env import Log
from system_under_test.protocol.bodies import TopicConfigTable
from system_under_test.remoting import RemotingClient, RemotingError

__all__ = ["Registrar"]


class Registrar:
    """Registers one broker at name servers, and knows whether it has tried all of them once (`tried`).

    Args:
        table: makes the topics to register.
    """

    def __init__(
        self,
        config: BrokerConfig,
        client: RemotingClient,
        table: Callable[[], TopicConfigTable],
        log: Log,
        events: RegistrationEvents,
    ) -> None:
        self._config = config
        self._calls = NameServerCalls(config, client, log)
        self._table = table
        self._log = log
        self._events = events
        self.tried = asyncio.Event()
        self.tried.set()  # until there is something to try

    async def _ask_to_register(
        self, name_server: str, table: TopicConfigTable
    ) -> Registered | None:
        """Its answer; None, and a warning, if there is no good one."""
        try:
            return await self._calls.register(name_server, table)
        except (RemotingError, Refused, ValueError) as error:
            self._warn(name_server, error)
            return None

    def _warn(self, name_server: str, error: Exception) -> None:
        self._log.warning("not registered", name_server=name_server, error=str(error))

    async def _leave(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """End `tasks`, then unregister everywhere, as far as name servers answer."""
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.gather(*map(self._calls.unregister, self._config.name_servers))
