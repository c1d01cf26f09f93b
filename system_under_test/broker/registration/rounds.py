"""Registers with all name servers in rounds, as Apache RocketMQ 4.9.8 does (BrokerController).

There is one round at a time. It ends when every name server has answered or after 6 s, so a hung one delays the next
round for the others. A name server that was not reached waits for the next round.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.topics import TopicChange
from staticfire.system_under_test.broker.registration.name_server_calls import (
    Registered,
    RegistrationEvents,
)
from staticfire.system_under_test.broker.registration.registrar import Registrar
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Log

FIRST_PERIOD_S = 10.0


class RegistrationRounds(Registrar):
    """Keeps one broker registered with every name server that a round reaches. See `registration`."""

    def __init__(
        self,
        config: BrokerConfig,
        client: RemotingClient,
        table: Callable[[], TopicConfigTable],
        log: Log,
        events: RegistrationEvents,
    ) -> None:
        super().__init__(config, client, table, log, events)
        self._turn = asyncio.Lock()  # RocketMQ: the methods are synchronized
        self._tasks: dict[asyncio.Task[None], None] = {}
        self._known = 0  # the change whose round was the latest to end

    def start(self) -> None:
        self.tried.clear()
        self._spawn(self._run())

    def options_changed(self) -> None:
        """Do nothing: each round uses the current list of name servers."""

    def connection_ended(self, name_server: str) -> None:
        """Do nothing: the next round makes a new connection."""

    def topics_changed(self, change: TopicChange) -> None:
        """Register all topics one-way if a send created one; only the topic itself if an administrator changed it.

        The next round reports a deleted topic.
        """
        if change.deleted:
            return
        self._changes += 1
        if change.by_send:
            round_ = self._round_oneway(self._table())
        elif change.topic is None:
            round_ = self._round(self._table())
        else:
            round_ = self._round(only(self._table(), change.topic))
        self._spawn(self._tell(self._changes, round_))

    def _known_change(self) -> int:
        return self._known

    async def _tell(self, change: int, round_: Coroutine[object, object, None]) -> None:
        await round_
        self._known = change
        self._answer_waiting()

    async def stop(self) -> None:
        """Unregister everywhere, as far as name servers answer."""
        await self._leave(list(self._tasks))

    def _spawn(self, work: Coroutine[object, object, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks[task] = None
        task.add_done_callback(self._tasks.pop)

    async def _run(self) -> None:
        await self._round(self._table())
        self.tried.set()
        await asyncio.sleep(FIRST_PERIOD_S)
        while True:
            table = self._table()
            if self._config.force_register or await self._is_changed_anywhere(table):
                await self._round(table)
            await asyncio.sleep(self._config.register_period_s)

    async def _is_changed_anywhere(self, table: TopicConfigTable) -> bool:
        return any(
            await asyncio.gather(
                *(
                    self._calls.is_changed(name_server, table.data_version)
                    for name_server in self._config.name_servers
                )
            )
        )

    async def _round(self, table: TopicConfigTable) -> None:
        answers: list[Registered] = []
        async with self._turn:
            await asyncio.gather(
                *(self._register(server, table, answers) for server in self._config.name_servers)
            )
        if answers:
            self._learn(answers[0])

    async def _round_oneway(self, table: TopicConfigTable) -> None:
        async with self._turn:
            await asyncio.gather(
                *(self._register_oneway(server, table) for server in self._config.name_servers)
            )

    async def _register(
        self, name_server: str, table: TopicConfigTable, answers: list[Registered]
    ) -> None:
        """Register and add the answer to `answers`: only the first answer of a round counts."""
        answer = await self._ask_to_register(name_server, table)
        if answer is not None:
            answers.append(answer)

    async def _register_oneway(self, name_server: str, table: TopicConfigTable) -> None:
        try:
            await self._calls.register_oneway(name_server, table)
        except RemotingError as error:
            self._warn(name_server, error)

    def _learn(self, answer: Registered) -> None:
        if self._config.is_slave and answer.master_address and answer.master_ha_address:
            self._events.on_master(answer.master_address, answer.master_ha_address)
        if answer.ordered is not None:
            self._events.on_ordered(answer.ordered)


def only(table: TopicConfigTable, topic: str) -> TopicConfigTable:
    """A table with only this topic, but the version of the whole table."""
    topics = {name: config for name, config in table.topics.items() if name == topic}
    return TopicConfigTable(topics=topics, data_version=table.data_version)
