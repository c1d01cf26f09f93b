"""A master with two slaves: a message that a synchronous master acknowledged is on one of them, unknown which."""

from __future__ import annotations

import asyncio

from staticfire.system_under_test.broker.config import BrokerRole
from staticfire.system_under_test.configuration.mode import Mode
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import TopicRouteData
from staticfire.system_under_test.protocol.codes import RequestCode
from tests.system_under_test.broker.bench import pull_ext, send_ext
from tests.system_under_test.broker.simulated_brokers import (
    FLUSH_DISK_TIMEOUT,
    FLUSH_SLAVE_TIMEOUT,
    MASTER,
    NAME_SERVER,
    NOT_AVAILABLE,
    OK,
    SLAVE,
    SLAVE_NOT_AVAILABLE,
    Client,
    Cluster,
    on_cluster,
    slave_address,
    wipe,
)

SECOND_SLAVE = slave_address(2)
NAME_SERVERS = (f"{NAME_SERVER}:9876",)


async def start_all(cluster: Cluster, client: Client) -> None:
    cluster.start_master()
    for number in range(1, len(cluster.slaves) + 1):
        cluster.start_slave(number)
    await client.send_until(OK, within_s=10)
    await asyncio.sleep(2)


async def lose_master_while_first_slave_lags(cluster: Cluster, client: Client) -> None:
    await start_all(cluster, client)
    cluster.world.network.drop("master", "slave")
    for number in range(10):
        assert await client.send(f"k{number}") == OK
    cluster.master.power_cut()
    cluster.world.network.heal()


@on_cluster(slaves=2)
async def test_a_lagging_slave_without_a_master_asks_the_other_slave(
    cluster: Cluster, client: Client
) -> None:
    await lose_master_while_first_slave_lags(cluster, client)
    assert "k9" not in await client.keys(SLAVE)
    await asyncio.sleep(30)  # a master without power is silent for 20 s before it is given up
    assert (await client.keys(SLAVE))[-10:] == [f"k{number}" for number in range(10)]
    assert cluster.log(cluster.slaves[0]) == cluster.log(cluster.slaves[1])


@on_cluster(slaves=2, name_servers=NAME_SERVERS)
async def test_a_slave_that_starts_without_any_master_asks_the_other_slave(
    cluster: Cluster, client: Client
) -> None:
    cluster.start_name_server()
    cluster.start_master()
    cluster.start_slave(2)
    first = cluster.start_slave(1)
    await client.send_until(OK, within_s=10)
    await asyncio.sleep(3)
    first.kill()
    assert await client.send("late") == OK
    cluster.master.power_cut()
    cluster.name_server.power_cut()
    cluster.start_slave(1)
    await asyncio.sleep(5)
    assert "late" in await client.keys(SLAVE)


@on_cluster(slaves=2)
async def test_a_frozen_peer_does_not_keep_a_slave_from_its_master(
    cluster: Cluster, client: Client
) -> None:
    master = cluster.start_master()
    cluster.start_slave(1)
    second = cluster.start_slave(2)
    await client.send_until(OK, within_s=10)
    second.pause()
    master.kill()
    await asyncio.sleep(1)
    cluster.start_master()
    await client.send_until(OK, within_s=6)


@on_cluster(slaves=2)
async def test_a_peer_that_asks_does_not_break_the_link_to_a_living_master(
    cluster: Cluster, client: Client
) -> None:
    await start_all(cluster, client)
    cluster.world.network.drop("master", "slave")
    cluster.world.network.drop("slave", "master")
    for _ in range(60):
        assert await client.send() == OK
        await asyncio.sleep(0.5)


@on_cluster(slaves=2)
async def test_one_of_two_slaves_is_enough(cluster: Cluster, client: Client) -> None:
    await start_all(cluster, client)
    cluster.slaves[0].power_cut()
    assert [await client.send() for _ in range(10)] == [OK] * 10
    cluster.slaves[1].power_cut()
    assert await client.send(timeout_s=5) == FLUSH_SLAVE_TIMEOUT


