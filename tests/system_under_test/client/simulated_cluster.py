"""Real name servers, brokers and clients in a simulated world, and what they did."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from staticfire.harness.simulation.hosts.process import SimProcess
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.assembly.broker import main as broker_main
from staticfire.system_under_test.broker.config import BrokerConfig, BrokerRole
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendFailed
from staticfire.system_under_test.client.producer.transactions import AnswerCheck
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.protocol.headers import CreateTopicHeader
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.remoting import RemotingClient
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX

TOPIC = "orders"
ADMIN = "admin"


@dataclass(frozen=True, slots=True, kw_only=True)
class Sent:
    at_s: float
    took_s: float
    key: str
    broker: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Consumed:
    """One message in one call of a listener; `at_s` is when the call ended."""

    at_s: float
    key: str
    member: str
    began_s: float
    queue: MessageQueue
    offset: int
    times: int  # it was tried before


# What a listener does with messages: member and messages in, whether it succeeds out.
Behaviour = Callable[[str, list[Message]], Awaitable[bool]]


async def succeed(_member: str, _messages: list[Message]) -> bool:
    return True


class Cluster:
    """Name servers n1, n2; brokers a, b with a slave each (a1, b1) if wanted; clients as they are started."""

    def __init__(self, seed: int = 1, *, slaves: bool = False) -> None:
        self.world = World(seed)
        self.sent: list[Sent] = []
        self.failed: list[SendFailed] = []
        self.consumed: list[Consumed] = []
        self.refused: list[Consumed] = []  # listeners failed
        self.commits: dict[MessageQueue, int] = {}
        self._slaves = slaves
        self._addresses: dict[str, str] = {}
        for name in ("n1", "n2", "a", "b", *(("a1", "b1") if slaves else ()), ADMIN):
            self._add_host(name)
        self.name_servers = tuple(f"{self._addresses[name]}:9876" for name in ("n1", "n2"))

    @property
    def now_s(self) -> float:
        return self.world.now_ns / 1e9

    def run(self, story: Callable[[], Awaitable[None]], *clients: str) -> None:
        """Start the servers, then the story. Client hosts have to be known beforehand."""
        for name in clients:
            self._add_host(name)

        async def main() -> None:
            for name in list(self._addresses):
                if name not in (*clients, ADMIN):
                    self.start_server(name)
            await asyncio.sleep(1.5)
            self.world.hosts[ADMIN].start(ADMIN, self._create_topic)
            await asyncio.sleep(0.5)
            await story()

        self.world.run(main)

    async def until(self, at_s: float) -> None:
        await asyncio.sleep(at_s - self.now_s)

    # Servers

    def start_server(self, name: str) -> None:
        address = self._addresses[name]
        host = self.world.hosts[name]
        if name.startswith("n"):
            name_server = NameServerConfig(listen_host=address)
            host.start(name, lambda env: name_server_main(env, name_server))
        else:
            config = self._broker_config(name)
            host.start(name, lambda env: broker_main(env, config))

    async def _create_topic(self, env: Env) -> None:
        remoting = RemotingClient(env)
        header = CreateTopicHeader(
            topic=TOPIC,
            default_topic="TBW102",
            read_queue_nums=4,
            write_queue_nums=4,
            perm=6,
            topic_filter_type="SINGLE_TAG",
        )
        for name in ("a", "b"):
            command = RemotingCommand.request(RequestCode.UPDATE_AND_CREATE_TOPIC, header.to_ext())
            answer = await remoting.invoke(f"{self._addresses[name]}:10911", command, 3.0)
            assert answer.code == ResponseCode.SUCCESS
        await remoting.close()

    def address_of(self, server: str) -> str:
        """Where a broker listens, `ip:port`."""
        return f"{self._addresses[server]}:10911"

    def process(self, name: str) -> SimProcess:
        process = self.world.hosts[name].process
        assert process is not None
        return process

    def _broker_config(self, name: str) -> BrokerConfig:
        is_slave = name.endswith("1")
        peer = name[0] if is_slave else f"{name}1"
        master_role = BrokerRole.SYNC_MASTER if self._slaves else BrokerRole.ASYNC_MASTER
        return BrokerConfig(
            broker_name=name[0],
            broker_id=1 if is_slave else 0,
            role=BrokerRole.SLAVE if is_slave else master_role,
            listen_host=self._addresses[name],
            listen_port=10911,
            name_servers=self.name_servers,
            store_path="/store",
            sync_flush=True,
            commit_log_file_size=1 << 20,
            consume_queue_file_size=4000,
            **SMALL_INDEX,
            ha_peers=(f"{self._addresses[peer]}:10912",) if self._slaves else (),
        )

    # Clients

    def start_producer(
        self, name: str, *, until_s: float, every_s: float, keys: int | None = None
    ) -> None:
        """Send every so often; in order, with so many sharding keys, if that is wanted."""
        config = ProducerConfig(
            group="p", name_servers=self.name_servers, client_id=f"{self._addresses[name]}@{name}"
        )

        async def main(env: Env) -> None:
            producer = Producer(env, config)
            await producer.start()
            number = 0
            while self.now_s < until_s:
                sharding_key = None if keys is None else str(number % keys)
                await self._send(producer, f"{name}-{number}", sharding_key)
                number += 1
                await asyncio.sleep(every_s)
            await producer.stop()

        self.world.hosts[name].start(name, main)

    def produce(
        self,
        name: str,
        work: Callable[[Producer], Awaitable[None]],
        check: AnswerCheck | None = None,
        **options: Any,
    ) -> asyncio.Future[None]:
        """Start a producer and let `work` use it; the future ends with it, and with what it raised."""
        config = ProducerConfig(
            group="p",
            name_servers=self.name_servers,
            client_id=f"{self._addresses[name]}@{name}",
            **options,
        )
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        async def main(env: Env) -> None:
            producer = Producer(env, config, check=check)
            await producer.start()
            try:
                await work(producer)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)
            await producer.stop()

        self.world.hosts[name].start(name, main)
        return done

    async def _send(self, producer: Producer, key: str, sharding_key: str | None) -> None:
        started_s = self.now_s
        message = Message(topic=TOPIC, body=key.encode())
        try:
            if sharding_key is None:
                result = await producer.send(message)
            else:
                result = await producer.send_ordered(message, sharding_key)
        except SendFailed as error:
            self.failed.append(error)
            return
        sent = Sent(
            at_s=self.now_s,
            took_s=self.now_s - started_s,
            key=key,
            broker=result.queue.broker_name,
        )
        self.sent.append(sent)

    def start_consumer(self, name: str, behaviour: Behaviour = succeed, **options: Any) -> None:
        """Start a member of the group g; `options` are fields of ConsumerConfig."""
        options = {"group": "g", "topic": TOPIC, **options}
        config = ConsumerConfig(
            name_servers=self.name_servers,
            client_id=f"{self._addresses[name]}@{name}",
            **options,
        )

        async def listen(messages: list[Message], queue: MessageQueue) -> bool:
            began_s = self.now_s
            succeeded = await behaviour(name, messages)
            (self.consumed if succeeded else self.refused).extend(
                Consumed(
                    at_s=self.now_s,
                    key=message.body.decode(),
                    member=name,
                    began_s=began_s,
                    queue=queue,
                    offset=message.queue_offset,
                    times=message.reconsume_times,
                )
                for message in messages
            )
            return succeeded

        async def main(env: Env) -> None:
            consumer = PushConsumer(env, config, listen, on_commit=self.commits.update)
            await consumer.start()
            try:
                await asyncio.get_running_loop().create_future()
            finally:
                await consumer.stop()

        self.world.hosts[name].start(name, main)

    # What came of it

    def lost(self) -> list[str]:
        """Keys that were acknowledged and never consumed."""
        consumed = {one.key for one in self.consumed}
        return [one.key for one in self.sent if one.key not in consumed]

    def repeats(self) -> int:
        return len(self.consumed) - len({one.key for one in self.consumed})

    def delays_s(self, *, after_s: float = 0.0) -> list[float]:
        """From the end of each send to its first consumption."""
        first: dict[str, float] = {}
        for one in self.consumed:
            first.setdefault(one.key, one.at_s)
        return [first[one.key] - one.at_s for one in self.sent if one.at_s >= after_s]

    def _add_host(self, name: str) -> None:
        self._addresses[name] = f"10.0.0.{len(self._addresses) + 1}"
        self.world.add_host(name, self._addresses[name])
