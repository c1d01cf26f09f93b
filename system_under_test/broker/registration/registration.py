"""Registers with each name server separately: a hung one delays no other, and each gets all topics."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.topics import TopicChange
from staticfire.system_under_test.broker.registration.name_server_calls import (
    Registered,
    RegistrationEvents,
)
from staticfire.system_under_test.broker.registration.registrar import Registrar
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.remoting import Connection, RemotingClient
from staticfire.system_under_test.runtime.env import Log

# Delays after a failure, and while a slave does not know its master; RocketMQ waits for the next round of 30 s. The
# first delay is short, because a node that starts with us will be up in a moment; each further one is twice as long.
FIRST_RETRY_S = 0.1
RETRY_MAX_S = 1.0


class Registration(Registrar):
    """Keeps one broker registered with every name server, always with all its topics.

    RocketMQ registers one topic alone, with the new version of the whole table (registerIncrementBrokerData): a name
    server that has missed other changes would never ask for them.
    """

    def __init__(
        self,
        config: BrokerConfig,
        client: RemotingClient,
        table: Callable[[], TopicConfigTable],
        log: Log,
        events: RegistrationEvents,
    ) -> None:
        super().__init__(config, client, table, log, events)
        self._changed: dict[str, asyncio.Event] = {}
        self._ordered: dict[str, tuple[str, ...]] = {}  # by name server, from its last answer
        self._tasks: dict[str, asyncio.Task[None]] = {}  # by name server
        self._is_running = False
        self._untried: dict[str, None] = {}
        self._known: dict[str, int] = {}  # the latest change that each name server has received
        # The connection of the last registration, by name server, which drops the broker when that connection ends.
        self._connections: dict[str, Connection | None] = {}
        self._lacks_master = config.is_slave and config.ha_master_address is None

    def start(self) -> None:
        self._is_running = True
        self.options_changed()

    def options_changed(self) -> None:
        """Register with added name servers; let registrations with removed ones expire."""
        if not self._is_running:
            return
        wanted = dict.fromkeys(self._config.name_servers)
        for name_server in [known for known in self._tasks if known not in wanted]:
            self._tasks.pop(name_server).cancel()
            self._changed.pop(name_server)
            self._ordered.pop(name_server, None)
            self._known.pop(name_server)
            self._connections.pop(name_server, None)
            self._has_tried(name_server)
        loop = asyncio.get_running_loop()
        for name_server in wanted:
            if name_server not in self._tasks:
                self._changed[name_server] = asyncio.Event()
                self._untried[name_server] = None
                self._known[name_server] = -1
                self.tried.clear()
                task = loop.create_task(self._keep_registered(name_server))
                self._tasks[name_server] = task

    def topics_changed(self, _change: TopicChange) -> None:
        """Register again at once."""
        self._changes += 1
        for event in self._changed.values():
            event.set()

    def connection_ended(self, name_server: str) -> None:
        """Register again soon: the name server has dropped the broker with the connection, or has ended."""
        if name_server in self._changed:
            asyncio.get_running_loop().call_later(RETRY_MAX_S, self._wake, name_server)

    def _wake(self, name_server: str) -> None:
        if name_server in self._changed and not self._is_connected(name_server):
            self._changed[name_server].set()

    def _is_connected(self, name_server: str) -> bool:
        """Whether the connection of our last registration with the name server is still open."""
        connection = self._calls.connection(name_server)
        return connection is not None and connection is self._connections.get(name_server)

    async def stop(self) -> None:
        """Unregister everywhere, as far as name servers answer; not before `start`: the name may be another's."""
        if not self._is_running:
            return
        self._is_running = False
        tasks = list(self._tasks.values())
        self._tasks.clear()
        await self._leave(tasks)

    async def _keep_registered(self, name_server: str) -> None:
        changed = self._changed[name_server]
        retry_s = FIRST_RETRY_S
        while True:
            changed.clear()
            change = self._changes
            registered = await self._register(name_server)
            self._known[name_server] = change
            self._has_tried(name_server)
            if registered and not self._lacks_master:
                delay_s, retry_s = self._config.register_period_s, FIRST_RETRY_S
            else:
                delay_s, retry_s = retry_s, min(2 * retry_s, RETRY_MAX_S)
            try:
                async with asyncio.timeout(delay_s):
                    await changed.wait()
            except TimeoutError:
                continue

    def _has_tried(self, name_server: str) -> None:
        self._untried.pop(name_server, None)
        if not self._untried:
            self.tried.set()
        self._answer_waiting()

    def _known_change(self) -> int:
        return min(self._known.values(), default=self._changes)

    async def _register(self, name_server: str) -> bool:
        table = self._table()
        if not await self._is_needed(name_server, table):
            return True
        answer = await self._ask_to_register(name_server, table)
        if answer is None:
            self._ordered.pop(name_server, None)
            return False
        self._connections[name_server] = self._calls.connection(name_server)
        self._learn(name_server, answer)
        return True

    async def _is_needed(self, name_server: str, table: TopicConfigTable) -> bool:
        if self._config.force_register or self._lacks_master:
            return True
        if not self._is_connected(name_server):
            return True
        return await self._calls.is_changed(name_server, table.data_version)

    def _learn(self, name_server: str, answer: Registered) -> None:
        if self._config.is_slave:
            if answer.master_address and answer.master_ha_address:
                self._lacks_master = False
                self._events.on_master(answer.master_address, answer.master_ha_address)
            return
        if answer.ordered is None:
            self._ordered.pop(name_server, None)
        else:
            self._ordered[name_server] = answer.ordered
        if self._ordered:
            # Name servers share no state: a topic is ordered as long as one of them says so.
            topics = dict.fromkeys(topic for known in self._ordered.values() for topic in known)
            self._events.on_ordered(topics)
