"""Requests of clients and administrators other than send and pull."""

from __future__ import annotations

import pytest

from system_under_test.broker.topics import make_topic
from system_under_test.protocol import json_dialect
from system_under_test.protocol.bodies import (
    ConsumerData,
    HeartbeatData,
    SubscriptionData,
    SubscriptionGroupConfig,
    TopicConfigTable,
)
from system_under_test.protocol.codes import ResponseCode
from tests.system_under_test.broker.bench import Bench, Peer

QUEUE = {"topic": "TopicTest", "queueId": "0"}


def topic_ext(topic: str, queues: int = 2) -> dict[str, str]:
    """Fields of UPDATE_AND_CREATE_TOPIC."""
    return {
        "topic": topic,
        "defaultTopic": "TBW102",
        "readQueueNums": str(queues),
        "writeQueueNums": str(queues),
        "perm": "6",
        "topicFilterType": "SINGLE_TAG",
        "topicSysFlag": "0",
        "order": "false",
    }


def heartbeat_body(group: str = "g") -> bytes:
    consumer = ConsumerData(group_name=group, subscriptions=[SubscriptionData(topic="TopicTest")])
    heartbeat = HeartbeatData(client_id="c1", producer_groups=["p"], consumers=[consumer])
    return json_dialect.dumps(heartbeat.to_json())


# Offsets and single messages


def test_consumer_offset_of_a_young_queue_starts_at_0(bench: Bench) -> None:
    answer = bench.ask(bench.queries.query_consumer_offset, {**QUEUE, "consumerGroup": "new"})
    assert (answer.code, answer.ext_fields) == (0, {"offset": "0"})


def test_consumer_offset_is_stored_without_a_range_check(bench: Bench) -> None:
    group = {**QUEUE, "consumerGroup": "g"}
    for offset in ("77", "-1"):
        bench.ask(bench.queries.update_consumer_offset, {**group, "commitOffset": offset})
        answer = bench.ask(bench.queries.query_consumer_offset, group)
        assert answer.ext_fields == {"offset": offset}


def test_queue_bounds(bench: Bench) -> None:
    for _ in range(3):
        bench.send()
    assert bench.ask(bench.queries.max_offset, QUEUE).ext_fields == {"offset": "3"}
    assert bench.ask(bench.queries.min_offset, QUEUE).ext_fields == {"offset": "0"}
    unknown = {"topic": "Unknown", "queueId": "9"}
    assert bench.ask(bench.queries.max_offset, unknown).ext_fields == {"offset": "0"}


def test_times(bench: Bench) -> None:
    first_ms = bench.clock.now_ms
    for _ in range(3):
        bench.send()
        bench.clock.move(10)
    earliest = bench.ask(bench.queries.earliest_store_time, QUEUE)
    assert earliest.ext_fields == {"timestamp": str(first_ms)}
    search = {**QUEUE, "timestamp": str(first_ms + 10_000)}
    assert bench.ask(bench.queries.search_offset, search).ext_fields == {"offset": "1"}


def test_view_message_by_offset(bench: Bench) -> None:
    offset = int(bench.send(body=b"look at me").ext_fields["msgId"][16:], 16)
    answer = bench.ask(bench.queries.view_message, {"offset": str(offset)})
    assert b"look at me" in answer.body
    assert bench.ask(bench.queries.view_message, {"offset": "3"}).code == 1


# Clients


def test_heartbeat_creates_what_a_group_needs(bench: Bench) -> None:
    assert bench.ask(bench.client_requests.heartbeat, body=heartbeat_body()).code == 0
    retry_topic = bench.topics.get("%RETRY%g")
    assert retry_topic is not None
    assert (retry_topic.write_queue_nums, retry_topic.perm) == (1, 6)
    assert bench.topic_changes == 1
    bench.ask(bench.client_requests.heartbeat, body=heartbeat_body())
    assert bench.topic_changes == 1


def test_notification_comes_before_the_answer_to_the_heartbeat(bench: Bench) -> None:
    peer = Peer()
    bench.ask(bench.client_requests.heartbeat, body=heartbeat_body(), peer=peer)
    notification = peer.take()
    assert (notification.code, notification.is_oneway) == (40, True)
    assert notification.ext_fields == {"consumerGroup": "g"}


