"""Registration with several name servers, some of which hang."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Coroutine, Sequence
from functools import partial, wraps
from typing import Any

import pytest

from staticfire.harness.simulation.hosts.host import Host
from staticfire.harness.simulation.hosts.world import World
from staticfire.system_under_test.broker.assembly.broker import main
from staticfire.system_under_test.broker.config import BrokerConfig
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.name_server.config import NameServerConfig
from staticfire.system_under_test.name_server.name_server import main as name_server_main
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.remoting import RemotingClient, RemotingClosed
from staticfire.system_under_test.runtime.env import Env
from tests.support.small_index import SMALL_INDEX

TOPIC_NOT_EXIST = 17
BROKER_ADDRESS = "10.0.0.3:10911"


class Cluster:
    """Two name servers and a broker that knows both. `env` is the client's."""

    env: Env

    def __init__(self) -> None:
        self.world = World(1)
        self.name_servers = [self.world.add_host(f"ns{n}", f"10.0.0.{n}") for n in (1, 2)]
        self.broker = self.world.add_host("broker", "10.0.0.3")
        self.client = self.world.add_host("client", "10.0.0.4")

    def start_name_server(self, host: Host) -> None:
        config = NameServerConfig(listen_host=host.address, kv_config_path="/kvConfig.json")
        host.start(host.name, lambda env: name_server_main(env, config))

    def broker_config(self, **options: Any) -> BrokerConfig:
        return BrokerConfig(
            broker_name="broker-a",
            listen_host=self.broker.address,
            name_servers=tuple(f"{host.address}:9876" for host in self.name_servers),
            commit_log_file_size=1 << 20,
            consume_queue_file_size=20_000,
            **SMALL_INDEX,
            **options,
        )

    def start_broker(self, **options: Any) -> None:
        config = self.broker_config(**options)
        self.broker.start("broker", lambda env: main(env, config))

    async def start(self, name_servers: Sequence[Host], **options: Any) -> None:
        """Start these, and the broker; return when it is registered."""
        for host in name_servers:
            self.start_name_server(host)
        await asyncio.sleep(0.1)
        self.start_broker(**options)
        await asyncio.sleep(1)

    def run(self, story: Callable[[Cluster, RemotingClient], Coroutine[Any, Any, None]]) -> None:
        failures: list[Exception] = []

        async def tell(env: Env) -> None:
            self.env = env
            try:
                await story(self, RemotingClient(env))
            except Exception as error:
                failures.append(error)

        async def run() -> None:
            await self.client.start("client", tell).exit

        self.world.run(run)
        if failures:
            raise failures[0]


