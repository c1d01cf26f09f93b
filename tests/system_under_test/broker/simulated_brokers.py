"""A master, its slaves and a client in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any

from staticfire.harness.simulation.disk.disk import DiskOptions, SimDisk
from staticfire.harness.simulation.hosts.host import Host
from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.assembly.broker import main
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.protocol.codes import ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import decode_records
from staticfire.system_under_test.remoting import RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX
from tests.system_under_test.broker.bench import pull_ext, send_ext

MASTER, SLAVE, CLIENT, NAME_SERVER = "10.0.0.1", "10.0.0.2", "10.0.0.3", "10.0.0.4"
LOG_FILE = "/store/commitlog/" + "0" * 20
OK, FLUSH_DISK_TIMEOUT, SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT, NOT_AVAILABLE = 0, 10, 11, 12, 14


def slave_address(number: int) -> str:
    return SLAVE if number == 1 else f"10.0.1.{number}"


class Cluster:
    """A master, its slaves, and a client that sends and pulls. Each run has its own world.

    `options` go to every broker. `slave` is the first of `slaves`, whose ids are 1, 2, ...
    """

    def __init__(
        self,
        *,
        sync_flush: bool = True,
        role: BrokerRole = BrokerRole.SYNC_MASTER,
        seed: int = 1,
        name_servers: tuple[str, ...] = (),
        fsync_ns: int = 1_000_000,
        slaves: int = 1,
        **options: Any,
    ) -> None:
        self.world = World(seed)
        disk = DiskOptions(fsync_ns=fsync_ns)
        self.master = self.world.add_host("master", MASTER, disk=disk)
        self.slaves = [
            self.world.add_host(
                "slave" if number == 1 else f"slave-{number}", slave_address(number), disk=disk
            )
            for number in range(1, slaves + 1)
        ]
        self.slave = self.slaves[0]
        self._options = options
        self.client = self.world.add_host("client", CLIENT)
        self.name_server = self.world.add_host("name-server", NAME_SERVER)
        self._role = role
        self._sync_flush = sync_flush
        self._name_servers = name_servers

    def start_master(self, on_ready: Callable[[str], None] | None = None) -> SimProcess:
        config = self.master_config()
        return self.master.start("master", lambda env: main(env, config, on_ready=on_ready))

    def master_config(self) -> BrokerConfig:
        return self._config(MASTER, self._role, 0)

    def start_slave(self, number: int = 1) -> SimProcess:
        master = None if self._name_servers else f"{MASTER}:10912"
        config = self._config(slave_address(number), BrokerRole.SLAVE, number, ha_master=master)
        return self.slaves[number - 1].start(f"slave-{number}", lambda env: main(env, config))

    def start_name_server(self) -> SimProcess:
        config = NameServerConfig(listen_host=NAME_SERVER, kv_config_path="/kvConfig.json")
        return self.name_server.start("name-server", lambda env: name_server_main(env, config))

    def _config(
        self,
        address: str,
        role: BrokerRole,
        broker_id: int,
        *,
        ha_master: str | None = None,
    ) -> BrokerConfig:
        hosts = (MASTER, *(slave_address(number) for number in range(1, len(self.slaves) + 1)))
        return BrokerConfig(
            broker_name="broker-a",
            broker_id=broker_id,
            role=role,
            listen_host=address,
            name_servers=self._name_servers,
            sync_flush=self._sync_flush,
            ha_master_address=ha_master,
            ha_peers=tuple(f"{host}:10912" for host in hosts if host != address),
            **{
                "consume_queue_file_size": 20_000,
                "commit_log_file_size": 1 << 20,
                **SMALL_INDEX,
                **self._options,
            },
        )

    def run(self, story: Callable[[Client], Coroutine[Any, Any, None]]) -> None:
        """Run `story` with a client while the hosts do what it tells them."""

        async def run() -> None:
            failure: list[BaseException] = []

            async def tell(env: Env) -> None:
                try:
                    await story(Client(env))
                except Exception as error:
                    failure.append(error)

            status = await self.client.start("client", tell).exit
            assert status.kind == "returned", status
            if failure:
                raise failure[0]

        self.world.run(run)

    def log(self, host: Host) -> bytes:
        return host.disk.read_cached(LOG_FILE)


class Client:
    """Talks to brokers by their address."""

    def __init__(self, env: Env) -> None:
        self._remoting = RemotingClient(env)

    async def ask(
        self, host: str, code: int, ext: dict[str, str] | None = None, timeout_s: float = 10.0
    ) -> RemotingCommand:
        request = RemotingCommand.request(code, ext or {}, b"x" * 100)
        address = host if ":" in host else f"{host}:10911"
        return await self._remoting.invoke(address, request, timeout_s, close_on_timeout=True)

    async def send(self, key: str = "k", *, queue_id: int = 0, timeout_s: float = 1.0) -> int:
        """Send one message to the master; return the response code, or -1 without an answer."""
        ext = send_ext("TopicTest", queue_id=queue_id, properties={"KEYS": key})
        try:
            return (await self.ask(MASTER, 310, ext, timeout_s)).code
        except RemotingError:
            return -1

    async def send_until(self, code: int, *, within_s: float) -> None:
        """Send every 50 ms until the code comes."""
        async with asyncio.timeout(within_s):
            while await self.send() != code:
                await asyncio.sleep(0.05)

    async def keys(self, host: str, queue_id: int = 0) -> list[str]:
        """KEYS of everything that the queue shows."""
        found: list[str] = []
        while True:
            ext = pull_ext("TopicTest", offset=len(found), queue_id=queue_id)
            answer = await self.ask(host, 11, ext)
            if answer.code != ResponseCode.SUCCESS:
                return found
            found += [message.properties["KEYS"] for message in decode_records(answer.body)]

    async def keys_from(self, host: str) -> list[str]:
        """KEYS of everything that queue 0 still shows, from its first message on."""
        ext = {"topic": "TopicTest", "queueId": "0"}
        offset = int((await self.ask(host, 31, ext)).ext_fields["offset"])
        found: list[str] = []
        while True:
            answer = await self.ask(host, 11, pull_ext("TopicTest", offset=offset))
            if answer.code != ResponseCode.SUCCESS:
                return found
            messages = decode_records(answer.body)
            found += [message.properties["KEYS"] for message in messages]
            offset += len(messages)


def wipe(disk: SimDisk, folder: str) -> None:
    """Delete everything in a folder."""
    for name in sorted(disk.listdir(folder)):
        path = f"{folder}/{name}"
        try:
            disk.unlink(path)
        except IsADirectoryError:
            wipe(disk, path)


def on_cluster(
    **options: Any,
) -> Callable[[Callable[[Cluster, Client], Coroutine[Any, Any, None]]], Callable[[], None]]:
    """Makes a test of a story that a new cluster of these options runs."""

    def test_of(
        story: Callable[[Cluster, Client], Coroutine[Any, Any, None]],
    ) -> Callable[[], None]:
        def test() -> None:
            cluster = Cluster(**options)
            cluster.run(partial(story, cluster))

        test.__name__, test.__doc__ = story.__name__, story.__doc__
        return test

    return test_of
