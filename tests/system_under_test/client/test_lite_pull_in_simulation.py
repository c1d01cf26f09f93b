"""Consumers that are polled, on real brokers in a simulated world."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from staticfire.system_under_test.client.consumer.pull.lite_pull_consumer import (
    LitePullConfig,
    LitePullConsumer,
)
from staticfire.system_under_test.client.errors import ClientError
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.bodies_clients import ConsumerRunningInfo
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.client.simulated_cluster import TOPIC, Cluster
from tests.system_under_test.client.test_administration import Ask, administer

Work = Callable[[LitePullConsumer], Awaitable[None]]
A0 = MessageQueue(TOPIC, "a", 0)


class Polling:
    """A cluster, and consumers that are polled there."""

    def __init__(self) -> None:
        self.cluster = Cluster()
        self.got: dict[str, list[str]] = {}
        self.assigned: dict[str, list[MessageQueue]] = {}

    def use(self, name: str, work: Work, **options: Any) -> asyncio.Future[None]:
        config = LitePullConfig(
            group="lite",
            name_servers=self.cluster.name_servers,
            client_id=f"10.1.0.1@{name}",
            **options,
        )
        done: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def assigned(queues: list[MessageQueue]) -> None:
            self.assigned[name] = queues

        async def main(env: Env) -> None:
            consumer = LitePullConsumer(env, config, on_assignment=assigned)
            await consumer.start()
            try:
                await work(consumer)
                done.set_result(None)
            except BaseException as error:
                done.set_exception(error)
            await consumer.stop()

        self.got[name] = []
        self.cluster.world.hosts[name].start(name, main)
        return done

    def poller(self, name: str, until_s: float) -> Work:
        """Subscribe and poll until then."""

        async def work(consumer: LitePullConsumer) -> None:
            consumer.subscribe(TOPIC)
            while self.cluster.now_s < until_s:
                self.take(name, await consumer.poll(1.0))

        return work

    def take(self, name: str, messages: list[Message]) -> None:
        self.got[name] += [message.body.decode() for message in messages]

    def all_got(self) -> list[str]:
        return sorted(key for keys in self.got.values() for key in keys)

    def all_sent(self) -> list[str]:
        return sorted(one.key for one in self.cluster.sent)


@pytest.mark.slow
def test_members_share_the_queues_and_everything_is_polled_once() -> None:
    polling = Polling()

    async def story() -> None:
        polling.cluster.start_producer("p", until_s=20.0, every_s=0.05)
        first = polling.use("c1", polling.poller("c1", 40.0))
        second = polling.use("c2", polling.poller("c2", 40.0))
        await first
        await second

    polling.cluster.run(story, "p", "c1", "c2")
    assert polling.all_got() == polling.all_sent()
    assert all(polling.got.values())


def test_what_was_polled_before_a_crash_comes_again_unless_it_was_committed() -> None:
    polling = Polling()
    seen: list[list[str]] = []

    async def poll_two(consumer: LitePullConsumer) -> None:
        await consumer.assign([A0])
        first = await consumer.poll()
        consumer.commit()
        second = await consumer.poll()
        seen.extend([[m.body.decode() for m in first], [m.body.decode() for m in second]])
        await asyncio.sleep(0.5)
        polling.cluster.process("c1").kill()
        await asyncio.sleep(1)

    async def poll_one(consumer: LitePullConsumer) -> None:
        await consumer.assign([A0])
        seen.append([message.body.decode() for message in await consumer.poll()])

    async def story() -> None:
        polling.cluster.start_producer("p", until_s=8.0, every_s=0.02)
        await polling.cluster.until(9.0)
        polling.use("c1", poll_two, pull_batch=5)
        await polling.cluster.until(15.0)
        await polling.use("c2", poll_one, pull_batch=5)

    polling.cluster.run(story, "p", "c1", "c2")
    assert len(seen[0]) == len(seen[1]) == 5
    assert seen[2] == seen[1]


def test_positions_can_be_sought_and_queues_paused() -> None:
    polling = Polling()

    async def work(consumer: LitePullConsumer) -> None:
        queues = await consumer.fetch_queues(TOPIC)
        assert len(queues) == 8
        await consumer.assign(queues[:2])
        assert consumer.assignment == queues[:2]
        a0, a1 = queues[:2]
        offsets = [message.queue_offset for message in await consumer.poll()]
        assert offsets == list(range(10))
        consumer.seek(a0, 3)
        consumer.pause([a1])
        assert [m.queue_offset for m in await consumer.poll()] == list(range(3, 13))
        assert consumer.position(a0) == 13
        consumer.seek(a0, 100)
        assert await consumer.poll(1.0) == []
        consumer.resume([a1])
        assert {message.queue_id for message in await consumer.poll()} == {1}
        await consumer.seek_to_begin(a0)
        consumer.pause([a1])
        assert (await consumer.poll())[0].queue_offset == 0
        consumer.commit()
        await asyncio.sleep(0.1)
        assert await consumer.committed(a0) == 10
        with pytest.raises(ClientError, match="is not assigned"):
            consumer.seek(queues[2], 0)
        with pytest.raises(ClientError, match="is not assigned"):  # no broker is asked
            await consumer.seek_to_begin(MessageQueue(TOPIC, "unknown", 0))
        with pytest.raises(ValueError, match="cannot subscribe as well"):
            consumer.subscribe(TOPIC)

    async def story() -> None:
        polling.cluster.start_producer("p", until_s=8.0, every_s=0.02)
        await polling.cluster.until(9.0)
        await polling.use("c1", work)

    polling.cluster.run(story, "p", "c1")


def test_the_queues_of_a_topic_are_those_that_name_servers_know_now() -> None:
    """Not those of the route that was looked up last."""
    polling = Polling()
    found: list[int] = []

    async def work(consumer: LitePullConsumer) -> None:
        found.append(len(await consumer.fetch_queues(TOPIC)))
        polling.cluster.process("b").terminate()
        await asyncio.sleep(2.0)
        found.append(len(await consumer.fetch_queues(TOPIC)))

    async def story() -> None:
        await polling.cluster.until(4.0)
        await polling.use("c1", work)

    polling.cluster.run(story, "c1")
    assert found == [8, 4]


def test_pulling_stops_while_too_much_waits_to_be_polled() -> None:
    polling = Polling()

    async def work(consumer: LitePullConsumer) -> None:
        consumer.subscribe(TOPIC)
        await asyncio.sleep(5.0)
        assert 40 <= consumer._cached() <= 40 + 8 * 10
        while batch := await consumer.poll(2.0):
            polling.take("c1", batch)

    async def story() -> None:
        polling.cluster.start_producer("p", until_s=8.0, every_s=0.02)
        await polling.cluster.until(9.0)
        await polling.use("c1", work, cached_max=40)

    polling.cluster.run(story, "p", "c1")
    assert polling.all_got() == polling.all_sent()


@pytest.mark.slow
def test_polling_goes_on_while_a_broker_is_killed_and_comes_back() -> None:
    polling = Polling()

    async def story() -> None:
        polling.cluster.start_producer("p", until_s=30.0, every_s=0.05)
        done = polling.use("c1", polling.poller("c1", 60.0))
        await polling.cluster.until(10.0)
        polling.cluster.process("a").kill()
        await polling.cluster.until(20.0)
        polling.cluster.start_server("a")
        await done

    polling.cluster.run(story, "p", "c1")
    assert set(polling.all_got()) >= set(polling.all_sent())


def test_an_administrator_sees_what_a_polled_consumer_has() -> None:
    polling = Polling()
    seen: list[ConsumerRunningInfo] = []

    async def look(ask: Ask) -> None:
        who = {"consumerGroup": "lite", "clientId": "10.1.0.1@c1", "jstackEnable": "false"}
        answer = await ask(RequestCode.GET_CONSUMER_RUNNING_INFO, who)
        assert answer.code == ResponseCode.SUCCESS, answer.remark
        seen.append(ConsumerRunningInfo.from_bytes(answer.body))

    async def story() -> None:
        polling.cluster.start_producer("p", until_s=12.0, every_s=0.05)
        polling.use("c1", polling.poller("c1", 40.0), pull_batch=7)
        await polling.cluster.until(15.0)
        await administer(polling.cluster, "a", look)

    polling.cluster.run(story, "p", "c1")
    [info] = seen
    assert info.properties["PROP_CONSUME_TYPE"] == "CONSUME_ACTIVELY"
    assert info.properties["pullBatchSize"] == "7"
    assert [each.topic for each in info.subscription_set] == [TOPIC]
    assert len(info.mq_table) == 8
    assert sum(queue.commit_offset for queue in info.mq_table.values()) > 100
    assert info.status_table[TOPIC].pull_tps > 0
