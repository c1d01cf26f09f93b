"""Producers of every kind, with real brokers in a simulated world."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.producer.producer import Producer
from staticfire.system_under_test.client.producer.request_reply import Reply, RequestTimeout
from staticfire.system_under_test.client.producer.send_result import SendFailed, SendResult
from staticfire.system_under_test.client.producer.transactions import (
    TransactionResult,
    TransactionState,
)
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.message import Message
from staticfire.system_under_test.runtime.env import Env
from tests.system_under_test.client.simulated_cluster import TOPIC, Cluster

COMMIT, ROLLBACK, UNKNOWN = (
    TransactionState.COMMIT,
    TransactionState.ROLLBACK,
    TransactionState.UNKNOWN,
)


def message(body: str, **properties: str) -> Message:
    return Message(topic=TOPIC, body=body.encode(), properties=properties)


@pytest.mark.slow
def test_a_transaction_is_seen_when_it_is_committed_and_never_when_it_is_rolled_back() -> None:
    cluster = Cluster()
    executed: list[str] = []
    asked: list[tuple[str, str | None]] = []
    results: list[TransactionResult] = []

    async def execute(half: Message) -> TransactionState:
        executed.append(half.body.decode())
        assert not cluster.consumed or half.body.decode() not in {c.key for c in cluster.consumed}
        match half.body.decode():
            case "commit":
                return COMMIT
            case "rollback" | "later-rollback":
                return ROLLBACK if half.body == b"rollback" else UNKNOWN
            case "raises":
                raise RuntimeError("no database")
            case _:
                return UNKNOWN

    async def check(half: Message, broker: str | None) -> TransactionState:
        asked.append((half.body.decode(), broker))
        return ROLLBACK if half.body == b"later-rollback" else COMMIT

    async def work(producer: Producer) -> None:
        results[:] = [
            await producer.send_in_transaction(message(body), execute)
            for body in ("commit", "rollback", "later", "later-rollback", "raises")
        ]
        await asyncio.sleep(200)

    async def story() -> None:
        cluster.start_consumer("c")
        await cluster.produce("p", work, check)

    cluster.run(story, "p", "c")
    assert executed == ["commit", "rollback", "later", "later-rollback", "raises"]
    assert [result.state for result in results] == [COMMIT, ROLLBACK, UNKNOWN, UNKNOWN, UNKNOWN]
    assert sorted(asked) == [("later", "a"), ("later-rollback", "b"), ("raises", "b")]
    assert sorted(one.key for one in cluster.consumed) == ["commit", "later", "raises"]


def test_another_producer_of_the_group_is_asked_when_the_first_one_died() -> None:
    cluster = Cluster()
    asked: list[bytes] = []

    async def check(half: Message, _broker: str | None) -> TransactionState:
        asked.append(half.body)
        return COMMIT

    async def die(_half: Message) -> TransactionState:
        cluster.process("p1").kill()
        await asyncio.sleep(1)
        return ROLLBACK

    async def wait(_producer: Producer) -> None:
        await asyncio.sleep(200)

    async def send(producer: Producer) -> None:
        await producer.send_in_transaction(message("orphan"), die)

    async def story() -> None:
        cluster.start_consumer("c")
        cluster.produce("p1", send)

        async def look(producer: Producer) -> None:
            await producer.send(message("hello"))  # so that it is connected
            await wait(producer)

        await cluster.produce("p2", look, check)

    cluster.run(story, "p1", "p2", "c")
    assert asked == [b"orphan"]
    assert sorted(one.key for one in cluster.consumed) == ["hello", "orphan"]


@pytest.mark.slow
def test_asynchronous_sends_go_on_while_a_broker_is_killed() -> None:
    cluster = Cluster()
    outcomes: list[SendResult | SendFailed] = []

    async def work(producer: Producer) -> None:
        for number in range(400):
            producer.send_async(message(f"{number}"), outcomes.append)
            if number == 100:
                cluster.process("a").kill()
            await asyncio.sleep(0.005)
        await asyncio.sleep(5)

    async def story() -> None:
        cluster.start_consumer("c")
        await cluster.produce("p", work)
        cluster.start_server("a")
        await asyncio.sleep(60)

    cluster.run(story, "p", "c")
    assert len(outcomes) == 400
    stored = [one for one in outcomes if isinstance(one, SendResult)]
    assert len(stored) == 400
    assert max(one.attempts for one in stored) == 2
    assert {one.key for one in cluster.consumed} == {f"{number}" for number in range(400)}


def test_a_delayed_message_comes_when_it_is_due() -> None:
    cluster = Cluster()
    sent_at_s: list[float] = []

    async def work(producer: Producer) -> None:
        for level in ("1", "2", "3"):
            sent_at_s.append(cluster.now_s)
            await producer.send(message(level, DELAY=level))

    async def story() -> None:
        cluster.start_consumer("c")
        await cluster.produce("p", work)
        await asyncio.sleep(20)

    cluster.run(story, "p", "c")
    came = {one.key: one.began_s for one in cluster.consumed}
    waits = [came[level] - at_s for level, at_s in zip("123", sent_at_s, strict=True)]
    assert [int(wait) for wait in waits] == [1, 5, 10]


class Responder:
    """A consumer that answers requests, unless they say "silence"."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self.failures: list[SendFailed] = []

    def start(self, name: str) -> None:
        self._cluster.world.hosts[name].start(name, self._main)

    async def _main(self, env: Env) -> None:
        config = ConsumerConfig(
            group="responders",
            name_servers=self._cluster.name_servers,
            client_id="10.0.0.99@responder",
            topic=TOPIC,
        )

        async def listen(messages: list[Message], queue: MessageQueue) -> bool:
            for request in messages:
                if request.body != b"silence":
                    try:
                        await consumer.reply(request, queue, b"re: " + request.body)
                    except SendFailed as error:
                        self.failures.append(error)
            return True

        consumer = PushConsumer(env, config, listen)
        await consumer.start()
        await asyncio.get_running_loop().create_future()


def test_requests_are_answered() -> None:
    cluster = Cluster()
    responder = Responder(cluster)
    replies: list[Reply] = []

    async def work(producer: Producer) -> None:
        await asyncio.sleep(3)
        replies[:] = [
            await producer.request(message(f"{number}"), timeout_s=5.0) for number in range(20)
        ]
        started_s = cluster.now_s
        with pytest.raises(RequestTimeout) as timeout:
            await producer.request(message("silence"), timeout_s=2.0)
        assert timeout.value.sent.attempts == 1
        assert cluster.now_s - started_s == pytest.approx(2.0, abs=0.01)

    async def story() -> None:
        responder.start("r")
        await cluster.produce("p", work)

    cluster.run(story, "p", "r")
    assert [reply.message.body for reply in replies] == [b"re: %d" % n for n in range(20)]
    acknowledged = [reply.sent for reply in replies if reply.sent is not None]
    assert len(acknowledged) == len(replies)
    assert {sent.queue.broker_name for sent in acknowledged} == {"a", "b"}


def test_a_reply_to_a_client_that_is_gone_is_not_tried_elsewhere() -> None:
    cluster = Cluster()
    responder = Responder(cluster)

    async def work(producer: Producer) -> None:
        with pytest.raises(RequestTimeout):
            await producer.request(message("late"), timeout_s=0.5)

    async def story() -> None:
        await cluster.produce("p", work)
        await asyncio.sleep(1)
        responder.start("r")
        await asyncio.sleep(5)

    cluster.run(story, "p", "r")
    (failure,) = responder.failures
    assert (failure.attempts, failure.code) == (1, 1)