def in_cluster(story: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Makes a test of a coroutine function, whose first parameters are a cluster and the client."""

    @wraps(story)
    def test(**given: Any) -> None:
        Cluster().run(partial(story, **given))

    signature = inspect.signature(story)
    parameters = list(signature.parameters.values())[2:]
    test.__signature__ = signature.replace(parameters=parameters)  # type: ignore[attr-defined]
    return test


def kill(host: Host) -> None:
    assert host.process is not None
    host.process.kill()


async def route_code(remoting: RemotingClient, host: Host, topic: str) -> int:
    """The code of GET_ROUTEINFO_BY_TOPIC."""
    request = RemotingCommand.request(105, {"topic": topic})
    return (await remoting.invoke(f"{host.address}:9876", request, 1.0)).code


async def route(remoting: RemotingClient, host: Host, topic: str) -> Any:
    """The first queues of a topic."""
    request = RemotingCommand.request(105, {"topic": topic})
    body = (await remoting.invoke(f"{host.address}:9876", request, 1.0)).body
    return json_dialect.loads(body)["queueDatas"][0]


async def is_ordered(remoting: RemotingClient, topic: str) -> bool:
    """What the broker's table of topics says (code 21)."""
    response = await remoting.invoke(BROKER_ADDRESS, RemotingCommand.request(21), 1.0)
    table = json_dialect.loads(response.body)["topicConfigTable"]
    return bool(table[topic]["order"])


async def change_order_config(remoting: RemotingClient, host: Host, code: int) -> None:
    """Put (100) or delete (102) the order configuration of New at one name server."""
    ext = {"namespace": "ORDER_TOPIC_CONFIG", "key": "New", "value": "broker-a:2"}
    request = RemotingCommand.request(code, ext)
    assert (await remoting.invoke(f"{host.address}:9876", request, 1.0)).code == 0


async def create_topic(remoting: RemotingClient, topic: str, *, timeout_s: float = 1.0) -> None:
    ext = {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": "2",
        "writeQueueNums": "2",
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "order": "false",
    }
    response = await remoting.invoke(BROKER_ADDRESS, RemotingCommand.request(17, ext), timeout_s)
    assert response.code == 0


def now_s() -> float:
    return asyncio.get_running_loop().time()


@in_cluster
async def test_hung_name_server_does_not_delay_the_others(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    hung, lively = cluster.name_servers
    for host in (hung, lively):
        cluster.start_name_server(host)
    cluster.start_broker()
    await asyncio.sleep(1)
    hung.pause()
    for topic in ("New", "Newer"):
        creation = asyncio.create_task(create_topic(remoting, topic, timeout_s=7.0))
        await asyncio.sleep(0.1)
        assert await route_code(remoting, lively, topic) == 0
        await creation
    hung.resume()
    await asyncio.sleep(8)  # the time-out of the hung registration, and a retry
    assert await route_code(remoting, hung, "Newer") == 0


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("options", [{}, {"force_register": False}], ids=str)
@in_cluster
async def test_name_servers_know_what_was_done_to_a_topic_when_it_is_answered(
    cluster: Cluster, remoting: RemotingClient, mode: Mode, options: dict[str, Any]
) -> None:
    await cluster.start(cluster.name_servers, mode=mode, **options)
    for n in range(5):
        await create_topic(remoting, f"New{n}")
        for host in cluster.name_servers:
            assert await route_code(remoting, host, f"New{n}") == 0
    change = RemotingCommand.request(25, body=b"brokerPermission=4")
    assert (await remoting.invoke(BROKER_ADDRESS, change, 1.0)).code == 0
    for host in cluster.name_servers:
        assert (await route(remoting, host, "New0"))["perm"] == 4


@in_cluster
async def test_no_registration_brings_a_topic_back_whose_deletion_is_answered(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    """An administrator deletes it at the brokers, then at the name servers."""
    await cluster.start(cluster.name_servers)
    slow = cluster.name_servers[0]
    slow.pause()
    creation = asyncio.create_task(create_topic(remoting, "New", timeout_s=7.0))
    await asyncio.sleep(0.1)  # a registration with the topic is on its way
    request = RemotingCommand.request(215, {"topic": "New"})
    deletion = asyncio.create_task(remoting.invoke(BROKER_ADDRESS, request, 7.0))
    await asyncio.sleep(1)
    assert not deletion.done()
    slow.resume()
    assert (await deletion).code == 0
    await creation
    for host in cluster.name_servers:
        forget = RemotingCommand.request(216, {"topic": "New"})
        assert (await remoting.invoke(f"{host.address}:9876", forget, 1.0)).code == 0
    await asyncio.sleep(1)
    for host in cluster.name_servers:
        assert await route_code(remoting, host, "New") == TOPIC_NOT_EXIST


@pytest.mark.parametrize("mode", list(Mode))
@in_cluster
async def test_hung_name_server_delays_a_creation_for_6_s_and_nothing_else(
    cluster: Cluster, remoting: RemotingClient, mode: Mode
) -> None:
    await cluster.start(cluster.name_servers, mode=mode)
    cluster.name_servers[0].pause()
    begin_s = now_s()
    creation = asyncio.create_task(create_topic(remoting, "New", timeout_s=7.0))
    await asyncio.sleep(0.1)
    assert not await is_ordered(remoting, "New")
    assert now_s() - begin_s < 0.2
    await creation
    assert 5.9 < now_s() - begin_s < 6.2


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("has_died", [True, False], ids=["dead", "refuses"])
@in_cluster
async def test_name_server_that_is_gone_or_refuses_delays_no_creation(
    cluster: Cluster, remoting: RemotingClient, mode: Mode, has_died: bool
) -> None:
    others = NameServerConfig(
        listen_host="10.0.0.1", kv_config_path="/kvConfig.json", register_brokers=("other",)
    )
    first = cluster.name_servers[0]
    first.start("ns1", lambda env: name_server_main(env, others))
    cluster.start_name_server(cluster.name_servers[1])
    await asyncio.sleep(0.1)
    cluster.start_broker(mode=mode)
    await asyncio.sleep(1)
    if has_died:
        kill(first)
    begin_s = now_s()
    await create_topic(remoting, "New")
    assert now_s() - begin_s < 0.1
    assert await route_code(remoting, cluster.name_servers[1], "New") == 0


@in_cluster
async def test_options_that_concern_no_route_are_answered_while_a_name_server_hangs(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    await cluster.start(cluster.name_servers)
    cluster.name_servers[0].pause()
    change = RemotingCommand.request(25, body=b"maxMessageSize=1000")
    assert (await remoting.invoke(BROKER_ADDRESS, change, 0.2)).code == 0


@in_cluster
async def test_name_server_that_starts_later_is_found_within_seconds(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    early, late = cluster.name_servers
    cluster.start_name_server(early)
    cluster.start_broker()
    await asyncio.sleep(5)
    cluster.start_name_server(late)
    await asyncio.sleep(2)
    assert await route_code(remoting, late, "TBW102") == 0


@pytest.mark.parametrize("mode", Mode)
@in_cluster
async def test_a_broker_stays_known_when_its_former_connection_ends_late(
    cluster: Cluster, remoting: RemotingClient, mode: Mode
) -> None:
    """A name server forgets a broker with the connection on which it registered. A query is no registration."""
    name_server = cluster.name_servers[0]
    await cluster.start([name_server], mode=mode, force_register=False)
    await asyncio.sleep(1)
    await create_topic(remoting, "New")
    cluster.world.network.drop("broker", name_server.name)
    kill(cluster.broker)
    await asyncio.sleep(8)  # TCP repeats the end of the connection some seconds later
    cluster.world.network.heal()
    cluster.start_broker(mode=mode, force_register=False)
    await asyncio.sleep(10)
    assert await route_code(remoting, name_server, "TBW102") == 0


@in_cluster
async def test_a_registration_on_an_older_connection_ends_it(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    """A broker that still uses the connection comes again on a new one, and that counts."""
    name_server = cluster.name_servers[0]
    cluster.start_name_server(name_server)
    await asyncio.sleep(0.1)
    older = await remoting.connect(f"{name_server.address}:9876")
    cluster.start_broker()
    await asyncio.sleep(1)
    identity = {"brokerName": "broker-a", "brokerAddr": BROKER_ADDRESS, "brokerId": "1"}
    ext = {**identity, "clusterName": "DefaultCluster", "haServerAddr": BROKER_ADDRESS}
    with pytest.raises(RemotingClosed):
        await remoting.invoke(older.address, RemotingCommand.request(103, ext), 1.0)
    assert older.closed
    assert await route_code(remoting, name_server, "TBW102") == 0


@pytest.mark.parametrize("mode", Mode)
@in_cluster
async def test_a_broker_that_cannot_listen_does_not_unregister_the_one_that_does(
    cluster: Cluster, remoting: RemotingClient, mode: Mode
) -> None:
    """4.9.8 does: its process ends through the shutdown hook."""
    cluster.start_name_server(cluster.name_servers[0])
    cluster.start_broker()
    await asyncio.sleep(2.0)
    second = cluster.world.add_host("second", "10.0.0.5")
    config = cluster.broker_config(mode=mode)  # of the first one's address
    status = await second.start("second", lambda env: main(env, config)).exit
    assert "10.0.0.3:10911 cannot be listened on" in str(status.error)
    unregistered = await route_code(remoting, cluster.name_servers[0], "TBW102")
    assert unregistered == (TOPIC_NOT_EXIST if mode is Mode.FAITHFUL else 0)


@in_cluster
async def test_graceful_stop_unregisters(cluster: Cluster, remoting: RemotingClient) -> None:
    for host in cluster.name_servers:
        cluster.start_name_server(host)
    cluster.start_broker()
    await asyncio.sleep(3)
    assert await route_code(remoting, cluster.name_servers[0], "TBW102") == 0
    assert cluster.broker.process is not None
    cluster.broker.process.terminate()
    await cluster.broker.process.exit
    for host in cluster.name_servers:
        assert await route_code(remoting, host, "TBW102") == TOPIC_NOT_EXIST


@in_cluster
async def test_order_configuration_of_one_name_server_orders_topics_until_it_is_deleted(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    await cluster.start(cluster.name_servers)
    await create_topic(remoting, "New")
    await change_order_config(remoting, cluster.name_servers[1], 100)
    await asyncio.sleep(31)
    assert await is_ordered(remoting, "New")
    assert not await is_ordered(remoting, "TBW102")
    await asyncio.sleep(60)
    assert await is_ordered(remoting, "New")
    await change_order_config(remoting, cluster.name_servers[1], 102)
    await asyncio.sleep(31)
    assert not await is_ordered(remoting, "New")


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize(
    "options", [{"force_register": False}, {"compressed_register": True}], ids=str
)
@in_cluster
async def test_ways_to_register(
    cluster: Cluster, remoting: RemotingClient, mode: Mode, options: dict[str, Any]
) -> None:
    first, second = cluster.name_servers
    await cluster.start(cluster.name_servers, mode=mode, **options)
    await create_topic(remoting, "New")
    await asyncio.sleep(1)
    assert (await route(remoting, first, "New"))["writeQueueNums"] == 2
    kill(second)
    cluster.start_name_server(second)
    await asyncio.sleep(75)  # two periods: brokers register again what the name server forgot
    assert (await route(remoting, second, "New"))["writeQueueNums"] == 2
    await asyncio.sleep(200)  # asking alone keeps a broker alive
    assert await route_code(remoting, first, "TBW102") == 0


@pytest.mark.parametrize(
    ("mode", "code"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, TOPIC_NOT_EXIST)], ids=str
)
@pytest.mark.parametrize("force_register", [True, False])
@in_cluster
async def test_a_name_server_that_started_again_knows_its_brokers_within_seconds(
    cluster: Cluster, remoting: RemotingClient, mode: Mode, code: int, *, force_register: bool
) -> None:
    """4.9.8 registers with its next round, 30 s after the last one."""
    name_server = cluster.name_servers[0]
    await cluster.start([name_server], mode=mode, force_register=force_register)
    await asyncio.sleep(13)
    kill(name_server)
    await asyncio.sleep(4)
    cluster.start_name_server(name_server)
    await asyncio.sleep(1.5)
    assert await route_code(remoting, name_server, "TBW102") == code


@in_cluster
async def test_broker_that_lacks_a_permission_lends_its_own_to_all_topics(
    cluster: Cluster, remoting: RemotingClient
) -> None:
    await cluster.start(cluster.name_servers[:1], broker_permission=4)
    for topic in ("TBW102", "broker-a"):
        assert (await route(remoting, cluster.name_servers[0], topic))["perm"] == 4


@pytest.mark.parametrize(("mode", "code"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, TOPIC_NOT_EXIST)])
@in_cluster
async def test_hung_name_server_delays_the_others_in_faithful_mode(
    cluster: Cluster, remoting: RemotingClient, mode: Mode, code: int
) -> None:
    hung, lively = cluster.name_servers
    await cluster.start(cluster.name_servers, mode=mode)
    hung.pause()
    creations = [
        asyncio.create_task(create_topic(remoting, topic, timeout_s=7.0))
        for topic in ("New", "Newer")
    ]
    await asyncio.sleep(1)
    assert await route_code(remoting, lively, "Newer") == code
    await asyncio.sleep(12)
    assert await route_code(remoting, lively, "Newer") == 0
    await asyncio.gather(*creations)


@pytest.mark.parametrize(("mode", "code"), [(Mode.HARDENED, 0), (Mode.FAITHFUL, TOPIC_NOT_EXIST)])
@in_cluster
async def test_name_server_with_amnesia_may_never_hear_of_old_topics_in_faithful_mode(
    cluster: Cluster, remoting: RemotingClient, mode: Mode, code: int
) -> None:
    name_server = cluster.name_servers[0]
    await cluster.start([name_server], mode=mode)
    kill(name_server)
    cluster.start_name_server(name_server)
    await asyncio.sleep(0.5)
    await create_topic(remoting, "New")
    await asyncio.sleep(100)
    assert await route_code(remoting, name_server, "New") == 0
    assert await route_code(remoting, name_server, "TBW102") == code


@pytest.mark.parametrize("mode", list(Mode))
def test_name_servers_change_while_the_broker_runs(mode: Mode) -> None:
    """4.9.8 takes them within 2 minutes; who is left out forgets the broker when it has been silent for long."""
    cluster = Cluster()
    first, second = cluster.name_servers

    async def story(cluster: Cluster, remoting: RemotingClient) -> None:
        for host in cluster.name_servers:
            cluster.start_name_server(host)
        cluster.start_broker(mode=mode, auto_create_topics=True)
        await asyncio.sleep(1)
        change = RemotingCommand.request(25, body=f"namesrvAddr={second.address}:9876".encode())
        assert (await remoting.invoke(BROKER_ADDRESS, change, 1.0)).code == 0
        await asyncio.sleep(140)
        assert await route_code(remoting, first, "TBW102") == TOPIC_NOT_EXIST
        assert await route_code(remoting, second, "TBW102") == 0
        change.body = f"namesrvAddr={first.address}:9876;{second.address}:9876".encode()
        again = RemotingCommand.request(25, body=change.body)
        assert (await remoting.invoke(BROKER_ADDRESS, again, 1.0)).code == 0
        await asyncio.sleep(31)
        assert await route_code(remoting, first, "TBW102") == 0

    cluster.run(story)
