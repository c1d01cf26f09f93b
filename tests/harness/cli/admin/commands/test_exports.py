"""`staticfire admin`: exports, sends to brokers and an overview of all groups, on a running cluster."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from staticfire.harness.cli.admin.commands.monitoring import notices_of
from staticfire.system_under_test.protocol.bodies import MessageQueue, SubscriptionData
from staticfire.system_under_test.protocol.bodies_clients import (
    ConsumerRunningInfo,
    ProcessQueueInfo,
)
from tests.harness.cli.admin.commands.test_groups import send_two, set_offset
from tests.harness.cli.admin.conftest import CLUSTER, Admin
from tests.support.scripted_consumer import ScriptedConsumer

real = pytest.mark.real


def export(admin: Admin, folder: Path, *arguments: object) -> tuple[str, Any]:
    """The name of the file and its content."""
    path = Path(admin.json(*arguments, "-f", folder / "exports")["export"])
    return path.name, json.loads(path.read_text())


@real
def test_configs(admin: Admin, tmp_path: Path) -> None:
    name, found = export(admin, tmp_path, "exportConfigs", "-c", CLUSTER)
    assert name == "configs.json"
    assert found["clusterScale"] == {
        "masterBrokerSize": 2,
        "namesrvSize": 2,
        "slaveBrokerSize": 1,
    }
    of_broker = found["brokerConfigs"]["broker-a"]
    assert len(of_broker) == 16  # as many as mqadmin writes
    assert (of_broker["brokerClusterName"], of_broker["useTLS"]) == (CLUSTER, "false")


@real
def test_metadata(admin: Admin, topic: str, tmp_path: Path) -> None:
    admin.text("updateSubGroup", "-c", CLUSTER, "-g", "exported", "-q", 1)
    name, found = export(admin, tmp_path, "exportMetadata", "-c", CLUSTER)
    assert (name, sorted(found)) == (
        "metadata.json",
        ["exportTime", "subscriptionGroupTable", "topicConfigTable"],
    )
    assert found["topicConfigTable"][topic]["readQueueNums"] == 4  # two on each master
    assert found["subscriptionGroupTable"]["exported"]["retryQueueNums"] == 2
    assert not {"TBW102", "TOOLS_CONSUMER", "SELF_TEST_TOPIC"} & {
        *found["topicConfigTable"],
        *found["subscriptionGroupTable"],
    }
    name, found = export(admin, tmp_path, "exportMetadata", "-b", admin.masters[0], "-t")
    assert (name, found["topicConfigTable"][topic]["readQueueNums"]) == ("topic.json", 2)
    name, found = export(admin, tmp_path, "exportMetadata", "-b", admin.masters[0], "-g")
    assert name == "subscriptionGroup.json"
    assert "exported" in found["subscriptionGroupTable"]


@real
def test_metrics(admin: Admin, tmp_path: Path) -> None:
    name, found = export(admin, tmp_path, "exportMetrics", "-c", CLUSTER)
    assert (name, sorted(found["evaluateReport"])) == ("metrics.json", ["broker-a", "broker-b"])
    of_broker = found["evaluateReport"]["broker-a"]
    assert of_broker["runtimeVersion"]["rocketmqVersion"] == "V4_9_8"
    assert of_broker["runtimeEnv"]["cpuNum"] == "1"
    assert sorted(of_broker["runtimeQuota"]["tps"]) == [
        "normalInTps",
        "normalOutTps",
        "scheduleInTps",
        "transInTps",
    ]
    assert found["totalData"]["totalOneDayNum"]["normalOneDayInNum"] == 0


@real
def test_a_file_that_cannot_be_written(admin: Admin) -> None:
    refusal = admin.refusal("exportConfigs", "-c", CLUSTER, "-f", "/dev/null/x")
    assert "/dev/null/x/configs.json cannot be written: Not a directory" in refusal


@real
def test_sends_to_a_broker(admin: Admin) -> None:
    rows = admin.json("sendMsgStatus", "-b", "broker-b", "-c", 3, "-s", 30)
    assert [(row["sendStatus"], row["topic"], row["brokerName"]) for row in rows] == [
        ("SEND_OK", "broker-b", "broker-b")
    ] * 3
    found = admin.json("queryMsgById", "-i", rows[0]["offsetMsgId"])
    assert "hello jodiehello jodiehello jodie" in json.dumps(found)


@real
def test_sends_to_each_broker(admin: Admin) -> None:
    rows = admin.json("clusterRT", "-c", CLUSTER, "-a", 2)
    assert [(row["brokerName"], row["successCount"], row["failCount"]) for row in rows] == [
        ("broker-a", 2, 0),
        ("broker-b", 2, 0),
    ]
    assert "there is no cluster 'nowhere'" in admin.refusal("clusterRT", "-c", "nowhere")


@real
def test_monitoring_tells_of_groups_with_members(admin: Admin, topic: str) -> None:
    queue = send_two(admin, topic)
    with ScriptedConsumer(admin.masters, "watched", topic):
        set_offset(admin, "watched", queue, 1)
        known = (admin.text("topicList") for _ in range(100))
        assert any("%RETRY%watched" in names.split() for names in known)  # registered soon
        found = admin.json("startMonitoring")
    [row] = [each for each in found["undoneMsgs"] if each["topic"] == topic]
    assert (row["consumerGroup"], row["undoneMsgsTotal"], row["undoneMsgsSingleMQ"]) == (
        "watched",
        1,
        1,
    )


# What is said of members

NOW_MS = 10_000_000
QUEUE = MessageQueue("t", "broker-a", 3)


def member(
    expression: str = "*", *, orderly: bool = False, started_ms: int = 0, **state: Any
) -> ConsumerRunningInfo:
    return ConsumerRunningInfo(
        properties={
            "PROP_CONSUME_TYPE": "CONSUME_PASSIVELY",
            "PROP_CONSUMEORDERLY": str(orderly).lower(),
            "PROP_CONSUMER_START_TIMESTAMP": str(started_ms),
        },
        subscription_set=[SubscriptionData(topic="t", sub_string=expression)],
        mq_table={QUEUE: ProcessQueueInfo(**state)} if state else {},
    )


@pytest.mark.parametrize(
    ("members", "notices"),
    [
        ({}, []),
        ({"a": member(), "b": member()}, []),
        ({"a": member(), "b": member("x")}, ["ConsumerGroup: g, Subscription different"]),
        ({"a": member(started_ms=NOW_MS - 100_000), "b": member("x")}, []),  # too young
        (
            {"a": member(cached_msg_count=1, last_consume_timestamp=NOW_MS - 61_000)},
            [
                "ConsumerGroup: g, ClientId: a,"
                " t broker-a 3 can't consume for a while, maybe blocked, 61000ms"
            ],
        ),
        ({"a": member(cached_msg_count=1, last_consume_timestamp=NOW_MS - 59_000)}, []),
        ({"a": member(cached_msg_count=0, last_consume_timestamp=1)}, []),
        (
            {"a": member(orderly=True, last_lock_timestamp=NOW_MS - 5)},
            ["ConsumerGroup: g, ClientId: a, t broker-a 3 can't lock for a while, 5ms"],
        ),
        (
            {"a": member(orderly=True, locked=True, dropped=True, try_unlock_times=2)},
            ["ConsumerGroup: g, ClientId: a, t broker-a 3 unlock 2 times, still failed"],
        ),
    ],
)
def test_notices(members: dict[str, ConsumerRunningInfo], notices: list[str]) -> None:
    assert notices_of("g", members, NOW_MS) == notices
