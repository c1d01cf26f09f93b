"""Broadcast groups, and where groups begin, on real brokers in a simulated world."""

from __future__ import annotations

import asyncio
from collections import Counter
from typing import Any

import pytest

from staticfire.harness.simulation.scheduling.clock import EPOCH_MS
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.offsets.queue_bounds import ConsumeFrom
from staticfire.system_under_test.protocol.message import Message
from tests.system_under_test.client.simulated_cluster import Cluster

BROADCAST: dict[str, Any] = {"broadcast": True, "offset_folder": "/offsets"}


def test_every_member_gets_everything_once_and_remembers_it_over_a_restart() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=30.0, every_s=0.1)
        for name in ("c1", "c2"):
            cluster.start_consumer(name, **BROADCAST)
        await cluster.until(12.0)
        await asyncio.wait_for(stopped(cluster, "c1"), 5)
        await cluster.until(18.0)
        cluster.start_consumer("c1", **BROADCAST)
        await cluster.until(40.0)

    cluster.run(story, "p", "c1", "c2")
    for name in ("c1", "c2"):
        times = Counter(one.key for one in cluster.consumed if one.member == name)
        assert times == dict.fromkeys((one.key for one in cluster.sent), 1)


async def stopped(cluster: Cluster, name: str) -> None:
    process = cluster.process(name)
    process.terminate()
    await process.exit


def test_a_member_that_loses_its_power_gets_again_what_it_had_not_written_down() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=20.0, every_s=0.1)
        cluster.start_consumer("c", **BROADCAST)
        await cluster.until(13.0)
        cluster.world.hosts["c"].power_cut()
        await cluster.until(14.0)
        cluster.world.hosts["c"].power_on()
        cluster.start_consumer("c", **BROADCAST)
        await cluster.until(30.0)

    cluster.run(story, "p", "c")
    assert cluster.lost() == []
    assert 0 < cluster.repeats() < 60  # saved every 5 s


def test_what_fails_is_dropped_and_comes_never_again() -> None:
    cluster = Cluster()

    async def refuse_one(_member: str, messages: list[Message]) -> bool:
        return messages[0].body != b"p-3"

    async def story() -> None:
        cluster.start_producer("p", until_s=6.0, every_s=0.1)
        cluster.start_consumer("c", refuse_one, consume_batch=1, **BROADCAST)
        await cluster.until(60.0)

    cluster.run(story, "p", "c")
    assert [one.key for one in cluster.refused] == ["p-3"]
    assert cluster.lost() == ["p-3"]


def test_a_broadcast_consumer_needs_a_folder() -> None:
    with pytest.raises(ValueError, match="needs an offset_folder"):
        ConsumerConfig(group="g", name_servers=(), client_id="c", topic="t", broadcast=True)


@pytest.mark.parametrize(
    ("consume_from", "expected"),
    [
        (ConsumeFrom.FIRST_OFFSET, (0, 1)),
        (ConsumeFrom.TIMESTAMP, (40, 60)),
        (ConsumeFrom.LAST_OFFSET, (75, 100)),
    ],
)
def test_where_a_member_begins(consume_from: ConsumeFrom, expected: tuple[int, int]) -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=13.0, every_s=0.1)
        await cluster.until(7.0)
        half_ms = EPOCH_MS + int(cluster.now_s * 1000)
        await cluster.until(10.0)
        cluster.start_consumer(
            "c", consume_from=consume_from, consume_timestamp_ms=half_ms, **BROADCAST
        )
        await cluster.until(20.0)

    cluster.run(story, "p", "c")
    first = min(int(one.key.partition("-")[2]) for one in cluster.consumed)
    assert expected[0] <= first < expected[1]
    consumed = {int(one.key.partition("-")[2]) for one in cluster.consumed}
    assert len(consumed) == len(cluster.consumed)
    assert max(consumed) == len(cluster.sent) - 1


def test_a_member_reports_an_offset_when_it_is_in_its_file() -> None:
    cluster = Cluster()

    async def story() -> None:
        cluster.start_producer("p", until_s=4.0, every_s=0.1)
        cluster.start_consumer("c", **BROADCAST)
        await cluster.until(9.0)
        assert sum(cluster.commits.values()) == len(cluster.sent)
        cluster.commits.clear()
        await cluster.until(30.0)  # nothing new to save

    cluster.run(story, "p", "c")
    assert cluster.commits == {}
