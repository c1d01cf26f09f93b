"""The times at which the broker cleans, and the messages that a running cycle must still hide."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import count

import pytest

from staticfire.system_under_test.broker.append_pipeline.retention import Cleaning
from staticfire.system_under_test.client.message_properties import DELAY_LEVEL
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from staticfire.system_under_test.protocol.command import RemotingCommand
from staticfire.system_under_test.store.delay_levels import SCHEDULE_TOPIC
from staticfire.system_under_test.store.retention.retention import Removal
from tests.system_under_test.broker.bench import Bench, Peer


def make_cleaning(bench: Bench, *, is_ready: bool = True) -> Cleaning:
    def fail(_removal: object, error: OSError) -> None:
        raise error

    return Cleaning(
        bench.config,
        bench.store,
        fail=fail,
        is_topic=bench.topics.is_used,
        is_ready=lambda: is_ready,
    )


def put_and_delete(bench: Bench) -> None:
    bench.send("TopicTest")
    assert bench.store.queue_bounds("TopicTest", 0) == (0, 1)
    bench.topics.delete("TopicTest")


@pytest.mark.needs_sources
def test_a_deleted_topic_is_hidden_even_if_a_cycle_is_running(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    put_and_delete(bench)
    removals = iter([Removal(bench.disk, "/store/nothing")])
    monkeypatch.setattr(bench.store.retention, "clean", lambda: removals)

    async def scenario() -> None:
        cleaning = make_cleaning(bench)
        cycle = asyncio.ensure_future(cleaning.run())
        await asyncio.sleep(0)
        assert next(removals, None) is None  # the cycle waits for the disk
        cleaning.clean_now()
        assert bench.store.queue_bounds("TopicTest", 0) == (1, 1)
        await cycle

    asyncio.run(scenario())


@pytest.mark.needs_sources
def test_one_cycle_runs_at_a_time(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    begun: list[int] = []
    numbers = count(1)

    def removals(number: int) -> Iterator[Removal]:
        begun.append(number)
        yield Removal(bench.disk, "/store/nothing")

    monkeypatch.setattr(bench.store.retention, "clean", lambda: removals(next(numbers)))

    async def scenario() -> None:
        cleaning = make_cleaning(bench)
        first = asyncio.ensure_future(cleaning.run())
        await asyncio.sleep(0)
        await cleaning.run()
        assert begun == [1]
        await first
        await cleaning.run()
        assert begun == [1, 3]

    asyncio.run(scenario())


def test_topics_that_may_be_older_than_the_log_hide_nothing(bench: Bench) -> None:
    put_and_delete(bench)

    async def scenario() -> None:
        cleaning = make_cleaning(bench, is_ready=False)
        handler = cleaning.handlers()[RequestCode.CLEAN_UNUSED_TOPIC]
        request = RemotingCommand.request(RequestCode.CLEAN_UNUSED_TOPIC)
        response = handler(Peer().connection, request)
        assert response is not None
        assert response.code == ResponseCode.SUCCESS
        await asyncio.sleep(0)
        assert bench.store.queue_bounds("TopicTest", 0) == (0, 1)

    asyncio.run(scenario())


def test_a_delayed_message_is_read_once_it_is_delivered(bench: Bench) -> None:
    """Or a full disk would keep every file that holds one for ever."""
    services = bench.services
    bench.send("TopicTest", properties={DELAY_LEVEL: "1"})
    assert services.least_read(SCHEDULE_TOPIC, 0) is None

    bench.clock.move(1.0)

    async def deliver() -> None:
        services.begin()
        for _ in range(2):  # the turn in which the timer is due, and the one in which it runs
            await asyncio.sleep(0)
        services.stop()

    asyncio.run(deliver())
    bench.publish()
    assert bench.store.queue_bounds("TopicTest", 0) == (0, 1)
    assert services.least_read(SCHEDULE_TOPIC, 0) == 1
    assert services.least_read(SCHEDULE_TOPIC, 1) is None


def test_a_message_is_read_once_every_group_has_committed_it(bench: Bench) -> None:
    assert bench.services.least_read("TopicTest", 0) is None
    bench.offsets.commit("g", "TopicTest", 0, 7)
    bench.offsets.commit("h", "TopicTest", 0, 5)
    assert bench.services.least_read("TopicTest", 0) == 5
