"""A name server: answers requests from its route table (RocketMQ: NamesrvController, DefaultRequestProcessor).

Name servers know nothing of each other; every broker registers with all of them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from staticfire.system_under_test.name_server.admission import Admission
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.kv_config import KvConfig
from staticfire.system_under_test.name_server.live_config import LiveConfig
from staticfire.system_under_test.name_server.policies import name_server_policies
from staticfire.system_under_test.name_server.requests import RequestTable
from staticfire.system_under_test.name_server.route_table import RouteTable
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import Connection, RemotingServer
from staticfire.system_under_test.remoting.address import format_address
from staticfire.system_under_test.runtime.env import Env

CHECK_INTERVAL_S = 0.5  # between two calls of `note_time`
SCAN_FIRST_NS = 5_000_000_000
SCAN_INTERVAL_NS = 10_000_000_000
FORGOTTEN_A_TURN = 200  # brokers of an ended connection that are dropped in one turn of the loop


class NameServer:
    """Composes the route table, the key-value pairs, the request handlers and a server."""

    def __init__(self, env: Env, config: NameServerConfig) -> None:
        self._env = env
        policies = name_server_policies(config)
        self.routes = RouteTable(
            slave_topics=policies.slave_topics,
            leaves=policies.leaves,
            is_outdated=policies.is_outdated,
        )
        self._kv = KvConfig(policies.metadata_file(env.storage, config.kv_config_path))
        self._requests = RequestTable(self.routes, self._kv, LiveConfig(config, env.storage))
        self._admission = Admission(config, env.log) if config.restricts_brokers else None
        self._answer_unknown = policies.answer_unknown
        self._silence_clock_ns = policies.silence_clock_ns
        now_ns = env.clock.monotonic_ns()
        self._guard = policies.pause_guard(now_ns)
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
        """Load the key-value pairs. Raises StoreError."""
        self._kv.load()

    async def start(self) -> None:
        """Load the key-value pairs and listen. Raises StoreError or CannotListen."""
        self.load()
        await self._server.start()
        self._env.log.info("name server started", address=self.address)

    async def stop(self) -> None:
        await self._server.stop()
        self._env.log.info("name server stopped", address=self.address)

    async def run(self) -> None:
        """Watch the brokers until cancelled."""
        while True:
            await asyncio.sleep(CHECK_INTERVAL_S)
            self.note_time()

    def handle(self, connection: Connection, request: RemotingCommand) -> RemotingCommand | None:
        """Answer one request; None: the answer comes later, or never. Raises ValueError for a mistake of the peer."""
        clock = self._env.clock
        self._guard.note_time(clock.monotonic_ns())
        if not self._requests.knows(request.code):
            return self._answer_unknown(request)
        if self._admission is not None:
            refused = self._admission.refuse(request, connection.remote_host)
            if refused is not None:
                return refused
        now_ns = self._silence_clock_ns(clock)
        return self._requests.answer(request, connection=connection, now_ns=now_ns)

    def connection_closed(self, connection: Connection) -> None:
        """Drop the brokers registered on a connection that has ended; after a pause of ours, keep them for a while."""
        if self._guard.note_time(self._env.clock.monotonic_ns()):
            self.routes.detach(connection.key)
            return
        now_ns = self._silence_clock_ns(self._env.clock)
        gone = self.routes.connection_closed(connection.key, now_ns=now_ns, most=FORGOTTEN_A_TURN)
        if gone.addresses:
            self._env.log.info("brokers gone: connection closed", addresses=gone.addresses)
        for key in gone.connection_keys:
            self._server.close_connection(key)
        # an untrusted peer may have registered thousands
        if len(gone.addresses) == FORGOTTEN_A_TURN:
            asyncio.get_running_loop().call_soon(self.connection_closed, connection)

    def note_time(self) -> None:
        """Watch for pauses; every ten seconds also drop silent brokers. Call every CHECK_INTERVAL_S."""
        now_ns = self._env.clock.monotonic_ns()
        must_wait = self._guard.note_time(now_ns)
        if must_wait or now_ns < self._scan_at_ns:
            return
        self._scan_at_ns = now_ns + SCAN_INTERVAL_NS
        silence_now_ns = self._silence_clock_ns(self._env.clock)
        self.routes.drop_detached(now_ns=silence_now_ns)
        for key in self.routes.expire(now_ns=silence_now_ns):
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
