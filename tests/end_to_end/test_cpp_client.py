"""RocketMQ's C++ client, not written by us, against our cluster over real sockets: everything that it can do."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from staticfire.harness.local_cluster import LocalCluster
from staticfire.system_under_test.client.consumer.push.consumer_config import ConsumerConfig
from staticfire.system_under_test.client.consumer.push.push_consumer import PushConsumer
from staticfire.system_under_test.client.message_properties import retry_topic
from staticfire.system_under_test.runtime.real_env import make_env
from tests.support import cpp_everything as cpp
from tests.support.cpp_load import IS_INSTALLED
from tests.support.sending import send

pytestmark = [
    pytest.mark.real,
    pytest.mark.skipif(not IS_INSTALLED, reason="needs the extra cpp-client"),
]
ONE_SECOND_LEVELS = {"messageDelayLevel": "1s 1s 1s 1s 1s"}
SENT = [
    *(f"sync{number}" for number in range(cpp.SENDS)),
    *(f"async{number}" for number in range(cpp.ASYNC_SENDS)),
    *(f"oneway{number}" for number in range(cpp.ONE_WAY)),
    *(f"delayed{number}" for number in range(cpp.DELAYED)),
]


async def make_retry_topic(name_servers: tuple[str, ...]) -> None:
    """Otherwise the library finds it only with its next rebalance, after 10 s."""

    async def listen(*_: object) -> bool:
        return False

    config = ConsumerConfig(
        group=cpp.RETRY_GROUP, name_servers=name_servers, client_id="c@c", topic="TBW102"
    )
    consumer = PushConsumer(make_env("consumer"), config, listen)
    await consumer.start()
    topic = retry_topic(cpp.RETRY_GROUP)
    while topic not in {queue.topic for queue in consumer.assignment}:
        await asyncio.sleep(0.02)
    await consumer.stop()


@pytest.fixture(scope="module")
def report() -> cpp.Report:
    with LocalCluster(broker_properties=ONE_SECOND_LEVELS) as cluster:
        for topic in cpp.TOPICS:
            send(cluster.name_servers, topic, b"first")
        asyncio.run(asyncio.wait_for(make_retry_topic(cluster.name_servers), 10))
        return cpp.run(cluster.name_server_address)


def seen(report: cpp.Report, what: str) -> list[dict[str, Any]]:
    return [line for line in report if line["what"] == what]


def bodies(report: cpp.Report, what: str) -> list[str]:
    return [line["body"] for line in seen(report, what) if line["body"] != "first"]


def test_synchronous_and_asynchronous_sends_are_acknowledged(report: cpp.Report) -> None:
    assert [line["status"] for line in seen(report, "sent")] == [0] * cpp.SENDS
    assert [line["status"] for line in seen(report, "async sent")] == [0] * cpp.ASYNC_SENDS
    assert seen(report, "async failed") == []


def test_a_concurrent_consumer_gets_everything_once(report: cpp.Report) -> None:
    assert sorted(bodies(report, "concurrent")) == sorted(SENT)


def test_tags_select(report: cpp.Report) -> None:
    assert [(line["body"], line["tags"]) for line in seen(report, "tagged")] == [("sync0", "red")]


def test_ordered_sends_keep_their_queue_and_arrive_in_order(report: cpp.Report) -> None:
    lines = [line for line in seen(report, "orderly") if ":" in line["body"]]
    for key in range(cpp.KEYS):
        of_key = [line for line in lines if line["body"].startswith(f"{key}:")]
        assert len({line["queue"] for line in of_key}) == 1
        numbers = [int(line["body"].partition(":")[2]) for line in of_key]
        assert list(dict.fromkeys(numbers)) == list(range(cpp.PER_KEY))
        assert numbers == sorted(numbers)


def test_in_order_what_fails_is_tried_again_before_anything_else(report: cpp.Report) -> None:
    assert len(seen(report, "orderly failed")) == 2
    queue = [line["body"] for line in seen(report, "orderly") if line["body"].startswith("2:")]
    assert queue[3:6] == ["2:3"] * 3


def test_what_fails_otherwise_comes_again_from_the_retry_topic(report: cpp.Report) -> None:
    assert set(bodies(report, "retried failed")) == {"once more"}
    (again, *_) = [line for line in seen(report, "retried again") if line["body"] == "once more"]
    assert again["times"] == 1


def test_every_member_of_a_broadcast_group_gets_everything(report: cpp.Report) -> None:
    first, second = (bodies(report, f"broadcast {number}") for number in (1, 2))
    assert len(set(first) & set(second)) >= 3


def test_pulling_finds_everything(report: cpp.Report) -> None:
    (pulled,) = seen(report, "pulled")
    assert sorted(body for body in pulled["bodies"] if body != "first") == sorted(SENT)
