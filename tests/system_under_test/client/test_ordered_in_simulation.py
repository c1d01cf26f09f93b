"""Members of a group that consume in order, on real brokers in a simulated world: no queue is ever with two of them."""

from __future__ import annotations

import asyncio
import itertools
from collections import defaultdict

import pytest

from staticfire.system_under_test.protocol.message import Message
from tests.system_under_test.client.simulated_cluster import Cluster, Consumed

KEYS = 12


async def take_a_moment(_member: str, _messages: list[Message]) -> bool:
    await asyncio.sleep(0.3)
    return True


def by_queue(calls: list[Consumed]) -> list[list[Consumed]]:
    found = defaultdict(list)
    for call in sorted(calls, key=lambda call: (call.began_s, call.offset)):
        found[call.queue].append(call)
    return list(found.values())


def shared_queues(cluster: Cluster) -> list[tuple[Consumed, Consumed]]:
    """Calls of two members for one queue at the same time."""
    return [
        (earlier, later)
        for calls in by_queue(cluster.consumed + cluster.refused)
        for earlier, later in itertools.pairwise(calls)
        if earlier.member != later.member and later.began_s < earlier.at_s
    ]


def out_of_order(cluster: Cluster) -> list[str]:
    """Messages that were consumed for the first time after a later one of their queue."""
    wrong = []
    for calls in by_queue(cluster.consumed):
        highest = -1
        seen: set[int] = set()
        for call in calls:
            if call.offset < highest and call.offset not in seen:
                wrong.append(call.key)
            seen.add(call.offset)
            highest = max(highest, call.offset)
    return wrong


@pytest.mark.slow
def test_members_come_and_go_and_no_queue_is_shared() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=60.0, every_s=0.05, keys=KEYS)
        cluster.start_consumer("c1", take_a_moment, ordered=True, consume_batch=4)
        await cluster.until(10.0)
        cluster.start_consumer("c2", take_a_moment, ordered=True, consume_batch=4)
        await cluster.until(30.0)
        cluster.start_consumer("c3", take_a_moment, ordered=True, consume_batch=4)
        await cluster.until(45.0)
        cluster.process("c1").terminate()
        await cluster.until(100.0)

    cluster.run(story, "p", "c1", "c2", "c3")
    assert cluster.lost() == []
    assert shared_queues(cluster) == []
    assert out_of_order(cluster) == []
    assert cluster.repeats() == 0
    assert {call.member for call in cluster.consumed} == {"c1", "c2", "c3"}


@pytest.mark.slow
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_a_member_is_killed_and_a_broker_restarted(seed: int) -> None:
    cluster = Cluster(seed)

    async def story() -> None:
        cluster.start_producer("p", until_s=90.0, every_s=0.1, keys=KEYS)
        for name in ("c1", "c2"):
            cluster.start_consumer(name, take_a_moment, ordered=True, consume_batch=4)
        await cluster.until(15.0)
        cluster.process("c1").kill()
        await cluster.until(30.0)
        cluster.start_consumer("c3", take_a_moment, ordered=True, consume_batch=4)
        await cluster.until(40.0)
        cluster.process("a").kill()
        await cluster.until(50.0)
        cluster.start_server("a")
        await cluster.until(200.0)

    cluster.run(story, "p", "c1", "c2", "c3")
    assert cluster.lost() == []
    assert shared_queues(cluster) == []
    assert out_of_order(cluster) == []


def test_what_fails_holds_up_its_queue_and_no_other() -> None:
    cluster = Cluster()
    fails_until_s = 20.0

    async def fail_one(_member: str, messages: list[Message]) -> bool:
        return cluster.now_s > fails_until_s or b"p-7" not in [m.body for m in messages]

    async def story() -> None:
        cluster.start_producer("p", until_s=15.0, every_s=0.1, keys=KEYS)
        cluster.start_consumer("c", fail_one, ordered=True, consume_batch=1)
        await cluster.until(40.0)

    cluster.run(story, "p", "c")
    assert cluster.lost() == []
    assert out_of_order(cluster) == []
    tries = [call for call in cluster.refused if call.key == "p-7"]
    pauses = {round(b.began_s - a.at_s, 2) for a, b in itertools.pairwise(tries)}
    assert pauses == {1.0}
    assert [call.times for call in tries] == list(range(len(tries)))
    (done,) = [call for call in cluster.consumed if call.key == "p-7"]
    queues = {call.queue for call in cluster.consumed if call.at_s < fails_until_s}
    assert len(queues) >= 7
    held_up = [c for c in cluster.consumed if c.queue == done.queue and c.offset > done.offset]
    assert held_up
    assert all(call.began_s >= done.at_s for call in held_up)


def test_a_message_in_order_becomes_a_dead_letter_when_it_was_tried_often_enough() -> None:
    cluster = Cluster()

    async def refuse_one(_member: str, messages: list[Message]) -> bool:
        return b"p-7" not in [message.body for message in messages]

    async def story() -> None:
        cluster.start_producer("p", until_s=10.0, every_s=0.1, keys=KEYS)
        cluster.start_consumer(
            "c", refuse_one, ordered=True, consume_batch=1, reconsume_times_max=2
        )
        await cluster.until(15.0)
        cluster.start_consumer("d", group="dead", topic="%DLQ%g", sends_back=False)
        await cluster.until(30.0)

    cluster.run(story, "p", "c", "d")
    assert [call.times for call in cluster.refused] == [0, 1, 2]
    assert [call.key for call in cluster.consumed if call.member == "d"] == ["p-7"]
    assert cluster.lost() == []
    assert out_of_order(cluster) == []
