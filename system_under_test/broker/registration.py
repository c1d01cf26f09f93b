"""Registration with the name servers: each on its own, so a hung one delays nobody (RocketMQ, BrokerOuterAPI)."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from system_under_test.broker.config import BrokerConfig
from system_under_test.env import Log
from system_under_test.protocol import json_dialect
from system_under_test.protocol.bodies import RegisterBrokerBody, TopicConfigTable
from system_under_test.protocol.codes import RequestCode, ResponseCode
from system_under_test.protocol.command import RemotingCommand
from system_under_test.protocol.headers import (
    RegisterBrokerHeader,
    RegisterBrokerResponse,
    UnregisterBrokerHeader,
)
from system_under_test.remoting import RemotingClient, RemotingError

# After a failure, and as long as a slave does not know its master; RocketMQ waits for the next round of 30 s.
RETRY_DELAY_S = 1.0
UNREGISTER_TIMEOUT_S = 3.0


class Registration:
    """Keeps one broker registered with every name server.

    Args:
        table: makes the topics to tell.
        on_master: called with the master's address and HA address when a name server tells them to a slave.
    """

    def __init__(
        self,
        config: BrokerConfig,
        client: RemotingClient,
        table: Callable[[], TopicConfigTable],
        log: Log,
        *,
        on_master: Callable[[str, str], None],
    ) -> None:
        self._config = config
        self._client = client
        self._table = table
        self._log = log
        self._on_master = on_master
        self._changed: dict[str, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []
        self._lacks_master = config.is_slave and config.ha_master_address is None

    def start(self) -> None:
        loop = asyncio.get_running_loop()
        for name_server in self._config.name_servers:
            self._changed[name_server] = asyncio.Event()
            self._tasks.append(loop.create_task(self._keep_registered(name_server)))

    def topics_changed(self) -> None:
        """Register again at once: a topic was created or changed."""
        for event in self._changed.values():
            event.set()

    async def stop(self) -> None:
        """Unregister everywhere, as far as name servers answer."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        self._tasks.clear()
        await asyncio.gather(*map(self._unregister, self._config.name_servers))

    async def _keep_registered(self, name_server: str) -> None:
        changed = self._changed[name_server]
        while True:
            changed.clear()
            registered = await self._register(name_server)
            settled = registered and not self._lacks_master
            delay_s = self._config.register_period_s if settled else RETRY_DELAY_S
            try:
                async with asyncio.timeout(delay_s):
                    await changed.wait()
            except TimeoutError:
                continue

    async def _register(self, name_server: str) -> bool:
        try:
            response = await self._client.invoke(
                name_server,
                self._make_request(),
                self._config.register_timeout_s,
                close_on_timeout=True,
            )
            refusal = None if response.code == ResponseCode.SUCCESS else f"code {response.code}"
            self._learn_master(RegisterBrokerResponse.from_ext(response.ext_fields))
        except (RemotingError, ValueError) as error:
            refusal = str(error)
        if refusal is not None:
            self._log.warning("not registered", name_server=name_server, error=refusal)
        return refusal is None

    def _make_request(self) -> RemotingCommand:
        config = self._config
        header = RegisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.cluster_name,
            ha_server_addr=config.ha_address,
            broker_id=config.broker_id,
        )
        body = RegisterBrokerBody(topic_config_table=self._table())
        return RemotingCommand.request(
            RequestCode.REGISTER_BROKER,
            header.to_ext(),
            json_dialect.dumps(body.to_json()),
        )

    def _learn_master(self, response: RegisterBrokerResponse) -> None:
        if self._config.is_slave and response.master_addr and response.ha_server_addr:
            self._lacks_master = False
            self._on_master(response.master_addr, response.ha_server_addr)

    async def _unregister(self, name_server: str) -> None:
        config = self._config
        header = UnregisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.cluster_name,
            broker_id=config.broker_id,
        )
        request = RemotingCommand.request(RequestCode.UNREGISTER_BROKER, header.to_ext())
        try:
            await self._client.invoke(name_server, request, UNREGISTER_TIMEOUT_S)
        except RemotingError as error:
            self._log.warning("not unregistered", name_server=name_server, error=str(error))
