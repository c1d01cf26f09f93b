"""Subscription groups through the handler table: codes 200, 201, 207."""

from __future__ import annotations

import pytest

from staticfire.system_under_test.broker.metadata import subscription_groups
from staticfire.system_under_test.protocol import json_dialect
from staticfire.system_under_test.protocol.bodies import SubscriptionGroupConfig
from staticfire.system_under_test.protocol.bodies_clients import SubscriptionGroupTable
from staticfire.system_under_test.protocol.codes import RequestCode, ResponseCode
from tests.system_under_test.broker.admin_language import consume
from tests.system_under_test.broker.bench import Bench

PUT = RequestCode.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP
ALL = RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG
DELETE = RequestCode.DELETE_SUBSCRIPTIONGROUP


def group_body(name: str = "g", **settings: object) -> bytes:
    return json_dialect.dumps({"groupName": name, **settings})


def test_group_is_created_and_travels_to_a_slave(bench: Bench, slave_bench: Bench) -> None:
    assert bench.request(PUT, body=group_body(retryMaxTimes=3)).code == 0
    table = SubscriptionGroupTable.from_bytes(bench.request(ALL).body)
    assert table.groups["g"] == SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    assert slave_bench.groups.adopt(table)
    assert slave_bench.groups.get("g") == table.groups["g"]
    assert not slave_bench.groups.adopt(table)


@pytest.mark.parametrize("removes", [True, False])
def test_deleted_group_keeps_its_offsets_unless_requested(bench: Bench, removes: bool) -> None:
    bench.request(PUT, body=group_body())
    for topic in ("t", "u"):
        bench.offsets.commit("g", topic, 0, 5)
        bench.offsets.commit("other", topic, 0, 5)
    ext = {"groupName": "g", "removeOffset": "true" if removes else "false"}
    assert bench.request(DELETE, ext).code == 0
    assert bench.groups.get("g") is None
    assert bench.offsets.topics_of("g") == ([] if removes else ["t", "u"])
    assert bench.offsets.topics_of("other") == ["t", "u"]
    assert bench.request(DELETE, ext).code == 0  # an unknown group is no error


@pytest.mark.parametrize(
    ("body", "remark"),
    [
        (group_body(""), "blank"),
        (group_body("a@b"), "illegal characters"),
        (group_body("x" * 256), "longer than group max length 255"),
        (group_body(retryMaxTimes="many"), "retryMaxTimes"),
        (b"{}", "groupName is missing"),
        (b"[]", "not an object"),
        (b"{", "not JSON"),
        (b"\xff", "not UTF-8"),
        (b"", "not JSON"),
    ],
)
def test_bad_groups(bench: Bench, body: bytes, remark: str) -> None:
    answer = bench.request(PUT, body=body)
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert remark in (answer.remark or "")


def test_slave_changes_no_groups(slave_bench: Bench) -> None:
    for answer in (
        slave_bench.request(PUT, body=group_body()),
        slave_bench.request(DELETE, {"groupName": "g"}),
    ):
        assert answer.code == ResponseCode.SYSTEM_ERROR
        assert "from slave broker" in (answer.remark or "")


def test_group_that_no_topic_can_be_named_after_gets_none(bench: Bench) -> None:
    consume(bench, "a@b", "t")
    assert bench.groups.get("a@b") is None
    assert bench.topics.get("%RETRY%a@b") is None


def test_group_table_survives_a_power_cut(bench: Bench) -> None:
    bench.request(PUT, body=group_body(consumeEnable=False))
    bench.disk.power_cut()
    bench.disk.power_on()
    bench.groups.load()
    group = bench.groups.get("g")
    assert group is not None
    assert not group.consume_enable


def test_the_table_of_groups_is_bounded(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(subscription_groups, "TABLE_MAX", len(bench.groups.names()) + 1)
    assert bench.request(PUT, body=group_body("g")).code == 0
    answer = bench.request(PUT, body=group_body("h"))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark is not None
    assert "groups; allowed: up to" in answer.remark
    assert bench.groups.get("h") is None
    assert bench.request(PUT, body=group_body("g", retryMaxTimes=3)).code == 0


@pytest.mark.parametrize("queues", [-1, 8193])
def test_a_group_has_as_many_retry_queues_as_a_topic_may_have(bench: Bench, queues: int) -> None:
    answer = bench.request(PUT, body=group_body(retryQueueNums=queues))
    assert answer.code == ResponseCode.SYSTEM_ERROR
    assert answer.remark == f"retryQueueNums is {queues}, allowed are 0 to 4096"
