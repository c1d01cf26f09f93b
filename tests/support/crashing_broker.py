"""One broker in a simulated world that is killed and loses its power at random, and a client that puts up with it."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from staticfire.harness.simulation.disk.disk import DiskOptions
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.assembly.broker import main as broker_main
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.message import Message, decode_records, encode_properties
from staticfire.system_under_test.remoting import Connection, Handler, RemotingClient, RemotingError
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX

BROKER, CLIENT = "10.0.0.1", "10.0.0.2"
ADDRESS = f"{BROKER}:10911"
PULL_COUNT = 32


class Client:
    """Asks until the broker answers."""

    def __init__(self, env: Env, world: World, on_request: Handler | None) -> None:
        self._env = env
        self._world = world
        self._remoting = RemotingClient(env, on_request=on_request)

    @property
    def now_ms(self) -> int:
        return self._env.clock.wall_ms()

    async def ask(
        self, code: int, ext: dict[str, Any], body: bytes = b"", timeout_s: float = 1.0
    ) -> RemotingCommand | None:
        """Ask once; None without an answer in time."""
        fields = {name: str(value) for name, value in ext.items()}
        request = RemotingCommand.request(code, fields, body)
        try:
            return await self._remoting.invoke(ADDRESS, request, timeout_s, close_on_timeout=True)
        except RemotingError:
            return None

    async def tell(self, code: int, ext: dict[str, Any]) -> None:
        """Send one-way; a loss goes unnoticed."""
        fields = {name: str(value) for name, value in ext.items()}
        try:
            await self._remoting.invoke_oneway(ADDRESS, RemotingCommand.request(code, fields))
        except RemotingError:
            return

    async def ask_until(self, codes: tuple[int, ...], code: int, ext: dict[str, Any]) -> int:
        """Ask every 100 ms until one of the codes comes."""
        while True:
            answer = await self.ask(code, ext)
            if answer is not None and answer.code in codes:
                return answer.code
            await asyncio.sleep(0.1)

    async def send(
        self, body: bytes, properties: dict[str, str] | None = None, *, sys_flag: int = 0
    ) -> RemotingCommand | None:
        """Send once to TopicTest, queue 0; the answer if it was stored."""
        ext = {
            "a": "producers",
            "b": "TopicTest",
            "c": "TBW102",
            "d": 4,
            "e": 0,
            "f": sys_flag,
            "g": self.now_ms,
            "h": 0,
            "i": encode_properties(properties or {}).decode(),
        }
        answer = await self.ask(310, ext, body)
        return answer if answer is not None and answer.code == 0 else None

    async def read(self, topic: str = "TopicTest", begin: int = 0) -> list[Message]:
        """Everything that queue 0 shows from an offset."""
        found: list[Message] = []
        while True:
            ext = {
                "consumerGroup": "consumers",
                "topic": topic,
                "queueId": 0,
                "queueOffset": begin + len(found),
                "maxMsgNums": PULL_COUNT,
                "sysFlag": 4,
                "commitOffset": 0,
                "suspendTimeoutMillis": 0,
                "subscription": "*",
                "subVersion": 0,
            }
            answer = await self.ask(11, ext)
            if answer is None or answer.code != 0:
                return found
            found += decode_records(answer.body)


Story = Callable[[Client], Awaitable[None]]
Answer = Callable[[Connection, RemotingCommand], RemotingCommand | None]


class CrashingBroker:
    """A world of its own. Crashes are drawn from the seed: kills and power cuts, then a restart."""

    def __init__(self, seed: int, *, fsync_ns: int = 1_000_000, **options: Any) -> None:
        self.world = World(seed)
        self._host = self.world.add_host("broker", BROKER, disk=DiskOptions(fsync_ns=fsync_ns))
        self._client = self.world.add_host("client", CLIENT)
        self._random = self.world.stream("crashes")
        self.crashes = 0
        self.config = BrokerConfig(
            broker_name="a",
            listen_host=BROKER,
            commit_log_file_size=1 << 18,
            consume_queue_file_size=4000,
            **{"sync_flush": True, **SMALL_INDEX, **options},
        )

    def start(self) -> None:
        config = self.config
        self._host.start("broker", lambda env: broker_main(env, config))

    async def crash_for(self, seconds: float) -> None:
        """Crash and restart again and again; at the end the broker runs."""
        end_ns = self.world.now_ns + int(seconds * 1e9)
        while self.world.now_ns < end_ns:
            await asyncio.sleep(self._random.random() * 4 + 0.2)
            self.crashes += 1
            process = self._host.process
            assert process is not None
            if self._random.random() < 0.5:
                process.kill()
            else:
                self._host.power_cut()
                await asyncio.sleep(0.05)
                self._host.power_on()
            await asyncio.sleep(self._random.random())
            self.start()

    async def stop(self) -> None:
        """Stop gracefully."""
        process = self._host.process
        assert process is not None
        process.terminate()
        assert (await process.exit).kind == "terminated"

    def run(self, story: Story, on_request: Handler | None = None) -> None:
        """Start the broker, run the story, and let what it raises out."""
        failure: list[BaseException] = []

        async def tell(env: Env) -> None:
            try:
                await story(Client(env, self.world, on_request))
            except Exception as error:
                failure.append(error)

        async def main() -> None:
            self.start()
            await self._client.start("client", tell).exit

        self.world.run(main)
        if failure:
            raise failure[0]
