"""Clusters behind the proxy: clients, ours and RocketMQ's own in C++, that know nothing of it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from staticfire.faults.proxy import LinkFault, Proxy, ProxyNetwork
from staticfire.harness.local_cluster import LocalCluster
from staticfire.harness.local_cluster.ports import free_ports
from staticfire.system_under_test.admin.client import AdminClient
from staticfire.system_under_test.admin.messages import by_offset_id
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.client.producer.producer import Producer, ProducerConfig
from staticfire.system_under_test.client.producer.send_result import SendResult
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import SendStatus
from staticfire.system_under_test.protocol.message import Message, parse_offset_message_id
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support.cpp_load import IS_INSTALLED, CppLoad
from tests.support.local_processes import LocalPair
from tests.support.sending import send

pytestmark = pytest.mark.real

TOPIC = "Orders"
WAIT_S = 60.0


async def until(what: str, is_so: Callable[[], object]) -> None:
    """Raises TimeoutError."""
    try:
        async with asyncio.timeout(WAIT_S):
            while not is_so():
                await asyncio.sleep(0.005)
    except TimeoutError:
        raise TimeoutError(f"not after {WAIT_S} s: {what}") from None


async def bitten(fault: LinkFault) -> None:
    await until(f"{fault.kind} bites", lambda: fault.bitten)


@dataclass(slots=True)
class Load:
    """A producer that sends one message after another, and a consumer, each with a door of its own."""

    acked: list[str] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    got: list[str] = field(default_factory=list)
    is_over: bool = False

    async def more(self, what: list[str], count: int = 5) -> None:
        wanted = len(what) + count
        await until(f"{count} more", lambda: len(what) >= wanted)

    async def drain(self) -> None:
        self.is_over = True
        await until("everything acknowledged arrives", lambda: set(self.acked) <= set(self.got))


@asynccontextmanager
async def load_through(proxy: Proxy) -> AsyncIterator[Load]:
    load = Load()

    async def listen(messages: list[Message], _: MessageQueue) -> bool:
        load.got.extend(message.body.decode() for message in messages)
        return True

    producer = await started_producer(proxy, "producer", send_timeout_s=1.0, try_timeout_s=0.5)
    consumer = PushConsumer(
        make_env("consumer"),
        ConsumerConfig(
            group="group",
            name_servers=tuple(proxy.name_servers_for("consumer").split(";")),
            client_id="127.0.0.1@consumer",
            topic=TOPIC,
        ),
        listen,
    )
    await consumer.start()
    sends = asyncio.create_task(_send_forever(producer, load))
    try:
        yield load
    finally:
        sends.cancel()
        await asyncio.gather(sends, return_exceptions=True)
        await asyncio.gather(producer.stop(), consumer.stop())


async def started_producer(proxy: Proxy, door: str, **options: float) -> Producer:
    config = ProducerConfig(
        group="producers",
        name_servers=tuple(proxy.name_servers_for(door).split(";")),
        client_id=f"127.0.0.1@{door}",
        **options,  # type: ignore[arg-type]
    )
    producer = Producer(make_env(door), config)
    await producer.start()
    return producer


async def _send_forever(producer: Producer, load: Load) -> None:
    number = 0
    while not load.is_over:
        number += 1
        text = f"m{number}"
        try:
            result = await producer.send(Message(topic=TOPIC, body=text.encode()))
            (load.acked if result.status is SendStatus.SEND_OK else load.failed).append(text)
        except ClientError:
            load.failed.append(text)
        await asyncio.sleep(0.002)


@asynccontextmanager
async def cluster_behind_proxy() -> AsyncIterator[tuple[Proxy, Load]]:
    """Two name servers and a master under load, which knows the topic already."""
    async with LocalCluster(name_servers=2) as cluster, Proxy(cluster.name_servers) as proxy:
        await asyncio.to_thread(send, cluster.name_servers, TOPIC, b"first")
        async with load_through(proxy) as load:
            await load.more(load.got)
            yield proxy, load


def test_our_clients_through_a_partition_and_a_cut() -> None:
    async def run() -> None:
        async with cluster_behind_proxy() as (proxy, load):
            partition = proxy.drop(client="producer", server="broker-a-0", direction="down")
            await load.more(load.failed, 1)
            await load.more(load.got, 1)  # the fault strikes no other client
            proxy.heal(partition)
            await load.more(load.acked)
            cut = proxy.cut(client="producer", server="brokers")
            await load.more(load.failed, 1)
            proxy.heal(cut)
            await load.more(load.acked)
            await load.drain()
            links = {link.name: link for link in proxy.links()}
        struck, spared = links["producer>broker-a-0"], links["consumer>broker-a-0"]
        assert struck.down.dropped == partition.bytes > 0
        assert struck.cut == cut.connections > 0
        assert (spared.down.dropped, spared.cut, spared.torn) == (0, 0, 0)

    asyncio.run(run())


def test_our_clients_while_name_servers_play_dead_and_the_broker_is_far() -> None:
    async def run() -> None:
        async with cluster_behind_proxy() as (proxy, load):
            dead = proxy.freeze(server="name-servers")
            far = proxy.delay(20, 5, server="brokers")
            late = await started_producer(proxy, "late")
            send_late = asyncio.create_task(late.send(Message(topic="Other", body=b"x")))
            await bitten(dead)
            await load.more(load.acked)
            await load.more(load.got)
            assert not send_late.done()
            proxy.heal()
            assert (await send_late).status is SendStatus.SEND_OK
            await load.drain()
            await late.stop()
            assert load.failed == []
            assert dead.bytes > 0
            assert dead.connections >= 1  # accepted, not answered
            assert far.bytes > 0
            links = {link.name: link for link in proxy.links()}
        assert links["late>name-server-1"].up.frozen + links["late>name-server-2"].up.frozen > 0
        assert links["consumer>broker-a-0"].down.delayed > 0

    asyncio.run(run())


def test_ids_of_messages_lead_through_the_proxy() -> None:
    async def run() -> None:
        async with LocalCluster() as cluster, Proxy(cluster.name_servers) as proxy:
            servers = proxy.name_server_address
            [result] = await asyncio.to_thread(send, [servers], TOPIC, b"x")
            host, port, _ = parse_offset_message_id(result.offset_message_id)
            [shown] = [shown for server, _, shown in proxy.servers if server.name == "broker-a-0"]
            assert f"{host}:{port}" == shown
            async with AdminClient(make_env("admin"), [servers]) as admin:
                message = await by_offset_id(admin, result.offset_message_id)
            assert (message.body, message.store_host) == (b"x", (host, port))
            fault = proxy.freeze(server="brokers")
            admin = AdminClient(make_env("admin"), [servers])
            task = asyncio.create_task(by_offset_id(admin, result.offset_message_id))
            await bitten(fault)
            proxy.heal()
            assert (await task).body == b"x"
            await admin.close()

    asyncio.run(run())


def test_a_slave_is_cut_off_from_its_master(tmp_path: Path) -> None:
    """Both register through the proxy, each by a listener of its own. The slave learns no other address."""
    properties = tmp_path / "broker.properties"
    properties.write_text("slaveTimeout=200\n")

    async def run() -> None:
        [port] = free_ports(1)
        async with Proxy([f"127.0.0.1:{port}"]) as proxy:
            pair = LocalPair(
                tmp_path,
                with_slave=True,
                flush="async",
                broker_file=properties,
                name_server_port=port,
                seen_as=proxy.name_servers_for,
            )
            await asyncio.to_thread(pair.__enter__)
            try:
                await _cut_off(proxy, pair)
            finally:
                await asyncio.to_thread(pair.__exit__, None, None, None)

    asyncio.run(run())


async def _cut_off(proxy: Proxy, pair: LocalPair) -> None:
    async def first_send() -> SendResult:
        """By a new producer each time: one that has met the slave alone looks for a master again after 30 s."""
        [result] = await asyncio.to_thread(send, [pair.name_server_address], TOPIC, b"x")
        return result

    await _until_ok(first_send)
    # A client that asks the name server itself goes through the proxy, too: brokers are registered with its addresses.
    config = ProducerConfig(
        group="g", name_servers=(pair.name_server_address,), client_id="127.0.0.1@direct"
    )
    producer = Producer(make_env("direct"), config)
    await producer.start()

    async def send_one() -> SendResult:
        return await producer.send(Message(topic=TOPIC, body=b"x"))

    master = [str(one.address) for one, _, _ in proxy.servers if one.name.startswith("broker-a-0")]
    network = ProxyNetwork(proxy, {"master": list(dict.fromkeys(master))})
    await network.drop(source="master", target="slave")
    assert (await send_one()).status is SendStatus.FLUSH_SLAVE_TIMEOUT
    assert await network.dropped(source="master", target="slave") > 0
    await network.heal()
    await _until_ok(send_one)
    cut = proxy.cut(client="slave", server="ha")
    await bitten(cut)
    assert (await send_one()).status is not SendStatus.SEND_OK
    proxy.heal(cut)
    await _until_ok(send_one)
    names = {link.name for link in proxy.links()}
    assert {"master>name-server-1", "slave>name-server-1", "slave>broker-a-0/ha"} <= names
    assert "producers>broker-a-0" not in names
    assert any(name.endswith("g>broker-a-0") or "@direct>broker-a-0" in name for name in names)
    await producer.stop()


async def _until_ok(send_one: Callable[[], Awaitable[SendResult]]) -> None:
    async with asyncio.timeout(WAIT_S):
        while True:
            with suppress(ClientError):  # the brokers are just being registered
                if (await send_one()).status is SendStatus.SEND_OK:
                    return
            await asyncio.sleep(0.02)


@pytest.mark.skipif(not IS_INSTALLED, reason="needs PyPI's rocketmq (extra cpp-client)")
def test_the_cpp_client_through_partition_freeze_and_heal() -> None:
    async def run() -> None:
        async with LocalCluster() as cluster, Proxy(cluster.name_servers) as proxy:
            await asyncio.to_thread(send, cluster.name_servers, TOPIC, b"-1")  # makes the topic
            with CppLoad(proxy.name_server_address, TOPIC) as load:
                await asyncio.to_thread(load.wait_for_more, "got", 5)
                for kind, client, server, direction in (
                    ("freeze", "*", "*", "both"),
                    ("freeze", "*", "brokers", "down"),
                    ("drop", "cpp-producers", "brokers", "both"),
                    ("cut", "cpp-producers", "*", "both"),
                ):
                    fault = proxy.inject(kind, client=client, server=server, direction=direction)
                    await bitten(fault)
                    proxy.heal(fault)
                    await asyncio.to_thread(load.wait_for_more, "acked", 5)
                await asyncio.to_thread(load.finish)
            links = {link.name: link for link in proxy.links()}
        assert any("@consumer>broker" in name for name in links)
        assert sum(link.down.frozen for link in links.values()) > 0
        assert sum(link.cut for link in links.values()) >= 1
        assert sum(link.up.dropped for link in links.values()) > 0

    asyncio.run(run())
