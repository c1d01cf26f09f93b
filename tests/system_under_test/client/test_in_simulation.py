"""Clients with real brokers and name servers, on virtual time."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.client.consumer.pull.pull_consumer import (
    PullConsumer,
    PullConsumerConfig,
)
from staticfire.system_under_test.client.consumer.pulling import PullOutcome
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.client.simulated_cluster import TOPIC, Cluster

GAP_MAX_S = 3.0


def test_everything_sent_is_consumed_once_and_committed() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p1", until_s=12.0, every_s=0.1)
        cluster.start_consumer("c1")
        cluster.start_consumer("c2")
        await cluster.until(20.0)

    cluster.run(story, "p1", "c1", "c2")
    assert len(cluster.sent) > 80
    assert cluster.failed == []
    assert cluster.lost() == []
    assert {one.member for one in cluster.consumed} == {"c1", "c2"}
    assert sum(cluster.commits.values()) == len(cluster.sent)


def test_a_stopped_consumer_goes_on_where_it_was() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p1", until_s=20.0, every_s=0.1)
        await cluster.until(6.0)
        for _ in range(3):
            cluster.start_consumer("c1")
            await asyncio.sleep(4.0)
            cluster.process("c1").terminate()
            await asyncio.sleep(1.5)
        cluster.start_consumer("c1")
        await cluster.until(26.0)

    cluster.run(story, "p1", "c1")
    assert cluster.lost() == []
    assert cluster.repeats() == 0


def test_a_killed_member_is_replaced_at_once() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p1", until_s=20.0, every_s=0.05)
        cluster.start_consumer("c1")
        cluster.start_consumer("c2")
        await cluster.until(10.0)
        cluster.process("c1").kill()
        await cluster.until(24.0)

    cluster.run(story, "p1", "c1", "c2")
    assert cluster.lost() == []
    assert max(cluster.delays_s(after_s=5.0)) < 1.0


@pytest.mark.slow
def test_a_killed_master_is_passed_by_and_used_again() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p1", until_s=30.0, every_s=0.05)
        cluster.start_consumer("c1")
        await cluster.until(8.0)
        cluster.process("a").kill()
        await cluster.until(14.0)
        cluster.start_server("a")
        await cluster.until(36.0)

    cluster.run(story, "p1", "c1")
    assert cluster.failed == []
    assert cluster.lost() == []
    assert max(one.took_s for one in cluster.sent) < 1.5
    assert "a" in {one.broker for one in cluster.sent if one.at_s > 20.0}
    assert "a" not in {one.broker for one in cluster.sent if 9.0 < one.at_s < 14.0}


@pytest.mark.slow
def test_while_a_master_plays_dead_its_slave_is_read() -> None:
    cluster = Cluster(slaves=True)
    seen_by_then: list[str] = []

    async def story() -> None:
        cluster.start_producer("p1", until_s=40.0, every_s=0.05)
        cluster.start_consumer("c1")
        await cluster.until(10.0)
        cluster.world.hosts["a"].pause()
        await cluster.until(10.0 + 2 * GAP_MAX_S)
        seen_by_then.extend(one.key for one in cluster.consumed)
        await cluster.until(30.0)
        cluster.world.hosts["a"].resume()
        await cluster.until(46.0)

    cluster.run(story, "p1", "c1")
    before = [one.key for one in cluster.sent if one.at_s < 10.0]
    assert cluster.lost() == []
    assert set(before) <= set(seen_by_then)
    assert max(cluster.delays_s(after_s=5.0)) < GAP_MAX_S


@pytest.mark.slow
@pytest.mark.parametrize("frozen", ["n1", "n2"])
def test_one_frozen_name_server_is_not_felt(frozen: str) -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p1", until_s=30.0, every_s=0.1)
        cluster.start_consumer("c1")
        await cluster.until(6.0)
        cluster.world.hosts[frozen].pause()
        await cluster.until(12.0)
        cluster.start_producer("p2", until_s=30.0, every_s=0.1)
        cluster.start_consumer("c2")
        await cluster.until(20.0)
        cluster.world.hosts[frozen].resume()
        await cluster.until(35.0)

    cluster.run(story, "p1", "p2", "c1", "c2")
    assert cluster.failed == []
    assert cluster.lost() == []
    assert max(one.took_s for one in cluster.sent) < 1.0
    assert max(cluster.delays_s(after_s=5.0)) < 1.0


@pytest.mark.slow
def test_running_clients_survive_the_amnesia_of_all_name_servers() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p1", until_s=50.0, every_s=0.1)
        cluster.start_consumer("c1")
        cluster.start_consumer("c2")
        await cluster.until(8.0)
        for name in ("n1", "n2"):
            cluster.process(name).kill()
            cluster.start_server(name)
        await cluster.until(55.0)

    cluster.run(story, "p1", "c1", "c2")
    assert cluster.failed == []
    assert cluster.lost() == []
    assert max(cluster.delays_s(after_s=5.0)) < 1.0


@pytest.mark.slow
@pytest.mark.parametrize("how", ["frozen", "cut off"])
def test_a_host_with_a_name_server_and_a_master_plays_dead_for_ten_minutes(how: str) -> None:
    """Neither running nor new clients see a gap above 3 s, nor when it comes back."""
    cluster = Cluster()
    clients = ("p1", "p2", "p3", "c1", "c2", "c3", "c4")
    dead = ("n1", "a")

    def silence(host: str) -> None:
        if how == "frozen":
            cluster.world.hosts[host].pause()
        for other in () if how == "frozen" else cluster.world.hosts:
            if other not in dead:
                cluster.world.network.drop(host, other)
                cluster.world.network.drop(other, host)

    def revive(host: str) -> None:
        cluster.world.hosts[host].resume()
        cluster.world.network.heal()

    async def story() -> None:
        cluster.start_producer("p1", until_s=690.0, every_s=0.5)
        cluster.start_consumer("c1")
        cluster.start_consumer("c2")
        await cluster.until(30.0)
        for host in dead:
            silence(host)
        for at_s, number in ((40.0, 2), (400.0, 3)):
            await cluster.until(at_s)
            cluster.start_producer(f"p{number}", until_s=690.0, every_s=0.5)
            cluster.start_consumer(f"c{number + 1}")
        await cluster.until(630.0)
        for host in dead:
            revive(host)
        await cluster.until(700.0)

    cluster.run(story, *clients)
    assert cluster.failed == []
    assert cluster.lost() == []
    assert max(one.took_s for one in cluster.sent) < GAP_MAX_S
    assert max(cluster.delays_s(after_s=5.0)) < GAP_MAX_S
    assert "a" in {one.broker for one in cluster.sent if one.at_s > 665.0}


async def pull_consumer(env: Env, cluster: Cluster) -> PullConsumer:
    config = PullConsumerConfig(
        group="pull", name_servers=cluster.name_servers, client_id="10.0.9.9@pull"
    )
    consumer = PullConsumer(env, config)
    await consumer.start()
    return consumer


def test_pull_consumer() -> None:
    cluster = Cluster()
    found: dict[str, object] = {}

    async def pull_all(env: Env) -> None:
        consumer = await pull_consumer(env, cluster)
        keys = []
        for queue in await consumer.fetch_queues(TOPIC):
            offset = await consumer.min_offset(queue)
            while (answer := await consumer.pull(queue, offset)).outcome is PullOutcome.FOUND:
                keys += [message.body.decode() for message in answer.messages]
                offset = answer.next_offset
            assert offset == await consumer.max_offset(queue)
            await consumer.commit(queue, offset)
            assert await consumer.committed_offset(queue) == offset
        found["keys"] = keys
        await consumer.stop()

    async def story() -> None:
        cluster.start_producer("p1", until_s=6.0, every_s=0.1)
        await cluster.until(8.0)
        cluster.world.hosts["pull"].start("pull", pull_all)
        await cluster.until(12.0)

    cluster.run(story, "p1", "pull")
    assert sorted(one.key for one in cluster.sent) == sorted(found["keys"])  # type: ignore[call-overload]


def test_a_pull_consumer_finds_the_queues_that_name_servers_know_now() -> None:
    """Not those of the route that was looked up last."""
    cluster = Cluster()
    found: list[int] = []

    async def fetch_twice(env: Env) -> None:
        consumer = await pull_consumer(env, cluster)
        found.append(len(await consumer.fetch_queues(TOPIC)))
        cluster.start_server("b")
        await asyncio.sleep(3.0)
        found.append(len(await consumer.fetch_queues(TOPIC)))
        await consumer.stop()

    async def story() -> None:
        await cluster.until(4.0)
        cluster.process("b").terminate()
        await cluster.until(6.0)
        await cluster.world.hosts["pull"].start("pull", fetch_twice).exit

    cluster.run(story, "pull")
    assert found == [4, 8]


def test_a_pull_that_waits_gets_the_next_message_or_nothing_after_twenty_seconds() -> None:
    cluster = Cluster()
    took_s: list[float] = []
    outcomes: list[PullOutcome] = []

    async def pull_twice(env: Env) -> None:
        consumer = await pull_consumer(env, cluster)
        queue = (await consumer.fetch_queues(TOPIC))[0]
        offset = 0
        for _ in range(2):
            began_s = cluster.now_s
            answer = await consumer.pull(queue, offset, waits=True)
            took_s.append(cluster.now_s - began_s)
            outcomes.append(answer.outcome)
            await asyncio.sleep(2.0)
            offset = await consumer.max_offset(queue)
        await consumer.stop()

    async def story() -> None:
        cluster.world.hosts["pull"].start("pull", pull_twice)
        await cluster.until(12.0)
        cluster.start_producer("p1", until_s=12.6, every_s=0.05)
        await cluster.until(50.0)

    cluster.run(story, "p1", "pull")
    assert outcomes == [PullOutcome.FOUND, PullOutcome.NOTHING_NEW]
    assert 5.0 < took_s[0] < 12.0
    assert 20.0 <= took_s[1] <= 25.5  # RocketMQ looks at those that wait every 5 s