# A new disk


CHOSEN = {
    "topic": "Chosen",
    "defaultTopic": "TBW102",
    "readQueueNums": "3",
    "writeQueueNums": "3",
    "perm": "6",
    "topicFilterType": "SINGLE_TAG",
    "topicSysFlag": "0",
    "order": "false",
}


@on_cluster(slaves=2, name_servers=NAME_SERVERS)
async def test_a_master_with_a_new_disk_gets_topics_groups_and_offsets_back(
    cluster: Cluster, client: Client
) -> None:
    offset = {"consumerGroup": "g", "topic": "TopicTest", "queueId": "0"}
    cluster.start_name_server()
    await start_all(cluster, client)
    assert (await client.ask(MASTER, RequestCode.UPDATE_AND_CREATE_TOPIC, CHOSEN)).code == OK
    await client.ask(MASTER, RequestCode.UPDATE_CONSUMER_OFFSET, {**offset, "commitOffset": "1"})
    await client.ask(MASTER, RequestCode.PULL_MESSAGE, pull_ext("TopicTest"))
    await asyncio.sleep(14)
    before = await tables_of(client, SLAVE)
    assert before == await tables_of(client, MASTER)
    cluster.master.power_cut()
    cluster.master.power_on()
    wipe(cluster.master.disk, "/store")
    cluster.start_master()
    await client.send_until(OK, within_s=10)
    tables = await tables_of(client, MASTER)
    assert tables == before
    assert "Chosen" in tables[0]
    assert await offset_of(client, MASTER, offset) == "1"
    await asyncio.sleep(14)
    assert await tables_of(client, SLAVE) == tables
    assert await offset_of(client, SECOND_SLAVE, offset) == "1"


def test_a_master_that_says_it_is_ready_is_registered_even_if_it_has_to_ask_its_slave_first() -> (
    None
):
    cluster = Cluster(name_servers=NAME_SERVERS)

    async def story(client: Client) -> None:
        cluster.start_name_server()
        cluster.start_slave()
        await asyncio.sleep(2)
        ready = asyncio.Event()
        cluster.start_master(on_ready=lambda _address: ready.set())
        await ready.wait()
        answer = await client.ask(
            f"{NAME_SERVER}:9876", RequestCode.GET_ROUTEINFO_BY_TOPIC, {"topic": "TBW102"}
        )
        route = TopicRouteData.from_json(json_dialect.loads(answer.body.decode()))
        assert route.broker_datas[0].broker_addrs[0] == f"{MASTER}:10911"

    cluster.run(story)


async def tables_of(client: Client, host: str) -> list[list[str]]:
    """The names of the topics and groups that a broker knows."""
    tables = []
    for code, table in (
        (RequestCode.GET_ALL_TOPIC_CONFIG, "topicConfigTable"),
        (RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG, "subscriptionGroupTable"),
    ):
        document = json_dialect.loads((await client.ask(host, code)).body.decode())
        assert isinstance(document, dict)
        tables.append(sorted(document[table]))
    return tables


async def offset_of(client: Client, host: str, ext: dict[str, str]) -> str:
    return (await client.ask(host, RequestCode.QUERY_CONSUMER_OFFSET, ext)).ext_fields["offset"]


