"""The answers of a broker while none of its metadata can be written."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.metadata.topics import make_topic
from staticfire.system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
)
from staticfire.system_under_test.protocol.codes import ResponseCode
from tests.system_under_test.broker.admin_language import beat
from tests.system_under_test.broker.bench import Bench, Peer
from tests.system_under_test.broker.delivery.test_send_back import SEND_BACK

HEARTBEAT = HeartbeatData(
    client_id="c1",
    consumers=[
        ConsumerData(
            group_name="newcomers",
            subscriptions=[SubscriptionData(topic="TopicTest", sub_string="*", sub_version=1)],
        )
    ],
)


def test_a_topic_that_cannot_be_made_is_refused_as_a_full_disk_is(bench: Bench) -> None:
    bench.disk.fill()
    answer = bench.send("Unknown")
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark == "topic[Unknown] cannot be made now: No space left on device"
    bench.disk.heal()
    assert bench.send("Unknown").code == ResponseCode.SUCCESS


def test_a_new_group_consumes_all_the_same(bench: Bench) -> None:
    """If only old groups could, a disk that waits for its consumers would stay full."""
    bench.topics.put(make_topic("TopicTest", 4))
    bench.send()
    bench.disk.fill()
    beat(bench, HEARTBEAT, Peer(), 409)
    assert bench.clients.consumer_group("newcomers") is not None
    answer = bench.pull(group="newcomers")
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
    assert bench.groups.get("newcomers") is None
    bench.disk.heal()
    beat(bench, HEARTBEAT, Peer(), 409)
    assert bench.groups.get("newcomers") is not None
    assert bench.topics.get("%RETRY%newcomers") is not None


@pytest.mark.parametrize(
    ("delay_level", "topic"), [("0", "%RETRY%newcomers"), ("-1", "%DLQ%newcomers")]
)
def test_a_send_back_whose_topic_cannot_be_made_is_refused(
    bench: Bench, delay_level: str, topic: str
) -> None:
    bench.groups.put(SubscriptionGroupConfig(group_name="newcomers"))
    if delay_level == "-1":
        bench.topics.create_retry_topic("newcomers", 1)
    bench.send()
    bench.disk.fill()
    ext = {"offset": "0", "group": "newcomers", "delayLevel": delay_level}
    answer = bench.ask_service(SEND_BACK, ext)
    assert answer is not None
    assert answer.code == ResponseCode.SERVICE_NOT_AVAILABLE
    assert answer.remark == f"topic[{topic}] cannot be made now: No space left on device"
    bench.disk.heal()
    answer = bench.ask_service(SEND_BACK, ext)
    assert answer is not None
    assert answer.code == ResponseCode.SUCCESS
