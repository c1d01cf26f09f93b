"""`staticfire admin`: brokers and name servers of a running cluster."""

from __future__ import annotations

import pytest

from tests.harness.cli.admin.conftest import CLUSTER, Admin

pytestmark = pytest.mark.real


def test_cluster_list_has_every_broker(admin: Admin) -> None:
    rows = admin.json("clusterList")
    names = [(row["cluster"], row["brokerName"], row["brokerId"]) for row in rows]
    assert names == [(CLUSTER, "broker-a", 0), (CLUSTER, "broker-a", 1), (CLUSTER, "broker-b", 0)]
    assert {row["version"] for row in rows} == {"V4_9_8"}
    assert sorted(row["address"] for row in rows) == sorted(
        node.address for node in admin.cluster.brokers
    )


def test_cluster_list_has_the_messages_of_two_days(admin: Admin, topic: str) -> None:
    before = _of_today(admin)
    admin.text("sendMessage", "-t", topic, "-p", "x", "-b", "broker-b", "-i", 0)
    assert _of_today(admin) == before + 1
    assert {row["inTotalYesterday"] for row in admin.json("clusterList", "-m")} == {0}


def _of_today(admin: Admin) -> int:
    [row] = [row for row in admin.json("clusterList", "-m") if row["brokerName"] == "broker-b"]
    count: int = row["inTotalToday"]
    return count


def test_status_of_brokers(admin: Admin) -> None:
    rows = admin.json("brokerStatus", "-b", admin.masters[0])
    values = {row["key"]: row["value"] for row in rows}
    assert values["brokerVersionDesc"] == "V4_9_8"
    brokers = {row["broker"] for row in admin.json("brokerStatus", "-c", CLUSTER)}
    assert brokers == set(admin.masters)


def test_consume_stats_of_a_broker(admin: Admin) -> None:
    assert admin.json("brokerConsumeStats", "-b", admin.masters[0]) == []


def test_broker_configuration(admin: Admin) -> None:
    rows = admin.json("getBrokerConfig", "-c", CLUSTER)
    found = {(row["address"], row["key"]): row["value"] for row in rows}
    first, second = admin.masters
    assert (found[first, "brokerName"], found[second, "brokerName"]) == ("broker-a", "broker-b")
    admin.text("updateBrokerConfig", "-b", first, "-k", "autoCreateTopicEnable", "-v", "false")
    rows = admin.json("getBrokerConfig", "-b", first)
    assert {row["key"]: row["value"] for row in rows}["autoCreateTopicEnable"] == "false"
    err = admin.refusal("updateBrokerConfig", "-b", first, "-k", "brokerConfigPath", "-v", "x")
    assert "16 NO_PERMISSION" in err


@pytest.mark.parametrize(
    "command", ["cleanExpiredCQ", "cleanUnusedTopic", "deleteExpiredCommitLog"]
)
def test_cleaning(admin: Admin, command: str) -> None:
    assert admin.json(command)["brokers"] == admin.masters
    assert admin.json(command, "-c", CLUSTER)["brokers"] == admin.masters
    assert admin.json(command, "-b", admin.masters[1])["brokers"] == [admin.masters[1]]


def test_lift_catch_up(admin: Admin) -> None:
    assert admin.json("liftCatchUp", "-b", admin.masters[0])["broker"] == admin.masters[0]


def test_entries_of_a_consume_queue(admin: Admin, topic: str) -> None:
    for body in ("1", "2"):
        admin.text("sendMessage", "-t", topic, "-p", body, "-b", "broker-a", "-i", 0)
    queue = ("-t", topic, "-q", 0, "-i", 0, "-b", admin.masters[0])
    rows = admin.json("queryCq", *queue)
    assert [row["index"] for row in rows] == [0, 1]
    assert rows[1]["physicOffset"] > rows[0]["physicOffset"]
    assert "has 0 to 1" in admin.text("queryCq", *queue, "-c", 1)


def test_key_values(admin: Admin) -> None:
    pair = ("-s", "space", "-k", "key")
    admin.text("updateKvConfig", *pair, "-v", "value")
    assert admin.json("getKvConfig", *pair)["value"] == "value"
    admin.text("deleteKvConfig", *pair)
    assert "22 QUERY_NOT_FOUND" in admin.refusal("getKvConfig", *pair)


def test_name_server_configuration(admin: Admin) -> None:
    admin.text("updateNamesrvConfig", "-k", "orderMessageEnable", "-v", "true")
    rows = admin.json("getNamesrvConfig")
    values = [row["value"] for row in rows if row["key"] == "orderMessageEnable"]
    assert values == ["true", "true"]


def test_write_permission(admin: Admin, topic: str) -> None:
    counts = admin.json("wipeWritePerm", "-b", "broker-a")
    assert [row["nameServer"] for row in counts] == list(admin.cluster.name_servers)
    assert all(row["topics"] > 0 for row in counts)
    restored = admin.json("addWritePerm", "-b", "broker-a")
    assert [row["topics"] for row in restored] == [row["topics"] for row in counts]
