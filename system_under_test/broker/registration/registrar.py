"""The base class of both ways of keeping a broker registered with its name servers."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Collection

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.registration.name_server_calls import (
    NameServerCalls,
    NameServerRefused,
    Registered,
    RegistrationEvents,
)
from staticfire.system_under_test.protocol.bodies import TopicConfigTable
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.ending import end_tasks
from staticfire.system_under_test.runtime.env import Log


class Registrar:
    """Registers one broker with name servers. `tried`: each of them has been tried once.

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
        self.tried.set()  # until there is a name server to try
        self._changes = 0  # number of changes of topics so far
        self._waiting: deque[_Waiting] = deque()  # in the order of their changes

    def when_known(self, then: Callable[[], None]) -> None:
        """See `KeepsRegistered`."""
        if self._known_change() >= self._changes:
            then()
            return
        waiting = _Waiting(self._changes, then)
        self._waiting.append(waiting)
        loop = asyncio.get_running_loop()
        waiting.timer = loop.call_later(self._config.register_timeout_s, self._end_wait, waiting)

    def _known_change(self) -> int:
        """The latest change that every name server has answered, or failed to answer."""
        raise NotImplementedError

    def _answer_waiting(self) -> None:
        """Call the waiting functions whose changes are known now."""
        known = self._known_change()
        while self._waiting and self._waiting[0].change <= known:
            self._waiting.popleft().end()

    def _end_wait(self, waiting: _Waiting) -> None:
        self._waiting.remove(waiting)
        waiting.end()

    async def _ask_to_register(
        self, name_server: str, table: TopicConfigTable
    ) -> Registered | None:
        """The answer of the name server; logs a warning and returns None if there is none, or a refusal."""
        try:
            return await self._calls.register(name_server, table)
        except (RemotingError, NameServerRefused, ValueError) as error:
            self._warn(name_server, error)
            return None

    def _warn(self, name_server: str, error: Exception) -> None:
        self._log.warning("not registered", name_server=name_server, error=str(error))

    async def _leave(self, tasks: Collection[asyncio.Task[None]]) -> None:
        """End `tasks`, then unregister everywhere, as far as name servers answer."""
        await end_tasks(tasks)
        while self._waiting:
            self._waiting.popleft().end()
        await asyncio.gather(*map(self._calls.unregister, self._config.name_servers))


class _Waiting:
    """A call to make once a change is known."""

    __slots__ = ("_then", "change", "timer")

    def __init__(self, change: int, then: Callable[[], None]) -> None:
        self.change = change
        self._then = then
        self.timer: asyncio.TimerHandle | None = None

    def end(self) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self._then()
