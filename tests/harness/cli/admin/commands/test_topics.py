"""`staticfire admin`: topic commands on a running cluster."""

from __future__ import annotations

import pytest

from tests.harness.cli.admin.conftest import CLUSTER, Admin

pytestmark = pytest.mark.real


def test_a_topic_is_made_on_all_masters(admin: Admin, topic: str) -> None:
    rows = admin.json("topicRoute", "-t", topic)
    assert [row["brokerName"] for row in rows] == ["broker-a", "broker-b"]
    assert {(row["readQueueNums"], row["writeQueueNums"], row["perm"]) for row in rows} == {
        (2, 2, 6)
    }
    assert rows[0]["brokerAddrs"]["0"] == admin.masters[0]
    assert topic in [row["topic"] for row in admin.json("topicList")]


def test_a_topic_is_made_on_one_broker(admin: Admin) -> None:
    made = admin.json("updateTopic", "-b", admin.masters[1], "-t", "OnlyB", "-p", "4")
    assert made["brokers"] == [admin.masters[1]]
    [row] = admin.json("topicRoute", "-t", "OnlyB")
    assert (row["brokerName"], row["perm"]) == ("broker-b", 4)


def test_a_topic_is_deleted(admin: Admin, topic: str) -> None:
    admin.text("deleteTopic", "-c", CLUSTER, "-t", topic)
    assert topic not in [row["topic"] for row in admin.json("topicList")]
    assert "17 TOPIC_NOT_EXIST" in admin.refusal("topicRoute", "-t", topic)


def test_a_topic_that_is_made_again_does_not_show_its_old_messages(
    admin: Admin, topic: str
) -> None:
    admin.text("sendMessage", "-t", topic, "-p", "x", "-b", "broker-a", "-i", "1")
    admin.text("deleteTopic", "-c", CLUSTER, "-t", topic)
    admin.text("updateTopic", "-c", CLUSTER, "-t", topic, "-r", "2", "-w", "2")
    rows = admin.json("topicStatus", "-t", topic)
    bounds = {
        (row["brokerName"], row["queueId"]): (row["minOffset"], row["maxOffset"]) for row in rows
    }
    assert bounds["broker-a", 1] == (1, 1)


def test_permissions_change_and_nothing_else(admin: Admin, topic: str) -> None:
    rows = admin.json("updateTopicPerm", "-c", CLUSTER, "-t", topic, "-p", "4")
    assert [(row["before"], row["perm"]) for row in rows] == [(6, 4), (6, 4)]
    rows = admin.json("topicRoute", "-t", topic)
    assert {(row["readQueueNums"], row["perm"]) for row in rows} == {(2, 4)}


def test_status_counts_messages(admin: Admin, topic: str) -> None:
    admin.text("sendMessage", "-t", topic, "-p", "x", "-b", "broker-a", "-i", "1")
    rows = admin.json("topicStatus", "-t", topic)
    ends = {(row["brokerName"], row["queueId"]): row["maxOffset"] for row in rows}
    assert ends == {("broker-a", 0): 0, ("broker-a", 1): 1, ("broker-b", 0): 0, ("broker-b", 1): 0}


def test_clusters_of_a_topic(admin: Admin, topic: str) -> None:
    assert admin.json("topicClusterList", "-t", topic) == [{"cluster": CLUSTER}]


def test_list_with_clusters_and_groups(admin: Admin, topic: str) -> None:
    rows = {row["topic"]: row for row in admin.json("topicList", "-c")}
    assert rows[topic] == {"topic": topic, "clusters": [CLUSTER], "groups": []}


def test_order_configuration(admin: Admin, topic: str) -> None:
    admin.text("updateOrderConf", "-t", topic, "-m", "put", "-v", "broker-a:2")
    admin.text("updateTopic", "-b", admin.masters[1], "-t", topic, "-w", 3, "-o", "true")
    value = admin.json("updateOrderConf", "-t", topic, "-m", "get")["orderConf"]
    assert value == "broker-a:2;broker-b:3"
    admin.text("updateOrderConf", "-t", topic, "-m", "delete")
    assert "22 QUERY_NOT_FOUND" in admin.refusal("updateOrderConf", "-t", topic, "-m", "get")


def test_shares_are_as_equal_as_can_be(admin: Admin, topic: str) -> None:
    rows = admin.json("allocateMQ", "-t", topic, "-i", "x,y,z")
    shares = [(row["member"], row["brokerName"], row["queueId"]) for row in rows]
    assert shares == [
        ("x", "broker-a", 0),
        ("x", "broker-a", 1),
        ("y", "broker-b", 0),
        ("z", "broker-b", 1),
    ]


def test_stats(admin: Admin, topic: str) -> None:
    [row] = admin.json("statsAll", "-t", topic)
    assert (row["topic"], row["group"], row["lag"]) == (topic, None, 0)
    assert all(row["topic"] != topic for row in admin.json("statsAll", "-a"))


def test_a_table_is_for_people(admin: Admin, topic: str) -> None:
    lines = admin.text("topicRoute", "-t", topic).splitlines()
    assert lines[0].split() == [
        "cluster",
        "brokerName",
        "readQueueNums",
        "writeQueueNums",
        "perm",
        "brokerAddrs",
    ]
    assert lines[2].split()[:5] == [CLUSTER, "broker-a", "2", "2", "6"]
    assert all(line == line.rstrip() for line in lines)
