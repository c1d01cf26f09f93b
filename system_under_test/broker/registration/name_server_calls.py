"""The requests of a broker to a name server (RocketMQ: BrokerOuterAPI)."""

from __future__ import annotations

import asyncio
import zlib
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Protocol

from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.broker.metadata.topics import TopicChange
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import (
    DataVersion,
    RegisterBrokerBody,
    TopicConfigTable,
)
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import (
    QueryDataVersionResponse,
    RegisterBrokerHeader,
    RegisterBrokerResponse,
    UnregisterBrokerHeader,
)
from staticfire.system_under_test.remoting import Connection, RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Log

CRC_MASK = 0x7FFFFFFF  # RocketMQ, UtilAll.crc32
UNREGISTER_TIMEOUT_S = 3.0
QUERY_TIMEOUT_S = 3.0


class NameServerRefused(Exception):
    """A name server answered, but not with success."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Registered:
    """The answer to a registration. `ordered`: ordered topics; None without an order configuration."""

    master_address: str | None
    master_ha_address: str | None
    ordered: tuple[str, ...] | None  # topics

    @classmethod
    def from_response(cls, response: RemotingCommand) -> Registered:
        """Raises NameServerRefused, or ValueError for a malformed answer."""
        if response.code != ResponseCode.SUCCESS:
            raise NameServerRefused(f"code {response.code}: {response.remark}")
        header = RegisterBrokerResponse.from_ext(response.ext_fields)
        return cls(
            master_address=header.master_addr,
            master_ha_address=header.ha_server_addr,
            ordered=_ordered(response.body),
        )


def _ordered(body: bytes) -> tuple[str, ...] | None:
    document = json_dialect.loads(body) if body else None
    table = document.get("table") if isinstance(document, dict) else None
    return tuple(table) if isinstance(table, Mapping) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class RegistrationEvents:
    """Callbacks with what a broker learns from the answers."""

    on_master: Callable[[str, str], None]  # (address, HA address) of the master; on slaves
    on_ordered: Callable[[Collection[str]], None]  # all ordered topics


class KeepsRegistered(Protocol):
    """Keeps a broker registered. `tried` is set while every name server has been called at least once."""

    tried: asyncio.Event

    def start(self) -> None: ...

    def options_changed(self) -> None:
        """Apply a changed list of name servers."""
        ...

    def connection_ended(self, name_server: str) -> None:
        """A connection to this address has ended."""
        ...

    def topics_changed(self, change: TopicChange) -> None:
        """Register the change soon."""
        ...

    def when_known(self, then: Callable[[], None]) -> None:
        """Call `then` once each name server has answered a registration with all changes so far, or has failed to.

        It may be called at once, and is called after registerBrokerTimeoutMills at the latest.
        """
        ...

    async def stop(self) -> None:
        """Unregister everywhere, as far as name servers answer."""
        ...


class NameServerCalls:
    """Requests of one broker to any name server."""

    def __init__(self, config: BrokerConfig, client: RemotingClient, log: Log) -> None:
        self._config = config
        self._client = client
        self._log = log

    def connection(self, name_server: str) -> Connection | None:
        """The open connection to the name server, if there is one."""
        return self._client.connection(name_server)

    async def register(self, name_server: str, table: TopicConfigTable) -> Registered:
        """Register these topics and wait for the answer. Raises RemotingError, NameServerRefused or ValueError."""
        response = await self._client.invoke(
            name_server,
            self._registration(table),
            self._config.register_timeout_s,
            close_on_timeout=True,
        )
        return Registered.from_response(response)

    async def register_oneway(self, name_server: str, table: TopicConfigTable) -> None:
        """Register these topics; wait only for the connection. Raises RemotingError."""
        await self._client.invoke_oneway(name_server, self._registration(table))

    async def is_changed(self, name_server: str, version: DataVersion) -> bool:
        """Whether the name server has another version, or cannot answer."""
        request = RemotingCommand.request(
            RequestCode.QUERY_DATA_VERSION,
            self._identity().to_ext(),
            json_dialect.dumps(version.to_json()),
        )
        try:
            response = await self._client.invoke(name_server, request, QUERY_TIMEOUT_S)
            if response.code != ResponseCode.SUCCESS:
                return True
            return QueryDataVersionResponse.from_ext(response.ext_fields).changed
        except (RemotingError, ValueError):
            return True

    async def unregister(self, name_server: str) -> None:
        """Unregister; only logs a name server that does not answer."""
        header = self._identity()
        request = RemotingCommand.request(RequestCode.UNREGISTER_BROKER, header.to_ext())
        try:
            await self._client.invoke(name_server, request, UNREGISTER_TIMEOUT_S)
        except RemotingError as error:
            self._log.warning("not unregistered", name_server=name_server, error=str(error))

    def _identity(self) -> UnregisterBrokerHeader:
        config = self._config
        return UnregisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.cluster_name,
            broker_id=config.broker_id,
        )

    def _registration(self, table: TopicConfigTable) -> RemotingCommand:
        config = self._config
        compressed = config.compressed_register
        body = RegisterBrokerBody(topic_config_table=table).encode_for(compressed=compressed)
        header = RegisterBrokerHeader(
            broker_name=config.broker_name,
            broker_addr=config.address,
            cluster_name=config.cluster_name,
            ha_server_addr=config.ha_address,
            broker_id=config.broker_id,
            compressed=compressed,
            body_crc32=zlib.crc32(body) & CRC_MASK,
        )
        return RemotingCommand.request(RequestCode.REGISTER_BROKER, header.to_ext(), body)
