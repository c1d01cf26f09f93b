"""A name server: requests in, answers from the route table out (RocketMQ: NamesrvController, DefaultRequestProcessor).

Name servers know nothing of each other; every broker registers with all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass

from system_under_test.env import Env
from system_under_test.name_server.kv_config import KvConfig
from system_under_test.name_server.pause_guard import PauseGuard
from system_under_test.name_server.requests import RequestTable
from system_under_test.name_server.route_table import RouteTable
from system_under_test.protocol.command import RemotingCommand
from system_under_test.remoting import Connection, RemotingServer
from system_under_test.remoting.address import format_address
from system_under_test.store.metadata_file import MetadataFile

LOOK_INTERVAL_S = 0.5  # how often the name server notes that it runs
SCAN_FIRST_NS = 5_000_000_000
SCAN_INTERVAL_NS = 10_000_000_000


@dataclass(frozen=True, slots=True, kw_only=True)
class NameServerConfig:
    """Options of one name server. Names in comments are the Java property names (RocketMQ, NamesrvConfig)."""

    listen_host: str
    listen_port: int = 9876  # listenPort; 0: the system chooses
    kv_config_path: str = "/namesrv/kvConfig.json"  # kvConfigPath
    order_message_enable: bool = False  # orderMessageEnable: routes carry the order configuration


class NameServer:
    """Composes the route table, the key-value pairs, the request handlers and a server."""

    def __init__(self, env: Env, config: NameServerConfig) -> None:
        self._env = env
        self.routes = RouteTable()
        self._kv = KvConfig(MetadataFile(env.storage, config.kv_config_path))
        self._requests = RequestTable(
            self.routes, self._kv, order_message_enable=config.order_message_enable
        )
        now_ns = env.clock.monotonic_ns()
        self._guard = PauseGuard(now_ns)
        self._scan_at_ns = now_ns + SCAN_FIRST_NS
        self._server = RemotingServer(
            env,
            config.listen_host,
            config.listen_port,
            self.handle,
            on_close=self.connection_closed,
        )

    @property
    def address(self) -> str:
        return format_address(self._server.host, self._server.port)

    def load(self) -> None:
        """Read what is saved. Raises StoreError or OSError."""
        self._kv.load()

    async def start(self) -> None:
        """Read what is saved and listen. Raises StoreError or OSError."""
        self.load()
        await self._server.start()
        self._env.log.info("name server started", address=self.address)

    async def stop(self) -> None:
        await self._server.stop()
        self._env.log.info("name server stopped", address=self.address)

    async def run(self) -> None:
        """Watch the brokers until cancelled."""
        while True:
            await asyncio.sleep(LOOK_INTERVAL_S)
            self.look()

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer one request; None, so no answer at all, to a code that a name server does not know."""
        now_ns = self._env.clock.monotonic_ns()
        self._guard.look(now_ns)
        return self._requests.answer(request, connection_key=connection.key, now_ns=now_ns)

    def connection_closed(self, connection: Connection) -> None:
        """A broker is as alive as the connection it registered on; after a pause we cannot tell."""
        if self._guard.look(self._env.clock.monotonic_ns()):
            self.routes.detach(connection.key)
            return
        gone = self.routes.connection_closed(connection.key)
        if gone:
            self._env.log.info("brokers gone: connection closed", addresses=gone)

    def look(self) -> None:
        """Called twice a second; every tenth second, brokers that are silent are forgotten."""
        now_ns = self._env.clock.monotonic_ns()
        must_wait = self._guard.look(now_ns)
        if must_wait or now_ns < self._scan_at_ns:
            return
        self._scan_at_ns = now_ns + SCAN_INTERVAL_NS
        self.routes.drop_detached()
        for key in self.routes.expire(now_ns=now_ns):
            self._env.log.warning("broker gone: silent too long", connection=key)
            self._server.close_connection(key)


async def main(
    env: Env, config: NameServerConfig, *, on_ready: Callable[[str], None] | None = None
) -> None:
    """Serve until cancelled. `on_ready` gets the address once connections are accepted."""
    server = NameServer(env, config)
    await server.start()
    try:
        if on_ready is not None:
            on_ready(server.address)
        await server.run()
    finally:
        await server.stop()