def test_slave_takes_heartbeats_but_creates_nothing(slave_bench: Bench) -> None:
    slave_bench.ask(slave_bench.client_requests.heartbeat, body=heartbeat_body())
    assert slave_bench.topics.get("%RETRY%g") is None
    answer = slave_bench.ask(slave_bench.client_requests.consumer_list, {"consumerGroup": "g"})
    assert json_dialect.loads(answer.body) == {"consumerIdList": ["c1"]}


def test_consumer_list_of_a_group_without_members(bench: Bench) -> None:
    answer = bench.ask(bench.client_requests.consumer_list, {"consumerGroup": "g"})
    assert answer.code == ResponseCode.SYSTEM_ERROR


def test_unregister(bench: Bench) -> None:
    bench.ask(bench.client_requests.heartbeat, body=heartbeat_body())
    ext = {"clientID": "c1", "producerGroup": "p", "consumerGroup": "g"}
    assert bench.ask(bench.client_requests.unregister, ext).code == 0
    assert bench.clients.consumer_group("g") is None
    assert bench.clients.producers("p") == []


# Administration


def test_topic_is_created_changed_and_deleted(bench: Bench) -> None:
    for queues in (2, 5):
        assert bench.ask(bench.admin.create_topic, topic_ext("New", queues)).code == 0
        topic = bench.topics.get("New")
        assert topic is not None
        assert topic.write_queue_nums == queues
    bench.offsets.commit("g", "New", 0, 1)
    assert bench.ask(bench.admin.delete_topic, {"topic": "New"}).code == 0
    assert bench.topics.get("New") is None
    assert bench.offsets.query("g", "New", 0) is None
    assert bench.topic_changes == 3


@pytest.mark.parametrize("topic", ["TBW102", "SELF_TEST_TOPIC", "rmq_sys_x", "bad topic"])
def test_topics_that_cannot_be_created_or_deleted(bench: Bench, topic: str) -> None:
    assert bench.ask(bench.admin.create_topic, topic_ext(topic)).code == 1
    assert bench.ask(bench.admin.delete_topic, {"topic": topic}).code == 1


def test_slave_changes_no_tables(slave_bench: Bench) -> None:
    assert slave_bench.ask(slave_bench.admin.create_topic, topic_ext("New")).code == 1
    group = json_dialect.dumps(SubscriptionGroupConfig(group_name="g").to_json())
    assert slave_bench.ask(slave_bench.admin.put_group, body=group).code == 1


def test_tables_travel_to_a_slave(bench: Bench, slave_bench: Bench) -> None:
    bench.ask(bench.admin.create_topic, topic_ext("New"))
    group = SubscriptionGroupConfig(group_name="g", retry_max_times=3)
    bench.ask(bench.admin.put_group, body=json_dialect.dumps(group.to_json()))
    topics = json_dialect.loads(bench.ask(bench.admin.all_topics).body)
    groups = json_dialect.loads(bench.ask(bench.admin.all_groups).body)
    assert slave_bench.topics.adopt(TopicConfigTable.from_json(topics))
    assert slave_bench.groups.adopt(groups)
    assert slave_bench.topics.get("New") == bench.topics.get("New")
    assert slave_bench.groups.find("g") == group
    assert not slave_bench.topics.adopt(TopicConfigTable.from_json(topics))
    assert not slave_bench.groups.adopt(groups)


def test_runtime_info(bench: Bench) -> None:
    bench.send()
    table = json_dialect.loads(bench.ask(bench.admin.runtime_info).body)["table"]
    assert table["commitLogMaxOffset"] == str(bench.store.end_offset)
    assert table["dispatchBehindBytes"] == "0"


def test_tables_survive_a_restart(bench: Bench) -> None:
    bench.topics.put(make_topic("Kept", 3))
    bench.groups.put(SubscriptionGroupConfig(group_name="kept", retry_queue_nums=2))
    bench.disk.power_cut()
    bench.disk.power_on()
    bench.topics.load()
    bench.groups.load()
    topic = bench.topics.get("Kept")
    assert topic is not None
    assert topic.read_queue_nums == 3
    group = bench.groups.find("kept")
    assert group is not None
    assert group.retry_queue_nums == 2
