"""A message that a listener fails comes again from the retry topic, on real brokers in a simulated world."""

from __future__ import annotations

import asyncio
import itertools

from staticfire.system_under_test.protocol.message import Message
from tests.system_under_test.client.simulated_cluster import Cluster


def test_what_fails_comes_again_later_and_holds_up_nothing() -> None:
    cluster = Cluster()

    async def fail_twice(_member: str, messages: list[Message]) -> bool:
        return all(message.reconsume_times >= 2 for message in messages)

    async def story() -> None:
        cluster.start_producer("p", until_s=6.0, every_s=0.5)
        cluster.start_consumer("c", fail_twice, consume_batch=1)
        await cluster.until(70.0)

    cluster.run(story, "p", "c")
    assert cluster.sent
    assert cluster.lost() == []
    for sent in cluster.sent:
        tries = [call for call in cluster.refused + cluster.consumed if call.key == sent.key]
        assert [call.times for call in tries] == [0, 1, 2]
        assert [call.queue.topic for call in tries] == ["orders", "%RETRY%g", "%RETRY%g"]
        first, second = (b.began_s - a.at_s for a, b in itertools.pairwise(tries))
        assert 10.0 <= first < 10.5
        assert 30.0 <= second < 30.5
    assert cluster.commits[next(iter(cluster.commits))] >= 0


def test_what_fails_too_often_is_a_dead_letter() -> None:
    cluster = Cluster()

    async def refuse(_member: str, messages: list[Message]) -> bool:
        return False

    async def story() -> None:
        cluster.start_producer("p", until_s=6.0, every_s=0.5)
        cluster.start_consumer("c", refuse, reconsume_times_max=1)
        await cluster.until(30.0)
        cluster.start_consumer("d", group="dead", topic="%DLQ%g", sends_back=False)
        await cluster.until(40.0)

    cluster.run(story, "p", "c", "d")
    assert {call.times for call in cluster.refused} == {0, 1}
    assert cluster.lost() == []  # d has got them
    assert cluster.repeats() == 0


def test_a_retry_is_sent_to_another_broker_when_the_one_that_holds_the_message_is_gone() -> None:
    cluster = Cluster()

    async def refuse_first(_member: str, messages: list[Message]) -> bool:
        if messages[0].reconsume_times > 0:
            return True
        await asyncio.sleep(0.2)  # until every queue has called
        if cluster.process("a").alive:
            cluster.process("a").kill()
        return False

    async def story() -> None:
        cluster.start_producer("p", until_s=6.0, every_s=0.5)
        await cluster.until(8.0)
        cluster.start_consumer("c", refuse_first)
        await cluster.until(60.0)  # a is never there again

    cluster.run(story, "p", "c")
    refused = {call.key for call in cluster.refused if call.queue.broker_name == "a"}
    again = {call.key for call in cluster.consumed}
    assert refused
    assert refused <= again


def test_a_listener_that_takes_too_long_gets_the_message_again() -> None:
    cluster = Cluster()

    async def hang_once(_member: str, messages: list[Message]) -> bool:
        if messages[0].reconsume_times == 0:
            await asyncio.sleep(1000.0)
        return True

    async def story() -> None:
        cluster.start_producer("p", until_s=3.0, every_s=0.5)
        cluster.start_consumer("c", hang_once, consume_batch=1, consume_timeout_s=30.0)
        await cluster.until(120.0)

    cluster.run(story, "p", "c")
    assert {call.times for call in cluster.consumed} == {1}
    assert cluster.consumed
