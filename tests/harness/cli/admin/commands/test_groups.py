"""`staticfire admin`: groups and their offsets on a running cluster."""

from __future__ import annotations

import asyncio

import pytest

from staticfire.system_under_test.admin import AdminClient
from staticfire.system_under_test.admin.offsets import commit
from staticfire.system_under_test.protocol.bodies import MessageQueue
from staticfire.system_under_test.protocol.codes import RequestCode
from staticfire.system_under_test.runtime.real_env import make_env
from tests.harness.cli.admin.conftest import CLUSTER, Admin
from tests.support.scripted_consumer import CLIENT_ID, ScriptedConsumer

pytestmark = pytest.mark.real


def set_offset(admin: Admin, group: str, queue: MessageQueue, offset: int) -> None:
    async def run() -> None:
        async with AdminClient(make_env("test"), admin.cluster.name_servers) as client:
            address = await client.master(queue.broker_name)
            await commit(client, address, group, queue, offset)

    asyncio.run(run())


def begin_everywhere(admin: Admin, group: str, topic: str) -> None:
    """As RocketMQ, brokers reset only groups that have an offset in every queue."""
    for broker_name in ("broker-a", "broker-b"):
        for queue_id in (0, 1):
            set_offset(admin, group, MessageQueue(topic, broker_name, queue_id), 0)


def send_two(admin: Admin, topic: str) -> MessageQueue:
    """Two messages into one queue."""
    for body in ("1", "2"):
        admin.text("sendMessage", "-t", topic, "-p", body, "-b", "broker-a", "-i", 0)
    return MessageQueue(topic, "broker-a", 0)


def test_a_group_is_made_shown_and_deleted(admin: Admin) -> None:
    admin.text("updateSubGroup", "-c", CLUSTER, "-g", "made", "-r", 3, "-s", "false")
    rows = admin.json("getConsumerConfig", "-g", "made")
    assert [row["brokerName"] for row in rows] == ["broker-a", "broker-b"]
    assert {(row["retryMaxTimes"], row["consumeEnable"]) for row in rows} == {(3, False)}
    admin.text("deleteSubGroup", "-c", CLUSTER, "-g", "made", "-r", "true")
    assert "no master has a group 'made'" in admin.refusal("getConsumerConfig", "-g", "made")


def test_a_group_is_deleted_from_one_broker(admin: Admin) -> None:
    admin.text("updateSubGroup", "-c", CLUSTER, "-g", "half")
    admin.text("deleteSubGroup", "-b", admin.masters[0], "-g", "half")
    assert [row["brokerName"] for row in admin.json("getConsumerConfig", "-g", "half")] == [
        "broker-b"
    ]


def test_progress_of_a_group(admin: Admin, topic: str) -> None:
    queue = send_two(admin, topic)
    admin.text("updateSubGroup", "-c", CLUSTER, "-g", "progress")
    set_offset(admin, "progress", queue, 1)
    rows = admin.json("consumerProgress", "-g", "progress")
    behind = {(row["brokerName"], row["queueId"]): row["lag"] for row in rows}
    assert behind[("broker-a", 0)] == 1
    assert "1 behind" in admin.text("consumerProgress", "-g", "progress", "-t", topic)
    rows = {row["group"]: row for row in admin.json("consumerProgress")}
    assert (rows["progress"]["members"], rows["progress"]["lag"]) == (0, 1)


def test_progress_of_an_unknown_group(admin: Admin) -> None:
    assert "no master has a group 'nobody'" in admin.refusal("consumerProgress", "-g", "nobody")


def test_members_of_a_group(admin: Admin, topic: str) -> None:
    with ScriptedConsumer(admin.masters, "online", topic, "A || B") as consumer:
        found = admin.json("consumerConnection", "-g", "online")
        assert [each["clientId"] for each in found["connectionSet"]] == [CLIENT_ID]
        assert found["subscriptionTable"][topic]["subString"] == "A || B"
        text = admin.text("consumerConnection", "-g", "online", "-b", admin.masters[0])
        assert f"subscriptions: {topic} A || B" in text
        [row] = admin.json("consumerStatus", "-g", "online")
        assert (row["clientId"], row["error"]) == (CLIENT_ID, None)
        info = admin.json("consumerStatus", "-g", "online", "-i", CLIENT_ID)
        assert info["properties"] == {"PROP_CONSUME_TYPE": "CONSUME_PASSIVELY"}
        assert RequestCode.GET_CONSUMER_RUNNING_INFO in consumer.asked
        admin.text("consumerProgress", "-g", "online", "-s", "true")
    err = admin.refusal("consumerConnection", "-g", "offline")
    assert "206 CONSUMER_NOT_ONLINE" in err


def test_producers(admin: Admin) -> None:
    assert admin.json("producer", "-b", admin.masters[0]) == []
    assert "not exist" in admin.refusal("producerConnection", "-g", "nobody", "-t", "any")


def test_offsets_of_an_offline_group_are_reset(admin: Admin, topic: str) -> None:
    send_two(admin, topic)
    admin.text("updateSubGroup", "-c", CLUSTER, "-g", "late")
    begin_everywhere(admin, "late", topic)
    rows = admin.json("skipAccumulatedMessage", "-g", "late", "-t", topic)
    changed = [row for row in rows if row["before"] != row["offset"]]
    assert [(row["brokerName"], row["queueId"], row["offset"]) for row in changed] == [
        ("broker-a", 0, 2)
    ]
    rows = admin.json("resetOffsetByTime", "-g", "late", "-t", topic, "-s", 0)
    assert {row["offset"] for row in rows if row["before"] == 2} == {0}


def test_members_are_notified_of_a_reset(admin: Admin, topic: str) -> None:
    queue = send_two(admin, topic)
    with ScriptedConsumer(admin.masters, "resetting", topic) as consumer:
        begin_everywhere(admin, "resetting", topic)
        set_offset(admin, "resetting", queue, 2)
        rows = admin.json("resetOffsetByTime", "-g", "resetting", "-t", topic, "-s", 0)
        assert {row["offset"] for row in rows} == {0}
        admin.text("consumerStatus", "-g", "resetting")  # answered after what was sent before
        assert RequestCode.RESET_CONSUMER_CLIENT_OFFSET in consumer.asked


def test_offsets_are_cloned(admin: Admin, topic: str) -> None:
    queue = send_two(admin, topic)
    for group in ("source", "target"):
        admin.text("updateSubGroup", "-c", CLUSTER, "-g", group)
    set_offset(admin, "source", queue, 1)
    admin.text("cloneGroupOffset", "-s", "source", "-d", "target", "-t", topic, "-o", "true")
    rows = admin.json("consumerProgress", "-g", "target", "-t", topic)
    offsets = {(row["brokerName"], row["queueId"]): row["consumerOffset"] for row in rows}
    assert offsets[("broker-a", 0)] == 1