@on_cluster(name_servers=NAME_SERVERS)
async def test_a_slave_forgets_deleted_topics_and_groups_and_keeps_their_offsets(
    cluster: Cluster, client: Client
) -> None:
    """RocketMQ, SlaveSynchronize: tables of topics and groups are replaced, that of offsets only grows."""
    offset = {"consumerGroup": "g", "topic": "Chosen", "queueId": "0"}
    cluster.start_name_server()
    await start_all(cluster, client)
    await client.ask(MASTER, RequestCode.UPDATE_AND_CREATE_TOPIC, CHOSEN)
    await client.ask(MASTER, RequestCode.PULL_MESSAGE, pull_ext("Chosen", group="g"))
    committed = {**offset, "commitOffset": "0"}
    await client.ask(MASTER, RequestCode.UPDATE_CONSUMER_OFFSET, committed)
    await asyncio.sleep(14)
    topics, groups = await tables_of(client, SLAVE)
    assert "Chosen" in topics
    assert "g" in groups

    for code, ext in (
        (RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Chosen"}),
        (RequestCode.DELETE_SUBSCRIPTIONGROUP, {"groupName": "g", "cleanOffset": "true"}),
    ):
        assert (await client.ask(MASTER, code, ext)).code == OK
    await asyncio.sleep(14)
    tables = await tables_of(client, SLAVE)
    assert tables == await tables_of(client, MASTER)
    assert "Chosen" not in tables[0]
    assert "g" not in tables[1]
    assert await offset_of(client, SLAVE, offset) == "0"


@on_cluster(name_servers=NAME_SERVERS)
async def test_a_slave_hides_what_a_topic_held_that_was_deleted_and_made_again(
    cluster: Cluster, client: Client
) -> None:
    queue = {"topic": "Chosen", "queueId": "0"}
    cluster.start_name_server()
    await start_all(cluster, client)
    await client.ask(MASTER, RequestCode.UPDATE_AND_CREATE_TOPIC, CHOSEN)
    former = send_ext("Chosen", queue_id=0)
    for _ in range(3):
        assert (await client.ask(MASTER, RequestCode.SEND_MESSAGE_V2, former)).code == OK
    await asyncio.sleep(12)
    await client.ask(MASTER, RequestCode.DELETE_TOPIC_IN_BROKER, {"topic": "Chosen"})
    await client.ask(MASTER, RequestCode.UPDATE_AND_CREATE_TOPIC, CHOSEN)
    await client.ask(MASTER, RequestCode.SEND_MESSAGE_V2, send_ext("Chosen", queue_id=0))
    await asyncio.sleep(14)
    for host in (MASTER, SLAVE):
        answer = await client.ask(host, RequestCode.GET_MIN_OFFSET, queue)
        assert answer.ext_fields == {"offset": "3"}


@on_cluster(slaves=2)
async def test_a_topic_younger_than_the_slaves_copies_is_found_in_the_log(
    cluster: Cluster, client: Client
) -> None:
    await start_all(cluster, client)
    assert await client.send("only in the log", queue_id=2) == OK
    cluster.master.power_cut()
    cluster.master.power_on()
    wipe(cluster.master.disk, "/store")
    cluster.start_master()
    await asyncio.sleep(2)
    await client.send()  # on a connection of before the power cut: it gets no answer
    assert await client.keys(MASTER, queue_id=2) == ["only in the log"]


@on_cluster(slaves=2)
async def test_until_then_it_serves_nothing_that_it_does_not_know(
    cluster: Cluster, client: Client
) -> None:
    offset = {"consumerGroup": "g", "topic": "TopicTest", "queueId": "0"}
    cluster.start_master()
    cluster.start_slave(1)
    await asyncio.sleep(3)
    for code, ext in (
        (RequestCode.PULL_MESSAGE, pull_ext("TopicTest")),
        (RequestCode.QUERY_CONSUMER_OFFSET, offset),
        (RequestCode.GET_ALL_TOPIC_CONFIG, {}),
    ):
        assert (await client.ask(MASTER, code, ext)).code == NOT_AVAILABLE
    cluster.start_slave(2)
    await client.send_until(OK, within_s=10)


@on_cluster(slaves=2)
async def test_a_catch_up_that_was_interrupted_goes_on_at_the_next_start(
    cluster: Cluster, client: Client
) -> None:
    """With sync flush, too: half a log must not be taken for a whole one."""
    await start_all(cluster, client)
    for number in range(10):
        assert await client.send(f"k{number}") == OK
    cluster.slaves[1].power_cut()
    cluster.master.power_cut()
    cluster.master.power_on()
    wipe(cluster.master.disk, "/store")
    master = cluster.start_master()
    await asyncio.sleep(5)  # one slave was heard, the other one was not
    assert b"k9" in cluster.log(cluster.master)
    master.kill()
    cluster.start_master()
    await asyncio.sleep(5)
    await client.send()  # on a connection of before the power cut
    assert [await client.send() for _ in range(3)] == [NOT_AVAILABLE] * 3
    cluster.slaves[1].power_on()
    cluster.start_slave(2)
    await client.send_until(OK, within_s=10)


# Send statuses


@on_cluster(sync_flush_timeout_s=0.5)
async def test_code_10_when_the_disk_is_too_slow(cluster: Cluster, client: Client) -> None:
    await start_all(cluster, client)
    cluster.master.disk.slow(2000.0)
    assert await client.send("slow", timeout_s=5) == FLUSH_DISK_TIMEOUT
    cluster.master.disk.heal()
    await client.send_until(OK, within_s=10)
    assert "slow" in await client.keys(MASTER)


@on_cluster(ha_fall_behind_max=4096)
async def test_code_11_while_the_slave_is_too_far_behind(cluster: Cluster, client: Client) -> None:
    await start_all(cluster, client)
    cluster.world.network.drop("slave", "master")
    codes = [await client.send(f"k{number}", timeout_s=4) for number in range(20)]
    behind = codes.index(SLAVE_NOT_AVAILABLE)
    assert 0 < behind < len(codes) - 1
    assert set(codes[:behind]) == {FLUSH_SLAVE_TIMEOUT}
    assert set(codes[behind:]) == {SLAVE_NOT_AVAILABLE}
    cluster.world.network.heal()
    await client.send_until(OK, within_s=30)


@on_cluster(slaves=2, slave_timeout_s=1.0)
async def test_code_12_when_no_slave_acknowledges_in_time(cluster: Cluster, client: Client) -> None:
    await start_all(cluster, client)
    for slave in cluster.slaves:
        slave.disk.slow(5000.0)
    assert await client.send("late", timeout_s=5) == FLUSH_SLAVE_TIMEOUT
    for slave in cluster.slaves:
        slave.disk.heal()
    await client.send_until(OK, within_s=30)


# 4.9.8


def test_after_a_slave_came_back_sends_are_ok_at_once_or_stall_for_5_s() -> None:
    assert recovery_s(Mode.HARDENED) < 2.0
    assert 4.0 < recovery_s(Mode.FAITHFUL) < 8.0


def test_a_slave_that_has_not_reported_is_waited_for_or_not() -> None:
    """Its first report comes late in both."""
    late = "replication.reports_at_once"
    assert wait_for_silent_slave_s(late) < 0.5
    assert wait_for_silent_slave_s() > 2.0


def wait_for_silent_slave_s(*policies: str) -> float:
    """Seconds until a send is answered that came just after a slave had connected."""
    cluster = Cluster(mode=Mode.FAITHFUL, faithful_policies=policies)
    waited: list[float] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        slave = cluster.start_slave()
        await client.send_until(OK, within_s=20)
        slave.kill()
        await asyncio.sleep(0.5)
        cluster.start_slave()
        await asyncio.sleep(1)
        begin_s = asyncio.get_running_loop().time()
        await client.send(timeout_s=10)
        waited.append(asyncio.get_running_loop().time() - begin_s)

    cluster.run(story)
    return waited[0]


def test_a_slave_that_only_reports_late_stalls_sends_no_longer() -> None:
    """Two lines of the table alone: the slave's side of the protocol is the hardened one."""
    names = ("replication.counts_from_accept", "replication.reports_at_once")
    assert 4.0 < recovery_s(Mode.FAITHFUL, *names) < 8.0


def recovery_s(mode: Mode, *policies: str) -> float:
    """Seconds from the start of a slave to the first SEND_OK."""
    cluster = Cluster(mode=mode, faithful_policies=policies)
    taken: list[float] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        slave = cluster.start_slave()
        await client.send_until(OK, within_s=20)
        slave.kill()
        await asyncio.sleep(0.5)
        loop = asyncio.get_running_loop()
        begin_s = loop.time()
        cluster.start_slave()
        while await client.send(timeout_s=10) != OK:
            await asyncio.sleep(0.05)
        taken.append(loop.time() - begin_s)

    cluster.run(story)
    return taken[0]


def test_a_new_slave_gets_everything_or_the_last_file() -> None:
    assert missing_on_new_slave(Mode.HARDENED) == 0
    assert missing_on_new_slave(Mode.FAITHFUL) > 0


def missing_on_new_slave(mode: Mode) -> int:
    """How many of the messages a slave lacks that starts when the master's log has several files."""
    cluster = Cluster(role=BrokerRole.ASYNC_MASTER, mode=mode, commit_log_file_size=4096)
    missing: list[int] = []

    async def story(client: Client) -> None:
        if mode is Mode.HARDENED:
            cluster.start_slave().kill()
        cluster.start_master()
        await asyncio.sleep(1)
        await client.ask(MASTER, RequestCode.LIFT_CATCH_UP)
        for number in range(60):
            assert await client.send(f"k{number}") == OK
        cluster.start_slave()
        await asyncio.sleep(12)
        keys = await client.keys_from(SLAVE)
        missing.append(60 - len(keys))

    cluster.run(story)
    return missing[0]


def test_a_master_with_a_new_disk_asks_its_slaves_or_starts_from_nothing() -> None:
    assert first_answer_of_an_empty_master(Mode.HARDENED) == NOT_AVAILABLE
    assert first_answer_of_an_empty_master(Mode.FAITHFUL) == SLAVE_NOT_AVAILABLE


def first_answer_of_an_empty_master(mode: Mode) -> int:
    cluster = Cluster(mode=mode)
    codes: list[int] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        await asyncio.sleep(1)
        codes.append(await client.send())

    cluster.run(story)
    return codes[0]


def test_when_the_last_slave_dies_waiting_sends_are_answered_at_once_or_time_out() -> None:
    assert wait_for_dead_slave_s(Mode.HARDENED) < 0.5
    assert wait_for_dead_slave_s(Mode.FAITHFUL) > 2.0


def wait_for_dead_slave_s(mode: Mode) -> float:
    """Seconds until a send is answered whose slave dies before it has acknowledged."""
    cluster = Cluster(mode=mode)
    waited: list[float] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        slave = cluster.start_slave()
        await client.send_until(OK, within_s=20)
        slave.pause()
        send = asyncio.ensure_future(client.send(timeout_s=10))
        await asyncio.sleep(0.2)
        begin_s = asyncio.get_running_loop().time()
        slave.kill()
        assert await send in (SLAVE_NOT_AVAILABLE, FLUSH_SLAVE_TIMEOUT)
        waited.append(asyncio.get_running_loop().time() - begin_s)

    cluster.run(story)
    return waited[0]


def test_a_slave_gets_only_what_is_flushed_or_everything() -> None:
    assert not slave_has_unflushed(Mode.HARDENED)
    assert slave_has_unflushed(Mode.FAITHFUL)


def slave_has_unflushed(mode: Mode) -> bool:
    """Whether the slave of a master with sync flush has what the master's disk has not."""
    cluster = Cluster(mode=mode)
    seen: list[bool] = []

    async def story(client: Client) -> None:
        cluster.start_master()
        cluster.start_slave()
        await client.send_until(OK, within_s=20)
        await asyncio.sleep(6)
        cluster.master.disk.slow(3000.0)
        send = asyncio.ensure_future(client.send("unflushed", timeout_s=5))
        await asyncio.sleep(0.5)
        seen.append(b"unflushed" in cluster.log(cluster.slave))
        cluster.master.disk.heal()
        await send

    cluster.run(story)
    return seen[0]
